"""Errors of the parameter decoder, as sentences that can be translated; pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from tabane.messages import Message, say

_Said = Callable[[re.Match[str]], Message]

_SENTENCES: tuple[tuple[re.Pattern[str], _Said], ...] = tuple(
    (re.compile(pattern, re.DOTALL), said)
    for pattern, said in (
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
            lambda m: say("JSON is malformed: {why} (byte {place})", why=_malformed(m[1]), place=m[2]),
        ),
        ("Invalid UTF-8", lambda m: say("Invalid UTF-8")),
    )
)


def worded(detail: object) -> Message:
    """Return the sentence for an error of the decoder; in English it is the same. Others stay unchanged."""
    text = str(detail)
    for pattern, said in _SENTENCES:
        found = pattern.fullmatch(text)
        if found:
            return said(found)
    return Message("{detail}", detail=text)


def _malformed(why: str) -> Message:
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
