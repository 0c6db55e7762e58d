"""Lists and dicts as Python writes them, translated to JSON in one pass; pure.

Python's own parser would hold the interpreter meanwhile: seconds for a text of 1 MiB, in which no other
request is answered.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
      (?P<string> '[^'\\\n]*(?:\\.[^'\\\n]*)*' | "[^"\\\n]*(?:\\.[^"\\\n]*)*" )
    | (?P<number> -?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)? ) (?![\w.])
    | (?P<word> None | True | False ) (?!\w)
    | (?P<mark> [\[\](){},:] )
    | [ \t\r\n]+
    """,
    re.VERBOSE,
)
_OTHERS = {"None": "null", "True": "true", "False": "false", "(": "[", ")": "]"}
_ESCAPE = re.compile(r'\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|"')
_SAME = frozenset('\\nrt"')


class NoLiteral(Exception):
    """A text that is nothing that this module translates."""


def json_of_literal(text: str) -> str:
    """Return a list, tuple or dict of Python's notation as JSON. Raises NoLiteral.

    What is not balanced comes out as it is, and is no JSON then. Sets, bytes and calls are not translated.
    """
    written: list[str] = []
    at, number = 0, False
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise NoLiteral
        at, kind, found = token.end(), token.lastgroup, token[0]
        if kind is None:
            continue
        if found == ":" and number:
            written[-1] = f'"{written[-1]}"'  # a key of JSON is a text
        elif found == ")" and written and written[-1] == ",":
            del written[-1]
        number = kind == "number"
        written.append(_quoted(found) if kind == "string" else _OTHERS.get(found, found))
    return "".join(written)


def _quoted(token: str) -> str:
    inside = token[1:-1]
    if "\\" in inside or '"' in inside:
        inside = _ESCAPE.sub(_escape, inside)
    return f'"{inside}"'


def _escape(match: re.Match[str]) -> str:
    """Return an escape of Python, or a quotation mark, as JSON has it. Raises NoLiteral."""
    escaped = match[1]
    if escaped is None or escaped in _SAME:
        return f"\\{escaped or match[0]}"
    if escaped == "'":
        return "'"
    if len(escaped) == 1:
        raise NoLiteral
    if escaped[0] == "u":
        return f"\\{escaped}"
    try:
        character = chr(int(escaped[1:], 16))
    except (ValueError, OverflowError):
        raise NoLiteral from None
    return f"\\u{ord(character):04x}" if character < " " or character in _SAME else character
