"""Errors of parameters that do not fit: the parameter, the reason, and the values that are allowed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.operations.operation import input_schema

if TYPE_CHECKING:
    from tabane.operations.operation import Operation

LONGEST_NAME = 100
"""Longest part of a parameter's name in an error, in characters. A caller may send any name."""

# msgspec ends its messages with " - at `$.path`", and names a member that is missing or unknown within.
_member = re.compile(r"(?:required|unknown) field `(.*)`", re.DOTALL).search


def parameter_error(operation: Operation, error: Exception) -> BadArguments:
    """Return the error for parameters that are not readable JSON, or do not fit the operation's type."""
    if not isinstance(error, msgspec.ValidationError):
        why = say("nested too deeply") if isinstance(error, RecursionError) else decoder_message(error)
        return BadArguments(
            say("{name}: the parameters are not readable JSON ({detail})", name=operation.name, detail=why)
        )
    detail, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    member = _member(detail)
    named = ".".join(part for part in (path, member[1] if member else "") if part)
    parameter = named if len(named) <= LONGEST_NAME else f"{named[:LONGEST_NAME]}…"
    reason = decoder_message(detail)
    if not parameter:
        return BadArguments(say("{name}: {detail}", name=operation.name, detail=reason))
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
    fits = allowed_values(operation, re.split(r"[.\[]", named, maxsplit=1)[0])
    if fits:
        text = say(
            "{parameter}: {detail} (allowed: {allowed})", parameter=parameter, detail=reason, allowed=fits
        )
    else:
        text = say("{parameter}: {detail}", parameter=parameter, detail=reason)
    return BadArguments(text, parameter)


def allowed_values(operation: Operation, parameter: str) -> Message | None:
    """Return the range or choices of a parameter, as ``1 to 100``. None if it has none, or does not exist."""
    try:
        return describe_range(input_schema(operation.params)["properties"].get(parameter, {}))
    except ValueError:
        return None  # a struct of structs: its members have their own ranges


def describe_range(schema: dict[str, Any]) -> Message | None:
    """Return the range or choices of a JSON Schema for a plain value. None if it allows any value."""
    if "enum" in schema:
        return Message("{values}", values=", ".join(str(value) for value in schema["enum"]))
    if "minimum" in schema or "maximum" in schema:
        return _range_message(schema.get("minimum"), schema.get("maximum"))
    if "minLength" in schema or "maxLength" in schema:
        return say(
            "{range} characters", range=_range_message(schema.get("minLength"), schema.get("maxLength"))
        )
    if "minItems" in schema or "maxItems" in schema:
        return say("{range} items", range=_range_message(schema.get("minItems"), schema.get("maxItems")))
    return None


def _range_message(least: object, most: object) -> Message:
    if least is None:
        return Message("≤ {most}", most=most)
    if most is None:
        return Message("≥ {least}", least=least)
    return say("{least} to {most}", least=least, most=most)


_ToMessage = Callable[[re.Match[str]], Message]

_SENTENCES: tuple[tuple[re.Pattern[str], _ToMessage], ...] = tuple(
    (re.compile(pattern, re.DOTALL), message)
    for pattern, message in (
        (
            "Expected `(.*)`, got `(.*)`",
            lambda m: say("Expected `{wanted}`, got `{given}`", wanted=m[1], given=m[2]),
        ),
        (
            "Expected `(.*)` (>=|<=|>|<) (.*)",
            lambda m: say("Expected `{wanted}` {sign} {limit}", wanted=m[1], sign=m[2], limit=m[3]),
        ),
        (
            "Expected `(.*)` of length (>=|<=) ([0-9]+)",
            lambda m: say("Expected `{wanted}` of length {sign} {limit}", wanted=m[1], sign=m[2], limit=m[3]),
        ),
        (
            "Expected `(.*)` matching regex (.*)",
            lambda m: say("Expected `{wanted}` matching regex {pattern}", wanted=m[1], pattern=m[2]),
        ),
        (
            "Expected `(.*)` that's a multiple of (.*)",
            lambda m: say("Expected `{wanted}` that's a multiple of {limit}", wanted=m[1], limit=m[2]),
        ),
        ("Invalid enum value (.*)", lambda m: say("Invalid enum value {value}", value=m[1])),
        (
            "Object missing required field `(.*)`",
            lambda m: say("Object missing required field `{name}`", name=m[1]),
        ),
        (
            "Object contains unknown field `(.*)`",
            lambda m: say("Object contains unknown field `{name}`", name=m[1]),
        ),
        ("Integer value out of range", lambda m: say("Integer value out of range")),
        ("Number out of range", lambda m: say("Number out of range")),
        ("Input data was truncated", lambda m: say("Input data was truncated")),
        (
            r"JSON is malformed: (.*) \(byte ([0-9]+)\)",
            lambda m: say(
                "JSON is malformed: {why} (byte {place})", why=_malformed_message(m[1]), place=m[2]
            ),
        ),
        ("Invalid UTF-8", lambda m: say("Invalid UTF-8")),
    )
)


def decoder_message(detail: object) -> Message:
    """Return an error of the decoder as a message that can be translated. The English text stays the same."""
    text = str(detail)
    for pattern, message in _SENTENCES:
        found = pattern.fullmatch(text)
        if found:
            return message(found)
    return Message("{detail}", detail=text)


def _malformed_message(why: str) -> Message:
    known = {
        "invalid character": say("invalid character"),
        "trailing characters": say("trailing characters"),
        "trailing comma in object": say("trailing comma in object"),
        "trailing comma in array": say("trailing comma in array"),
        "expected ',' or '}'": say("expected ',' or '}'"),
        "expected ',' or ']'": say("expected ',' or ']'"),
        "expected ':'": say("expected ':'"),
        "expected '\"'": say("expected '\"'"),
        "object keys must be strings": say("object keys must be strings"),
        "invalid number": say("invalid number"),
        "invalid escape character in string": say("invalid escape character in string"),
        "unexpected end of escaped utf-16 surrogate pair": say(
            "unexpected end of escaped utf-16 surrogate pair"
        ),
    }
    return known.get(why) or Message("{detail}", detail=why)
