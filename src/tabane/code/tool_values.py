"""Results of tools as values of a script; pure."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Raw

from tabane.code.python_literals import NoLiteral, json_of_literal
from tabane.wire import json
from tabane.wire.json import InvalidJson

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
        content = [_block(block) for block in json.elements(members.get("content", Raw(b"[]")))]
        if bytes(members.get("isError", b"")) == b"true":
            raise ToolFailed(
                "\n".join(part for part in content if isinstance(part, str)) or "the tool failed"
            )
        structured = _decoded(members["structuredContent"]) if "structuredContent" in members else None
    except InvalidJson as error:
        raise ToolFailed(f"the result is not readable: {error}") from None
    if structured is not None:
        whole = wrapped and isinstance(structured, dict) and set(structured) == {WRAPPED}
        return structured[WRAPPED] if whole else structured
    values = [_parsed(part) if isinstance(part, str) else part for part in content]
    return values[0] if len(values) == 1 else values or None


def _block(raw: Raw) -> Any:
    """Return a text block as its text, and any other block as it is."""
    block = _decoded(raw)
    if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
        return block["text"]
    return block


def _parsed(text: str) -> Any:
    """Return the value of a text that is an object or array of JSON or of Python, any other text as it is.

    ``5`` and ``true`` stay texts: whether such a text is a number, its tool alone knows.
    """
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return _decoded(text.encode())
    except InvalidJson:
        return _python(text) if _PYTHON.match(text) else text


def _python(text: str) -> Any:
    """Return the value of a text that many servers in Python return: ``str(rows)``."""
    if len(text) > LONGEST_PYTHON:
        return text
    try:
        return _decoded(json_of_literal(text).encode("utf-8", "surrogatepass"))
    except (NoLiteral, InvalidJson):
        return text


def _decoded(written: bytes | Raw) -> Any:
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
