"""JSON-RPC 2.0 for programs (requests, batches and answers), and the trace context of a request; pure.

Source: the specification of JSON-RPC 2.0, sections 4 to 6. Every legal id (a string, a number, null) is
accepted and returned as it was written. The trace context is that of the W3C: ``traceparent`` and
``tracestate``, in ``_meta`` (SEP-414) and in headers. Both come from clients, so anything may be in them.
What is not valid counts as absent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Raw

from tabane.errors import ApprovalRequired, BadArguments, RateLimited, ReadError, TabaneError, UnknownName
from tabane.messages import Lang
from tabane.wire import json
from tabane.wire.json import InvalidJson, Members

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603

MOST_IN_BATCH = 1000
"""Requests of one batch."""

LONGEST_ID = 64 << 10
"""Bytes of an id, which every answer repeats."""

LONGEST_TEXT = 4000
"""Characters of an error's text."""

_SPACE = b" \t\r\n"

# What begins like a number and is none in JSON: JavaScript's -Infinity passes the fallback decoder.
_legal_id = re.compile(rb'"|-?[0-9]|null$').match


class Request(NamedTuple):
    """A method to call. ``id`` is verbatim, None in a notification, which is not answered.

    ``params`` is a JSON object or array, ``{}`` if there were none.
    """

    id: bytes | None
    method: str
    params: bytes


class InvalidRequest(NamedTuple):
    """A message that is not a request. ``answer`` is the line to answer it with."""

    answer: bytes


class RpcMessage(NamedTuple):
    """One message: a request, or a batch of them, in the order they came in."""

    parts: list[Request | InvalidRequest]
    batch: bool


def read(line: bytes) -> RpcMessage:
    """Parse a message of a client. Never raises: any fault becomes the answer to it."""
    try:
        line.decode()
        line = line.removeprefix(json.BYTE_ORDER_MARK)
        if line.lstrip(_SPACE)[:1] != b"[":
            return RpcMessage([_parse_part(line)], False)
        parts = json.elements(line)
    except (InvalidJson, UnicodeDecodeError) as error:
        found = json.id_in(line[: json.HEAD]) if str(error) == json.CONSTANT else None
        return RpcMessage([_invalid(found, PARSE_ERROR, f"not JSON: {error}")], False)
    if not parts:
        return RpcMessage([_invalid(None, INVALID_REQUEST, "an empty batch")], False)
    if len(parts) > MOST_IN_BATCH:
        text = f"a batch may have {MOST_IN_BATCH} requests at most"
        return RpcMessage([_invalid(None, INVALID_REQUEST, text)], False)
    return RpcMessage([_parse_element(bytes(part)) for part in parts], True)


def result(request_id: bytes, value: object) -> bytes:
    """Return the answer to a request, as a line. ``value`` is anything that msgspec encodes."""
    return json.result_line(request_id, json.encode(value))


def part(request_id: bytes, value: object, more: bool) -> bytes:
    """Return one of several answers to a request, as a line: our extension for streams, with ``more``."""
    return _line_with_member(request_id, json.encode(value), b'"more":' + (b"true" if more else b"false"))


def with_warning(request_id: bytes, result: bytes, warning: str) -> bytes:
    """Return an answer with a warning, for a result that is not an object and is incomplete."""
    return _line_with_member(request_id, result, b'"warning":' + json.encode(warning))


def shortened(request_id: bytes, result: bytes, left_out: Sequence[str], warning: str = "") -> bytes:
    """Return an answer whose result lacks the members of those names; they are listed in ``truncated``."""
    member = b',"warning":' + json.encode(warning) if warning else b""
    return _line_with_member(request_id, result, b'"truncated":' + json.encode(left_out) + member)


def failure(request_id: bytes | None, error: TabaneError, lang: Lang) -> bytes:
    """Return the answer to a request that failed, as a line, in the caller's language."""
    return json.error_line(request_id, error_of(error, lang))


def internal(request_id: bytes | None) -> bytes:
    """Return the answer to a request that failed for a reason that the caller should not see."""
    text = "internal error; see the hub's log: tabane logs"
    return _error(request_id, INTERNAL_ERROR, text, {"reason": "internal"})


def unknown_method(request_id: bytes, error: UnknownName, lang: Lang) -> bytes:
    """Return the answer to a request for a method that does not exist."""
    return _error(request_id, METHOD_NOT_FOUND, error.text(lang), _data(error))


def oversized(request_id: bytes | None, most: int) -> bytes:
    """Return the answer to a message that was too long to be read; its id is known if it came early."""
    return _error(request_id, INVALID_REQUEST, f"a message may have {most} bytes at most", {"limit": most})


def refused_in_batch(request_id: bytes, method: str) -> bytes:
    """Return the answer to a request in a batch whose answer would come in parts."""
    return _error(request_id, INVALID_REQUEST, f"{method} answers in parts, and so cannot be in a batch")


def batch_answer(answers: list[bytes]) -> bytes:
    """Return the answers to a batch as one line."""
    return b"[" + b",".join(answer.rstrip(b"\n") for answer in answers) + b"]\n"


def error_of(error: TabaneError, lang: Lang) -> bytes:
    """Return the JSON-RPC error object for one of our own errors: the only place where they are mapped.

    ``data`` has ``reason``, the nearest names as ``near``, the offending ``parameter``, the id of the
    ``approval`` that a call needs, and of a page
    that could not be read the ``cause``, with ``status`` and ``wait`` where they are known.
    """
    text = error.text(lang)
    if len(text) > LONGEST_TEXT:  # it may repeat what the client sent
        text = f"{text[:LONGEST_TEXT]}…"
    return json.error_object(error.code, text, _data(error))


