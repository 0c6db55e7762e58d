"""Headers of modern HTTP requests that repeat parts of the body; pure.

Intermediaries route by headers and servers act by the body, so the two must say the same:
``MCP-Protocol-Version``, ``Mcp-Method``, ``Mcp-Name``, and ``Mcp-Param-*`` for the arguments that a
tool's schema marks with ``x-mcp-header``. A hub that renames a tool writes new headers.

Source: the specification 2026-07-28, Streamable HTTP, "Request Metadata"; if it leaves a choice,
the official SDK's (``mcp.shared.inbound``), which the tests compare with.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Raw

from tabane.wire import json
from tabane.wire.era import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    META_CAPABILITIES,
    META_VERSION,
    ProtocolRefusal,
    check_envelope,
)
from tabane.wire.json import InvalidJson, Members, fields, member
from tabane.wire.mirrored_arguments import HeaderMirror, mirror_fault, mirrors

__all__ = [
    "HeaderMirror",
    "Headers",
    "check_headers",
    "decode_value",
    "encode_value",
    "mirror_fault",
    "mirrors",
    "param_headers",
    "standard_headers",
]

VERSION = "MCP-Protocol-Version"
METHOD = "Mcp-Method"
NAME = "Mcp-Name"
PARAM = "Mcp-Param-"

_NAMED_TASKS = {"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri", **_NAMED_TASKS}
"""Methods whose requests carry ``Mcp-Name``, and the member of params that it repeats."""

Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
"""Header names in any case. A mapping cannot show that a header came twice; pairs can."""

_Scalar: TypeAlias = str | bool | int | float

_PREFIX, _SUFFIX = "=?base64?", "?="
_SHOWN = 80

_plain = re.compile(r"[\x20-\x7e]*").fullmatch
_legal = re.compile(r"[\t\x20-\x7e]*").fullmatch
_decimal = re.compile(r"(-?[0-9]+)(?:\.([0-9]+))?").fullmatch
_integer = re.compile(rb"-?[0-9]+").fullmatch


def encode_value(text: str) -> str:
    """Return a header value that decodes to ``text``: the text itself if safe, else ``=?base64?…?=``."""
    if _plain(text) and text == text.strip(" ") and not _is_wrapped(text):
        return text
    packed = binascii.b2a_base64(text.encode(errors="surrogatepass"), newline=False)
    return f"{_PREFIX}{packed.decode()}{_SUFFIX}"


def decode_value(text: str) -> str | None:
    """Decode what :func:`encode_value` returned; None if the value is malformed.

    Malformed are base64 that is not canonical or not UTF-8, and any character that header values may not
    contain.
    """
    if not _legal(text):
        return None
    if not _is_wrapped(text):
        return text
    packed = text[len(_PREFIX) : -len(_SUFFIX)].encode()
    try:
        value = binascii.a2b_base64(packed)
        return value.decode() if binascii.b2a_base64(value, newline=False) == packed else None
    except ValueError:
        return None


def standard_headers(method: str, params: Members, version: str) -> list[tuple[str, str]]:
    """Return the headers that each modern request to an upstream carries."""
    headers = [(VERSION, version), (METHOD, encode_value(method))]
    key = NAMED.get(method)
    name = json.text(params.get(key)) if key else None
    if name is not None:
        headers.append((NAME, encode_value(name)))
    return headers


def param_headers(mirrors: Sequence[HeaderMirror], arguments: bytes | Raw) -> list[tuple[str, str]]:
    """Return the ``Mcp-Param-*`` headers of a call: one for each marked argument that is not null."""
    if not mirrors:
        return []
    try:
        members = fields(arguments)
    except InvalidJson:
        return []
    found = ((mirror, _value_at(members, mirror.path)) for mirror in mirrors)
    return [
        (PARAM + mirror.header, encode_value(_header_text(value, mirror.kind)))
        for mirror, value in found
        if value is not None
    ]


def check_headers(
    headers: Headers, method: str, params: Members, meta: Members, mirrors: Sequence[HeaderMirror] = ()
) -> None:
    """Raise :class:`~tabane.wire.era.ProtocolRefusal` if a modern HTTP request must be refused.

    ``params`` is without ``_meta``, whose members are ``meta``; ``mirrors`` are those of the called tool.
    Checked in this order: headers that occur twice, missing members of the envelope, headers that differ from
    the body, the values of the envelope, marked arguments.
    """
    sent, repeated = _by_lower_name(headers)
    for header in (VERSION, METHOD, NAME):
        if header.lower() in repeated:
            raise _mismatch(header, "was sent more than once")
    lacking = [key for key in (META_VERSION, META_CAPABILITIES) if key not in meta]
    if lacking:
        raise ProtocolRefusal(INVALID_PARAMS, f"_meta lacks {', '.join(lacking)}: each request carries them")
    _check_equal(VERSION, sent.get("mcp-protocol-version"), member(meta, META_VERSION), META_VERSION)
    _check_equal(METHOD, sent.get("mcp-method"), method, "method")
    _check_name(sent.get("mcp-name"), method, params)
    check_envelope(meta)
    if mirrors:
        _check_arguments(sent, repeated, params, mirrors)


def _is_wrapped(text: str) -> bool:
    return text.startswith(_PREFIX) and text.endswith(_SUFFIX) and len(text) >= len(_PREFIX + _SUFFIX)


def _by_lower_name(headers: Headers) -> tuple[dict[str, str], set[str]]:
    """Return the values by lower-cased name (the last of several), and the names that occur twice."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    values: dict[str, str] = {}
    repeated: set[str] = set()
    for name, value in pairs:
        key = name.lower()
        if key.startswith("mcp-"):
            if key in values:
                repeated.add(key)
            values[key] = value
    return values, repeated


