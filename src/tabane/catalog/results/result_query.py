"""Queries on kept results, and answers to them, as they pass between the hub and a process.

An outline says in few tokens what a kept result contains.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from tabane.messages import Message
from tabane.wire import json
from tabane.wire.json import InvalidJson
from tabane.workers import frames

Aggregate = Literal["count", "sum", "min", "max", "avg", "group", "unique", "keys"]


class ResultQuery(msgspec.Struct, frozen=True, array_like=True):
    """A query on a document. ``context`` is the number of lines around each that matches."""

    document: bytes
    of_json: bool
    select: str | None = None
    lines: str | None = None
    regex: str | None = None
    context: int = 0
    aggregate: Aggregate | None = None


class QueryAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The value that was found: JSON or a text. ``note`` is about it, ``failure`` says why there is none."""

    found: bytes = b""
    of_json: bool = False
    note: Message | None = None
    failure: Message | None = None


_ENCODER = msgspec.msgpack.Encoder(enc_hook=frames.encode_message)
_QUERIES = msgspec.msgpack.Decoder(ResultQuery)
_ANSWERS = msgspec.msgpack.Decoder(QueryAnswer, dec_hook=frames.decode_message)


def packed_query(query: ResultQuery) -> bytes:
    """Return a query as bytes for the worker."""
    return _ENCODER.encode(query)


def packed_answer(answer: QueryAnswer) -> bytes:
    """Return an answer as bytes from the worker."""
    return _ENCODER.encode(answer)


def read_query(body: bytes) -> ResultQuery:
    """Return a query. Raises msgspec.DecodeError."""
    return _QUERIES.decode(body)


def read_answer(body: bytes) -> QueryAnswer:
    """Return an answer. Raises msgspec.DecodeError."""
    return _ANSWERS.decode(body)


MOST_KEYS = 8
_LONGEST_KEY = 30
_LONGEST = 240
"""Characters of an outline."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class DocumentOutline(Struct, frozen=True):
    """``shape`` says what a document is, ``select`` is an example of a query; empty for a text."""

    shape: str
    select: str = ""


def outline(document: bytes, *, of_json: bool) -> DocumentOutline:
    """Return the outline of a document: lines of a text; keys, lengths and the first item of JSON."""
    if not of_json:
        lines = document.count(b"\n") + (0 if document.endswith(b"\n") else 1)
        return DocumentOutline(f"text of {lines:,} {'line' if lines == 1 else 'lines'}")
    try:
        shape, select = _of_value(Raw(document), inside=True)
    except InvalidJson:
        return DocumentOutline("JSON")
    shown = shape if len(shape) <= _LONGEST else f"{shape[:_LONGEST]}…"
    return DocumentOutline(f"JSON {shown}", select or "@")


def _of_value(value: Raw, *, inside: bool) -> tuple[str, str]:
    """Return the shape of a value, and what selects something of it."""
    kind = bytes(value).lstrip(b" \t\r\n")[:1]
    if kind == b"{":
        return _of_object(value) if inside else ("{…}", "")
    if kind == b"[":
        return _of_array(value)
    return {b'"': "text", b"t": "true", b"f": "false", b"n": "null"}.get(kind, "number"), ""


def _of_object(value: Raw) -> tuple[str, str]:
    members = json.fields(value)
    shown, select = [], ""
    for key, member in list(members.items())[:MOST_KEYS]:
        name = quoted(key)
        if bytes(member).lstrip(b" \t\r\n")[:1] == b"[":
            shape, inner = _of_array(member)
            shown.append(f"{_printable_key(name)}{shape}")
            select = select or f"{name}{inner}"
        else:
            shown.append(_printable_key(name))
    if len(members) > MOST_KEYS:
        shown.append(f"… {len(members)} keys")
    if not select and members:
        select = quoted(next(iter(members)))
    return f"{{{', '.join(shown)}}}", select


def _of_array(value: Raw) -> tuple[str, str]:
    items = json.elements(value)
    if not items:
        return "[0]", "[]"
    item = items[0]
    keys = list(json.fields(item)) if bytes(item).lstrip(b" \t\r\n")[:1] == b"{" else []
    if keys:
        shown = [_printable_key(quoted(key)) for key in keys[:MOST_KEYS]] + (
            ["…"] if len(keys) > MOST_KEYS else []
        )
        return f"[{len(items):,}]{{{', '.join(shown)}}}", f"[].{quoted(keys[0])}"
    return f"[{len(items):,}]", "[:10]"


def quoted(key: str) -> str:
    """Return a key as JMESPath has to write it."""
    return key if _PLAIN.fullmatch(key) else json.quote(key).decode("utf-8", "replace")


def _printable_key(name: str) -> str:
    clean = "".join(each if each.isprintable() else "�" for each in name)
    return clean if len(clean) <= _LONGEST_KEY else f"{clean[:_LONGEST_KEY]}…"
