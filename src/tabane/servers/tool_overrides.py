"""Overrides of single tools in the servers file: other names and texts, and parameters that the user decides.

A mistake in an override never stops its server. It is a fault, which is shown. If it could concern an
argument that the user wanted to fix, the tool refuses calls until the mistake is corrected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field, structs

from tabane.messages import Message, say
from tabane.servers.redaction import is_secret_name
from tabane.servers.variables import Variables, expand
from tabane.text.nearest_names import nearest

MOST_OVERRIDES = 1_000
"""Tools that one server may have overrides for."""

LONGEST_NAME = 128
ANNOTATIONS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
"""Annotations of a tool that may be replaced."""

_TOOL_KEYS = ("name", "title", "description", "annotations", "hidden", "parameters")
_PARAMETER_KEYS = ("description", "hidden", "fixed", "default")


class ParameterOverride(Struct, frozen=True):
    """The override of one parameter of a tool. ``fixed`` and ``default`` are JSON; None if not given.

    ``fixed`` is always sent, ``default`` if the caller gives no value. ``shown_default``: the default may be
    shown in the schema, because no variable is in it.
    """

    name: str
    description: str | None = None
    hidden: bool = False
    fixed: bytes | None = None
    default: bytes | None = None
    shown_default: bool = True

    def __repr__(self) -> str:
        return f"ParameterOverride({self.name!r})"

    @property
    def withheld(self) -> bool:
        """Whether a caller neither sees the parameter nor may give it."""
        return self.hidden or self.fixed is not None


class ToolOverride(Struct, frozen=True):
    """The override of one tool. ``tool`` is the server's own name for it.

    Texts that are None stay as the server gives them. ``faults`` are mistakes in it. ``refused`` is why the
    tool cannot be called: an argument that may have to be fixed is not known.
    """

    tool: str
    name: str | None = None
    title: str | None = None
    description: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    hidden: bool = False
    parameters: tuple[ParameterOverride, ...] = ()
    faults: tuple[Message, ...] = ()
    refused: Message | None = None

    def parameter(self, name: str) -> ParameterOverride | None:
        """Return the override of a parameter; None if it has none."""
        return next((each for each in self.parameters if each.name == name), None)


def read_overrides(value: object) -> tuple[ToolOverride, ...]:
    """Return the object "overrides". Never raises: mistakes are faults of the result."""
    if not isinstance(value, dict):
        return (ToolOverride("", faults=(say("it must be an object of the server's own names of tools."),)),)
    found = [_ToolReader(name).read(given) for name, given in list(value.items())[:MOST_OVERRIDES]]
    if len(value) > MOST_OVERRIDES:
        what = say("only the first {most} {most:tool|tools} are read; it has more.", most=MOST_OVERRIDES)
        found.append(ToolOverride("", faults=(what,)))
    return tuple(found)


def override_fault(override: ToolOverride, fault: Message) -> Message:
    """Return a fault of an override, with the tool that it is about."""
    if not override.tool:
        return say('"overrides": {fault}', fault=fault)
    return say('the override of the tool "{tool}": {fault}', tool=override.tool, fault=fault)


class _ToolReader:
    """Reads the override of one tool, and collects its faults."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._faults: list[Message] = []
        self._refused: Message | None = None

    def read(self, given: object) -> ToolOverride:
        if not isinstance(given, dict):
            self._refuse("", say("an object"))
            given = {}
        self._note_unknown(given, _TOOL_KEYS, "")
        parameters = tuple(self._parameters(given.get("parameters")))
        return ToolOverride(
            self._tool,
            self._checked_value(
                given,
                "name",
                _name,
                say("a name of 1 to {most} {most:character|characters}", most=LONGEST_NAME),
            ),
            self._checked_value(given, "title", _text, say("a text in quotes")),
            self._checked_value(given, "description", _text, say("a text in quotes")),
            self._annotations(given.get("annotations")),
            self._hidden(given, ""),
            parameters,
            tuple(self._faults),
            self._refused,
        )

    def _annotations(self, given: object) -> Mapping[str, Any]:
        if given is None:
            return {}
        if not isinstance(given, dict):
            self._note_wrong("annotations", say("an object"))
            return {}
        self._note_unknown(given, ANNOTATIONS, "annotations.")
        found: dict[str, Any] = {}
        for key in ANNOTATIONS:
            check, allowed = _text, say("a text in quotes")
            if key != "title":
                check, allowed = (lambda value: isinstance(value, bool)), _BOOLEAN
            value = self._checked_value(given, key, check, allowed, "annotations.")
            if value is not None:
                found[key] = value
        return found

    def _parameters(self, given: object) -> Iterator[ParameterOverride]:
        if given is None:
            return
        if not isinstance(given, dict):
            self._refuse("parameters", say("an object of parameters"))
            return
        for name, part in given.items():
            place = f"parameters.{name}"
            if not isinstance(part, dict):
                self._refuse(place, say("an object"))
                continue
            for key in self._note_unknown(part, _PARAMETER_KEYS, f"{place}."):
                # It may be a misspelled "fixed", so the tool must not be called without it.
                self._refused = self._refused or say('the key "{key}" is unknown.', key=f"{place}.{key}")
            yield ParameterOverride(
                name,
                self._checked_value(part, "description", _text, say("a text in quotes"), f"{place}."),
                self._hidden(part, f"{place}."),
                _json(part["fixed"]) if "fixed" in part else None,
                _json(part["default"]) if "default" in part else None,
            )

    def _hidden(self, given: Mapping[str, Any], before: str) -> bool:
        value = given.get("hidden", False)
        if not isinstance(value, bool):
            self._refuse(f"{before}hidden", _BOOLEAN)
        return value is True

    def _checked_value(
        self,
        given: Mapping[str, Any],
        key: str,
        check: Callable[[Any], bool],
        allowed: Message,
        before: str = "",
    ) -> Any:
        value = given.get(key)
        if value is None or check(value):
            return value
        self._note_wrong(before + key, allowed)
        return None

    def _note_unknown(self, given: Mapping[str, Any], known: tuple[str, ...], before: str) -> list[str]:
        unknown = [key for key in given if key not in known]
        for key in unknown:
            near, name = nearest(key, known, 1), before + key
            self._faults.append(
                say('the key "{key}" is unknown. Did you mean {near}?', key=name, near=near[0])
                if near
                else say('the key "{key}" is unknown.', key=name)
            )
        return unknown

    def _note_wrong(self, place: str, allowed: Message) -> Message:
        what = (
            say('"{key}" must be {allowed}.', key=place, allowed=allowed)
            if place
            else say("it must be {allowed}.", allowed=allowed)
        )
        self._faults.append(what)
        return what

    def _refuse(self, place: str, allowed: Message) -> None:
        what = self._note_wrong(place, allowed)
        self._refused = self._refused or what