_limited = re.compile(
    rb'\{"jsonrpc":"2\.0","id":(?:"(?:[^"\\]|\\.)*"|[^",{}]*),"error":\{"code":%d,.*"retryAfterSeconds":([0-9.e]+)'
    % RateLimited.code,
    re.DOTALL,
).match


def retry_seconds(line: bytes) -> float | None:
    """Return the wait that an answer of ours asks for, if it is an error because of a limit."""
    found = _limited(line) if line[:1] == b"{" and len(line) < LONGEST_ID + 4 * LONGEST_TEXT else None
    return float(found[1]) if found else None


def _line_with_member(request_id: bytes, result: bytes, member: bytes) -> bytes:
    return json.result_line(request_id, result)[:-2] + b"," + member + b"}\n"


def _data(error: TabaneError) -> dict[str, Any] | None:
    data: dict[str, Any] = {"reason": error.reason} if error.reason else {}
    if isinstance(error, UnknownName) and error.near:
        data["near"] = list(error.near)
    if isinstance(error, BadArguments) and error.parameter:
        data["parameter"] = error.parameter
    if isinstance(error, ApprovalRequired):
        data["approval"] = error.approval
    if isinstance(error, RateLimited):
        # Rounded up: a client that waits this long must not be refused again.
        data["retryAfterSeconds"] = max(0.001, math.ceil(error.retry_after * 1000) / 1000)
    if isinstance(error, ReadError):
        data |= {"cause": error.cause, "status": error.status, "wait": error.wait}
    return {name: value for name, value in data.items() if value is not None} or None


def _parse_element(part: bytes) -> Request | InvalidRequest:
    try:
        return _parse_part(part)
    except InvalidJson as error:
        return _invalid(None, INVALID_REQUEST, f"not a request: {error}")


def _parse_part(text: bytes) -> Request | InvalidRequest:
    if text.lstrip(_SPACE)[:1] != b"{":
        json.decode(text)  # raises InvalidJson if it is not JSON at all
        return _invalid(None, INVALID_REQUEST, "a request is an object")
    members = json.fields(text)
    name = members.get("id")
    request_id = None if name is None else bytes(name)
    if request_id is not None and not _legal_id(request_id):
        return _invalid(None, INVALID_REQUEST, "id: a string, a number or null")
    if request_id is not None and len(request_id) > LONGEST_ID:
        return _invalid(None, INVALID_REQUEST, f"id: {LONGEST_ID} bytes at most")
    fault = _fault(members)
    if fault:
        return _invalid(request_id, INVALID_REQUEST, fault)
    return Request(request_id, json.text(members["method"]) or "", bytes(members.get("params", b"{}")))


def _fault(members: Members) -> str | None:
    if json.decode(members.get("jsonrpc", Raw(b"null"))) != "2.0":
        return 'jsonrpc: must be "2.0"'
    if json.text(members.get("method")) is None:
        return "method: must be a string"
    if bytes(members.get("params", b"{}"))[:1] not in b"{[":
        return "params: must be an object or an array"
    return None


def _invalid(request_id: bytes | None, code: int, text: str) -> InvalidRequest:
    return InvalidRequest(_error(request_id, code, text))


def _error(request_id: bytes | None, code: int, text: str, data: Any = None) -> bytes:
    return json.error_line(request_id, json.error_object(code, text, data))


TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"

SAMPLED = 0x01
RANDOM = 0x02

MOST_STATE = 512
"""Characters of a ``tracestate``; a longer one is dropped as a whole."""

_MOST_ENTRIES = 32
_MOST_PARENT = 512

# Compiled on first use: most clients send no trace.
_PARENT = r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
_KEY = r"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
_ENTRY = _KEY + r"=[ -+\--<>-~]{0,255}[!-+\--<>-~]"
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16


class TraceParent(NamedTuple):
    """The span that caused a request: ids in hexadecimal, and the known flags."""

    trace: str
    span: str
    flags: int

    @property
    def sampled(self) -> bool:
        """Whether the caller records this trace."""
        return bool(self.flags & SAMPLED)

    def __str__(self) -> str:
        return f"00-{self.trace}-{self.span}-{self.flags:02x}"


def parse_traceparent(text: str | None) -> TraceParent | None:
    """Return the parent that a ``traceparent`` names; None if there is none or it is not valid.

    A later version than 00 is read as 00, as its specification requires.
    """
    found = re.fullmatch(_PARENT, text, re.ASCII) if text and len(text) <= _MOST_PARENT else None
    if found is None:
        return None
    version, trace, span, flags, rest = found.groups()
    if version == "ff" or trace == _NO_TRACE or span == _NO_SPAN or (rest and version == "00"):
        return None
    return TraceParent(trace, span, int(flags, 16) & (SAMPLED | RANDOM))


def valid_tracestate(text: str | None) -> str:
    """Return a ``tracestate`` without blanks between its entries; "" if it is not valid."""
    if not text or len(text) > MOST_STATE:
        return ""
    entries = [entry for each in text.split(",") if (entry := each.strip(" \t"))]
    keys = {entry.partition("=")[0] for entry in entries}
    if len(entries) > _MOST_ENTRIES or len(keys) < len(entries):
        return ""
    return ",".join(entries) if all(re.fullmatch(_ENTRY, entry, re.ASCII) for entry in entries) else ""


def trace_headers(meta: Members) -> dict[str, str]:
    """Return the headers of a request to a server at a URL: what ``_meta`` says, if that is valid."""
    parent = parse_traceparent(json.text(meta.get(TRACEPARENT)))
    if parent is None:
        return {}
    state = valid_tracestate(json.text(meta.get(TRACESTATE)))
    return {TRACEPARENT: str(parent), **({TRACESTATE: state} if state else {})}
