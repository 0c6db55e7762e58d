"""What is said of parameters that do not fit: which one, why, and what would; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tabane.errors import BadArguments
from tabane.messages import say
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
    if not parameter:
        return BadArguments(say("{name}: {detail}", name=operation.name, detail=detail))
    if member and member[1] in operation.moved:
        return BadArguments(
            say(
                "{parameter}: {name} does not take this any more. Call {other} for it.",
                parameter=parameter,
                name=operation.name,
                other=operation.moved[member[1]],
            ),
            parameter,
        )
    fits = allowed(operation, re.split(r"[.\[]", named, maxsplit=1)[0])
    if fits:
        text = say(
            "{parameter}: {detail} (allowed: {allowed})", parameter=parameter, detail=detail, allowed=fits
        )
    else:
        text = say("{parameter}: {detail}", parameter=parameter, detail=detail)
    return BadArguments(text, parameter)


def allowed(operation: Operation, parameter: str) -> str:
    """The range or choice of a parameter, as ``1 to 100``; empty where it has none, or there is none."""
    try:
        return range_of(input_schema(operation.params)["properties"].get(parameter, {}))
    except ValueError:
        return ""  # A struct of structs, whose members have ranges of their own.


def range_of(schema: dict[str, Any]) -> str:
    """What a JSON Schema of a plain value lets through, in words that need no translation."""
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"])
    for least, most, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ):
        if least in schema or most in schema:
            return _between(schema.get(least), schema.get(most)) + unit
    return ""


def _between(least: object, most: object) -> str:
    if least is None:
        return f"≤ {most}"
    return f"≥ {least}" if most is None else f"{least} to {most}"