_BOOLEAN = say("true or false")


def _text(value: object) -> bool:
    return isinstance(value, str)


def _name(value: object) -> bool:
    return isinstance(value, str) and value.strip() == value and 0 < len(value) <= LONGEST_NAME


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# -- variables -----------------------------------------------------------------------------------------


def with_variables(
    overrides: tuple[ToolOverride, ...], variables: Variables
) -> tuple[tuple[ToolOverride, ...], tuple[str, ...]]:
    """Return the overrides with the variables of their values, and the secrets among these values.

    A value whose variable is not set makes its tool refuse calls.
    """
    secrets: list[str] = []
    return tuple(_expand_tool(each, variables, secrets) for each in overrides), tuple(secrets)


def _expand_tool(override: ToolOverride, variables: Variables, secrets: list[str]) -> ToolOverride:
    parameters, problems = [], []
    for given in override.parameters:
        fixed = _Value(given.fixed, variables)
        default = _Value(given.default, variables)
        problems += [
            say('"parameters.{name}": {why}', name=given.name, why=why)
            for why in (fixed.problem, default.problem)
            if why is not None
        ]
        secrets += [*fixed.secrets, *default.secrets]
        if is_secret_name(given.name):
            secrets += [*fixed.texts, *default.texts]
        shown = not default.varies and not is_secret_name(given.name)
        parameters.append(structs.replace(given, fixed=fixed.json, default=default.json, shown_default=shown))
    return structs.replace(
        override,
        parameters=tuple(parameters),
        faults=(*override.faults, *problems),
        refused=override.refused or next(iter(problems), None),
    )


class _Value:
    """A value of JSON after expansion of the variables in its texts, at any depth."""

    def __init__(self, given: bytes | None, variables: Variables) -> None:
        self.secrets: list[str] = []
        self.texts: list[str] = []
        self.problem: Message | None = None
        self.varies = False
        self._variables = variables
        self.json = None if given is None else _json(self._expanded(json.loads(given)))

    def _expanded(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._expanded(part) for part in value]
        if isinstance(value, dict):
            return {key: self._expanded(part) for key, part in value.items()}
        return value

    def _text(self, text: str) -> str:
        found = expand(text, self._variables)
        if found.faults:
            self.problem = self.problem or found.faults[0]
        elif found.needs_folder:
            self.problem = self.problem or say("the folder of a client cannot be used here.")
        elif found.missing:
            self.problem = self.problem or say(
                "not set: {names}. Run: tabane secrets set {first}. Or set it in the environment in which "
                "the hub is started.",
                names=", ".join(found.missing),
                first=found.missing[0],
            )
        self.varies = self.varies or found.text() != text
        self.secrets += found.secrets
        self.texts.append(found.text())
        return found.text()
