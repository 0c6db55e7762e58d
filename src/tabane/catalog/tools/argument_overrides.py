"""Arguments that the user decides, put into calls: fixed values, defaults, and parameters nobody may give."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw, Struct, field

from tabane.errors import BadArguments, CallerError
from tabane.messages import Message, say
from tabane.wire.json import InvalidJson, fields, join


class ArgumentOverrides(Struct, frozen=True):
    """What the servers file decides about the arguments of a tool. Values are JSON.

    ``withheld`` are parameters that no caller may give. ``refused`` is why no call is made at all.
    """

    fixed: Mapping[str, bytes] = field(default_factory=dict)
    defaults: Mapping[str, bytes] = field(default_factory=dict)
    withheld: frozenset[str] = frozenset()
    refused: Message | None = None

    def __repr__(self) -> str:
        return f"ArgumentOverrides({list(self.fixed)}, {list(self.defaults)})"

    def applied(self, arguments: bytes, tool: str) -> bytes:
        """Return the arguments for the server. ``tool`` is the public name, for the error.

        Raises CallerError if the tool may not be called, and BadArguments.
        """
        if self.refused is not None:
            raise CallerError(
                say(
                    'The tool {tool} cannot be called, because its entry in "overrides" of the servers file '
                    "is wrong: {why}",
                    tool=tool,
                    why=self.refused,
                )
            )
        given = _members(arguments, tool)
        if refused := sorted(self.withheld & given.keys()):
            raise BadArguments(
                say("{tool} has no parameter {name}. Call it without that.", tool=tool, name=refused[0]),
                refused[0],
            )
        defaults = {name: Raw(value) for name, value in self.defaults.items() if name not in given}
        return join({**given, **defaults, **{name: Raw(value) for name, value in self.fixed.items()}})


def _members(arguments: bytes, tool: str) -> dict[str, Raw]:
    if arguments.strip() in (b"", b"null"):
        return {}
    try:
        return fields(arguments)
    except InvalidJson:
        raise BadArguments(
            say("arguments of {tool}: an object is required.", tool=tool), "arguments"
        ) from None
