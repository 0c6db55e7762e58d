"""Values of scripts as JSON, within a budget, and results of tools as values of a script; pure.

What a script returns may share its parts: sixty dicts, each with the one before twice, are 2**60 values when
they are written. So each value is paid for before anything is built of it.

Lists and dicts as Python writes them are translated to JSON in one pass. Python's own parser would hold the
interpreter meanwhile: seconds for a text of 1 MiB, in which no other request is answered.
"""

from __future__ import annotations

import base64
import datetime
import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from msgspec import Raw

from tabane.wire import json
from tabane.wire.json import InvalidJson

MOST_DEPTH = 64

_LONGEST_NUMBER = 13_000
"""Bits of a number that is written as a text: Python refuses to write a longer one."""


class NoJson(Exception):
    """A value that is no JSON. The text says why, as the end of a sentence that begins with what it is."""


class TooLarge(NoJson):
    """A value beyond the budget."""


class JsonBudget:
    """Bytes and values that the JSON of one value may have."""

    def __init__(self, size: int, values: int = 1 << 40) -> None:
        self.size, self.values = size, values
        self._left, self._values = size, values

    def pay(self, size: int = 1) -> None:
        """Pay for one value that is written in ``size`` bytes at least. Raises TooLarge."""
        self._left -= size + 1
        self._values -= 1
        if self._left < -1:
            raise TooLarge(f"more than {self.size >> 10} KiB")
        if self._values < 0:
            raise TooLarge(f"more than {self.values:,} values")


def bounded_json(value: Any, budget: JsonBudget, *, strict: bool = False) -> bytes:
    """Return a value of a script as JSON. Raises NoJson.

    Sets and tuples become lists, bytes base64, times ISO 8601. What has attributes becomes an object,
    anything else its text; if ``strict``, these raise NoJson, and so do numbers of more than 64 bits.
    """
    written = json.encode(_JsonValues(budget, strict).read(value, 0))
    if len(written) > budget.size:
        raise TooLarge(f"more than {budget.size >> 10} KiB")
    return written


class _JsonValues:
    """Converts one value, and everything inside it."""

    def __init__(self, budget: JsonBudget, strict: bool) -> None:
        self._budget, self._strict = budget, strict

    def read(self, value: Any, depth: int) -> Any:
        if depth > MOST_DEPTH:
            raise NoJson(f"nested more than {MOST_DEPTH} levels deep")
        self._budget.pay(len(value) if isinstance(value, str | bytes) else 1)
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int):
            if -(1 << 63) <= value < 1 << (64 if self._strict else 63):
                return value
            if self._strict:
                raise NoJson("no JSON (a whole number has more than 64 bits)")
            return self._number_text(value)
        if isinstance(value, float):
            return value if math.isfinite(value) or self._strict else str(value)
        if isinstance(value, Mapping):
            return {self._json_key(key, depth): self.read(member, depth + 1) for key, member in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.read(member, depth + 1) for member in value]
        return self._json_of_other(value, depth)

    def _number_text(self, value: int) -> str:
        if value.bit_length() > _LONGEST_NUMBER:
            raise NoJson("a number with more than 3,900 digits")
        self._budget.pay(value.bit_length() // 4)
        return str(value)

    def _json_key(self, key: Any, depth: int) -> str:
        if isinstance(key, str):
            self._budget.pay(len(key))
            return key
        if isinstance(key, int) and not isinstance(key, bool):
            return self._number_text(key)
        self.read(key, depth + 1)  # pays for what is written below
        return str(key)

    def _json_of_other(self, value: Any, depth: int) -> Any:
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, datetime.date | datetime.time):
            return value.isoformat()
        if isinstance(value, Decimal | datetime.timedelta):
            return str(value)
        if self._strict:
            raise NoJson(f"no JSON (a value of type {type(value).__name__})")
        attributes = getattr(value, "attributes", None)  # an instance of a class of the script
        if isinstance(attributes, dict):
            return self.read(attributes, depth + 1)
        parts = getattr(value, "args", None)
        if isinstance(parts, Iterable):  # an exception, whose text shows all of them
            for part in parts:
                self.read(part, depth + 1)
        return str(value)


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
        if kind == "string":
            inside = found[1:-1]
            found = (
                f'"{_ESCAPE.sub(_json_escape, inside)}"' if "\\" in inside or '"' in inside else f'"{inside}"'
            )
        written.append(_OTHERS.get(found, found))
    return "".join(written)


def _json_escape(match: re.Match[str]) -> str:
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


WRAPPED = "result"
"""The member in which servers of FastMCP put a result that is no object."""

LONGEST_PYTHON = 256 << 10
"""Characters of a text in Python's notation that is parsed."""

_PYTHON = re.compile(r"\s*[\[{(]+'")


class ToolFailed(Exception):
    """A tool says that it has failed. The text is the tool's own."""


def tool_value(result: Raw, *, wrapped: bool = False) -> Any:
    """Return the result of a tool as a value. Raises ToolFailed if it is a failure.

    It is ``structuredContent`` where there is some; of one that is ``wrapped``, the inside. Otherwise it is
    the text, parsed if that is an object or array of JSON, or a dict or list as Python writes it. Several
    blocks of content are a list.
    """
    try:
        members = json.fields(result)
        content = [_block_value(block) for block in json.elements(members.get("content", Raw(b"[]")))]
        if bytes(members.get("isError", b"")) == b"true":
            raise ToolFailed(
                "\n".join(part for part in content if isinstance(part, str)) or "the tool failed"
            )
        structured = _decode_json(members["structuredContent"]) if "structuredContent" in members else None
    except InvalidJson as error:
        raise ToolFailed(f"the result is not readable: {error}") from None
    if structured is not None:
        whole = wrapped and isinstance(structured, dict) and set(structured) == {WRAPPED}
        return structured[WRAPPED] if whole else structured
    values = [_parse_text(part) if isinstance(part, str) else part for part in content]
    return values[0] if len(values) == 1 else values or None


def _block_value(raw: Raw) -> Any:
    """Return a text block as its text, and any other block as it is."""
    block = _decode_json(raw)
    if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
        return block["text"]
    return block


def _parse_text(text: str) -> Any:
    """Return the value of a text that is an object or array of JSON or of Python, any other text as it is.

    ``5`` and ``true`` stay texts: whether such a text is a number, its tool alone knows.
    """
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return _decode_json(text.encode())
    except InvalidJson:
        if not _PYTHON.match(text) or len(text) > LONGEST_PYTHON:
            return text
    try:  # many servers in Python return ``str(rows)``
        return _decode_json(json_of_literal(text).encode("utf-8", "surrogatepass"))
    except (NoLiteral, InvalidJson):
        return text


def _decode_json(written: bytes | Raw) -> Any:
    value = json.decode(written)
    whole = bytes(written)
    return without_surrogates(value) if b"\\ud" in whole or b"\\uD" in whole else value


def without_surrogates(value: Any) -> Any:
    """Return a value of JSON without halves of surrogate pairs, which no text of a script can have."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [without_surrogates(each) for each in value]
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(each) for key, each in value.items()}
    return value
