"""Changes of the override of one tool in a server's definition, as a person asks for them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.servers.tool_overrides import read_overrides


class OverrideEdit(Struct, frozen=True):
    """What to change. A text that is None stays; an empty one is removed from the override.

    ``restored`` are parameters whose override is removed. ``reset``: the whole override is removed first.
    """

    name: str | None = None
    title: str | None = None
    description: str | None = None
    hidden: bool | None = None
    hide: Iterable[str] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    described: Mapping[str, str] = field(default_factory=dict)
    restored: Iterable[str] = ()
    reset: bool = False

    def apply(self, definition: Mapping[str, Any], tool: str) -> dict[str, Any]:
        """Return the definition with the changed override. Raises BadArguments if the result is wrong."""
        overrides = definition.get("overrides", {})
        before = overrides.get(tool, {}) if isinstance(overrides, dict) else None
        if not isinstance(before, dict):
            raise BadArguments(
                say('The key "overrides" is not an object of tools. Correct it in the servers file.')
            )
        override = self._changed({} if self.reset else dict(before))
        left = {name: each for name, each in overrides.items() if name != tool}
        overrides = {**overrides, tool: override} if override else left
        found = {key: value for key, value in definition.items() if key != "overrides" or overrides}
        if overrides:
            found["overrides"] = overrides
        _check(override, tool)
        return found

    def _changed(self, override: dict[str, Any]) -> dict[str, Any]:
        for key in ("name", "title", "description"):
            text = getattr(self, key)
            if text is not None:
                override[key] = text
            if text == "":
                del override[key]
        if self.hidden is not None:
            override.pop("hidden", None)
            override |= {"hidden": True} if self.hidden else {}
        parameters = self._parameters(override.pop("parameters", {}))
        return {**override, "parameters": parameters} if parameters else override

    def _parameters(self, given: Any) -> dict[str, Any]:
        parameters = dict(given) if isinstance(given, dict) else {}
        changes: list[tuple[str, dict[str, Any]]] = [(name, {"hidden": True}) for name in self.hide]
        changes += [(name, {"fixed": value}) for name, value in self.fixed.items()]
        changes += [(name, {"default": value}) for name, value in self.defaults.items()]
        changes += [(name, {"description": text}) for name, text in self.described.items()]
        for name in self.restored:
            parameters.pop(name, None)
        for name, change in changes:
            before = parameters.get(name)
            parameters[name] = (before if isinstance(before, dict) else {}) | change
        return parameters


def _check(override: Mapping[str, Any], tool: str) -> None:
    faults = [fault for each in read_overrides({tool: override}) for fault in each.faults] if override else []
    if faults:
        raise BadArguments(say("The override of {tool} is wrong: {why}", tool=tool, why=faults[0]))
