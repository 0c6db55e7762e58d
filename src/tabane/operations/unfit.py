"""What is said of parameters that do not fit: which one, why, and what would; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.operations.decoding import worded
from tabane.operations.operation import input_schema

if TYPE_CHECKING:
    import msgspec

    from tabane.operations.operation import Operation

LONGEST_NAME = 100
"""Characters of a parameter's name that are repeated: a caller may make up any."""

# msgspec ends its messages with " - at `$.path`", and names a member that is missing or unknown within.
_member = re.compile(r"(?:required|unknown) field `(.*)`", re.DOTALL).search


def unfit(operation: Operation, error: msgspec.ValidationError) -> BadArguments:
    """The error to raise where parameters do not fit the operation's type."""
    detail, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    member = _member(detail)
    named = ".".join(part for part in (path, member[1] if member else "") if part)
    parameter = named if len(named) <= LONGEST_NAME else f"{named[:LONGEST_NAME]}…"
    said = worded(detail)
    if not parameter:
        return BadArguments(say("{name}: {detail}", name=operation.name, detail=said))
    if member and member[1] in operation.moved:
        return BadArguments(
            say(
                "{parameter}: {name} no longer accepts this parameter. Call {other} instead.",
                parameter=parameter,
                name=operation.name,
                other=operation.moved[member[1]],
            ),
            parameter,
        )
    fits = allowed(operation, re.split(r"[.\[]", named, maxsplit=1)[0])
    if fits:
        text = say(
            "{parameter}: {detail} (allowed: {allowed})", parameter=parameter, detail=said, allowed=fits
        )
    else:
        text = say("{parameter}: {detail}", parameter=parameter, detail=said)
    return BadArguments(text, parameter)


def allowed(operation: Operation, parameter: str) -> Message | None:
    """Return the range or choices of a parameter, as ``1 to 100``; None if it has none, or does not exist."""
    try:
        return range_of(input_schema(operation.params)["properties"].get(parameter, {}))
    except ValueError:
        return None  # A struct of structs, whose members have their own ranges.


def range_of(schema: dict[str, Any]) -> Message | None:
    """Describe what a JSON Schema of a plain value allows; None if it allows anything."""
    if "enum" in schema:
        return Message("{values}", values=", ".join(str(value) for value in schema["enum"]))
    if "minimum" in schema or "maximum" in schema:
        return _between(schema.get("minimum"), schema.get("maximum"))
    if "minLength" in schema or "maxLength" in schema:
        return say("{range} characters", range=_between(schema.get("minLength"), schema.get("maxLength")))
    if "minItems" in schema or "maxItems" in schema:
        return say("{range} items", range=_between(schema.get("minItems"), schema.get("maxItems")))
    return None


def _between(least: object, most: object) -> Message:
    if least is None:
        return Message("≤ {most}", most=most)
    if most is None:
        return Message("≥ {least}", least=least)
    return say("{least} to {most}", least=least, most=most)