def _check_name(sent: str | None, method: str, params: Members) -> None:
    key = NAMED.get(method)
    wanted = member(params, key) if key else None
    if wanted is None:
        return
    value = None if sent is None else decode_value(sent)
    if sent is not None and value is None:
        raise _mismatch(NAME, f"is malformed: {_shortened(sent)}")
    _check_equal(NAME, value, wanted, f"params.{key}")


def _check_equal(header: str, sent: str | None, wanted: object, what: str) -> None:
    if sent is None:
        raise _mismatch(header, f"is missing; it repeats the body's {what}")
    if sent != wanted:
        raise _mismatch(header, f"is {_shortened(sent)}, but the body's {what} is {_shortened(wanted)}")


def _check_arguments(
    sent: Mapping[str, str], repeated: set[str], params: Members, mirrors: Sequence[HeaderMirror]
) -> None:
    arguments = params.get("arguments", Raw(b"{}"))
    try:
        members = {} if bytes(arguments) == b"null" else fields(arguments)
    except InvalidJson:
        return  # Not an object: the call of the tool refuses it.
    for mirror in mirrors:
        header = PARAM + mirror.header
        if header.lower() in repeated:
            raise _mismatch(header, "was sent more than once", mirror)
        fault = _argument_fault(sent.get(header.lower()), _value_at(members, mirror.path), mirror.kind)
        if fault:
            raise _mismatch(header, fault.format(argument=".".join(mirror.path)), mirror)


def _argument_fault(sent: str | None, value: _Scalar | None, kind: str) -> str | None:
    # Values are not repeated in these sentences: an argument may be a secret.
    if sent is None:
        return None if value is None else "is missing; it repeats an argument that the body has"
    if value is None:
        return "was sent, but the body has no such argument"
    text = decode_value(sent)
    if text is None:
        return "is malformed"
    return None if _agrees(text, value, kind) else "does not equal the argument in the body"


def _mismatch(header: str, fault: str, mirror: HeaderMirror | None = None) -> ProtocolRefusal:
    data = {"header": header}
    if mirror:
        data["argument"] = ".".join(mirror.path)
    return ProtocolRefusal(HEADER_MISMATCH, f"Header mismatch: {header} {fault}", data)


def _shortened(value: object) -> str:
    shown = repr(value[:_SHOWN] if isinstance(value, str) else value)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"


def _value_at(members: Members, path: tuple[str, ...]) -> _Scalar | None:
    """Return the argument at a path; None if it is absent, null or not a scalar."""
    for step in path[:-1]:
        try:
            members = fields(members.get(step, b"null"))
        except InvalidJson:
            return None
    raw = members.get(path[-1])
    return None if raw is None else _scalar(raw)


def _scalar(raw: Raw) -> _Scalar | None:
    text = bytes(raw)
    if text[:1] == b'"':
        return json.text(raw)
    if text in (b"true", b"false"):
        return text == b"true"
    if text[:1] in (b"{", b"["):
        return None
    try:
        return int(text) if _integer(text) else float(text)
    except ValueError:
        return None  # null, or more digits than Python converts


def _text_of(value: _Scalar) -> str:
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


def _integer_of(value: _Scalar) -> int | None:
    """Return the integer that a number is, also for 42.0; None for anything else."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _header_text(value: _Scalar, kind: str) -> str:
    whole = _integer_of(value) if kind == "integer" else None
    return _text_of(value if whole is None else whole)


def _agrees(text: str, value: _Scalar, kind: str) -> bool:
    whole = _integer_of(value) if kind == "integer" else None
    match = _decimal(text) if whole is not None else None
    if match is None:
        return text == _text_of(value)
    try:
        return not (match[2] or "").strip("0") and int(match[1]) == whole
    except ValueError:
        return False
