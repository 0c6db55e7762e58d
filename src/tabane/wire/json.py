"""Parsing and building of JSON messages whose parts stay verbatim.

A message is decoded one level deep: what is not needed stays :class:`msgspec.Raw`, the bytes as the
peer wrote them. Whatever is parsed here is JSON that every client can parse: halves of surrogate pairs, which
Node writes when it cuts an emoji, are replaced by U+FFFD, since pydantic refuses them. A byte order mark is
skipped. NaN and Infinity are refused.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

Members = dict[str, Raw]

HEAD = 1024
"""Bytes of an unreadable message that are searched for its id."""

MOST_CONVERTED = 1 << 20
"""Bytes of a value up to which the standard library converts what msgspec refuses."""

# What msgspec raises for a text; one that is not UTF-8 is no DecodeError to it.
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class InvalidJson(ValueError):
    """The line is not a JSON-RPC message: not UTF-8, not JSON, or not an object."""


class JsonRpcFrame(msgspec.Struct, gc=False):
    """One JSON-RPC 2.0 message, its parts verbatim. ``id`` is UNSET in a notification."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_frames = msgspec.json.Decoder(JsonRpcFrame)
_members_decoder = msgspec.json.Decoder(Members)
_elements = msgspec.json.Decoder(list[Raw])


def decode_frame(line: bytes) -> JsonRpcFrame:
    """Parse one line. Raises :class:`InvalidJson`; the caller counts it and continues."""
    if not line.isascii():
        _check_utf_8(line)
    try:
        return _frames.decode(line)
    except _REFUSED as refusal:
        return _decode_refused(_frames, line, refusal)


def repaired(line: bytes) -> bytes:
    """Replace bytes that are not UTF-8 by U+FFFD; the result is at most three times as long."""
    decoder = _utf_8("replace")
    parts = [decoder.decode(line[at : at + _PIECE]).encode() for at in range(0, len(line), _PIECE)]
    return b"".join([*parts, decoder.decode(b"", True).encode()])


def fields(raw: bytes | Raw) -> Members:
    """Return the members of a JSON object, verbatim. Raises :class:`InvalidJson` if it is not an object."""
    try:
        return _members_decoder.decode(raw)
    except _REFUSED as refusal:
        return _decode_refused(_members_decoder, bytes(raw), refusal)


def elements(raw: bytes | Raw) -> list[Raw]:
    """Return the elements of a JSON array, verbatim. Raises :class:`InvalidJson` if it is not an array."""
    try:
        return _elements.decode(raw)
    except _REFUSED as refusal:
        return _decode_refused(_elements, bytes(raw), refusal)


def join(members: Members) -> bytes:
    """Build a JSON object from verbatim members, each a Raw: the inverse of :func:`fields`."""
    try:
        return msgspec.json.encode(members)
    except UnicodeEncodeError:
        parts = (quote(key) + b":" + bytes(value) for key, value in members.items())
        return b"{" + b",".join(parts) + b"}"


def quote(text: str) -> bytes:
    """Return a JSON string. Lone surrogates are escaped, so any str is accepted."""
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        return json.dumps(text).encode()


def text(raw: bytes | Raw | None) -> str | None:
    """Return the value of a JSON string; None if it is absent or of another type."""
    if raw is None:
        return None
    try:
        value = msgspec.json.decode(raw)
    except _REFUSED:
        return _refused_text(raw)
    return value if isinstance(value, str) else None


def _refused_text(raw: bytes | Raw) -> str | None:
    try:
        value = decode(raw)
    except InvalidJson:
        return None
    return value if isinstance(value, str) else None


def decode(raw: bytes | Raw) -> Any:
    """Return any JSON value as a Python value. Raises :class:`InvalidJson`."""
    try:
        return msgspec.json.decode(raw)
    except _REFUSED:
        pass
    if len(raw) > MOST_CONVERTED:
        raise InvalidJson(f"it is longer than {MOST_CONVERTED} bytes and not JSON as it is exchanged")
    try:
        return json.loads(bytes(raw).decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidJson(str(error)) from None


def member(members: Members, key: str) -> Any:
    """Return the value of one member; None if it is absent or cannot be read."""
    raw = members.get(key)
    if raw is None:
        return None
    try:
        return decode(raw)
    except InvalidJson:
        return None


def encode(value: Any) -> bytes:
    """Return a Python value as JSON: any Raw verbatim, lone surrogates (refused by msgspec) escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _escaped(msgspec.to_builtins(value, builtin_types=(Raw,), str_keys=True))


def request_line(number: int, method: bytes, params: bytes | Raw) -> bytes:
    """Return a request as a line."""
    return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}\n' % (number, method, bytes(params))


def notification_line(method: str, params: bytes | Raw = b"{}") -> bytes:
    """Return a notification as a line."""
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}\n' % (quote(method), bytes(params))


def id_in(head: bytes) -> bytes | None:
    """Return the id in the first bytes of a message that is too long to be read; None if it is not found."""
    match = _id_in_head.match(head)
    return match[1] if match else None


def result_line(request_id: bytes | Raw, result: bytes | Raw) -> bytes:
    """Return an answer as a line. The id comes first, in this form: the bridge reads only the head."""
    return b"".join((b'{"jsonrpc":"2.0","id":', request_id, b',"result":', result, b"}\n"))


def error_line(request_id: bytes | Raw | None, error: bytes | Raw) -> bytes:
    """Return the answer to a request that failed, as a line."""
    return b"".join((b'{"jsonrpc":"2.0","id":', request_id or b"null", b',"error":', error, b"}\n"))


def error_object(code: int, message: str, data: Any = None) -> bytes:
    """Return a JSON-RPC error object, without ``data`` if that is None."""
    body: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return encode(body)


def _escaped(value: Any) -> bytes:
    if isinstance(value, dict):
        return b"{" + b",".join(quote(key) + b":" + _escaped(part) for key, part in value.items()) + b"}"
    if isinstance(value, (list, tuple)):
        return b"[" + b",".join(map(_escaped, value)) + b"]"
    return quote(value) if isinstance(value, str) else msgspec.json.encode(value)


def _check_utf_8(line: bytes) -> None:
    # Piece by piece: as one text, a long line could take four times its length.
    decoder = _utf_8()
    try:
        for at in range(0, len(line), _PIECE):
            decoder.decode(line[at : at + _PIECE])
        decoder.decode(b"", True)
    except UnicodeDecodeError as error:
        raise InvalidJson(f"not UTF-8: {error.reason}") from None


_utf_8 = codecs.getincrementaldecoder("utf-8")
_PIECE = 256 << 10

# Only an id before the first nested value is certainly the message's; a later one may be data.
_id_in_head = re.compile(rb'\s*\{[^{}\[\]]{0,512}?"id"\s*:\s*(-?\d{1,18}\b|"[^"\\]{0,128}")')


_Decoded = TypeVar("_Decoded")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_has_constant = re.compile(rb"NaN|Infinity").search

NO_OBJECT, NO_METHOD = "it has another type", "method is not a string"
"""Faults of what is JSON, but no message."""

CONSTANT = "it has NaN or Infinity, which JSON does not have"


def _decode_refused(decoder: msgspec.json.Decoder[_Decoded], text: bytes, refusal: Exception) -> _Decoded:
    """Decode what is JSON apart from a byte order mark and lone surrogates. Raises :class:`InvalidJson`."""
    plain = text.removeprefix(BYTE_ORDER_MARK)
    if _lone_surrogate_begins(plain):
        plain = _without_lone_surrogates(plain)
    try:
        if plain is not text:
            return decoder.decode(plain)
    except _REFUSED as error:
        refusal = error
    raise InvalidJson(_fault_of(refusal, plain)) from None


def _fault_of(refusal: Exception, text: bytes) -> str:
    if isinstance(refusal, RecursionError):
        return "it is nested too deeply"
    if isinstance(refusal, msgspec.ValidationError):
        return NO_METHOD if "$.method" in str(refusal) else NO_OBJECT
    return CONSTANT if _has_constant(text) else str(refusal) or "not JSON"


def without_constants(text: bytes) -> bytes:
    """Return a text without the members and elements that are NaN or infinite.

    Raises :class:`InvalidJson` if it is not JSON apart from that.
    """
    try:
        value = json.loads(text.removeprefix(BYTE_ORDER_MARK), parse_constant=lambda _: _CONSTANT)
        return encode(_pruned(value))
    except (ValueError, RecursionError) as error:
        raise InvalidJson(str(error)) from None


_CONSTANT: Any = object()


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _pruned(part) for key, part in value.items() if part is not _CONSTANT}
    if isinstance(value, list):
        return [_pruned(part) for part in value if part is not _CONSTANT]
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(CONSTANT)


_lone_surrogate_begins = re.compile(rb"\\u[dD][89a-fA-F]").search
_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# Both kinds begin alike, so that the search for them is fast.
_replace_halves = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!%b)|(?<!%b\\u[dD])[c-fC-F][0-9a-fA-F]{2})" % (_LOW, _HIGH)
).sub
_is_high = re.compile(_HIGH).match


def _without_lone_surrogates(text: bytes) -> bytes:
    """Replace escapes that are half a surrogate pair by that of U+FFFD; the length stays.

    It works in pieces, so that other threads come to their turns.
    """
    if b"\0" in text:
        return text  # it is no JSON, and zeros stand for escaped backslashes here
    shown = text.replace(b"\\\\", b"\0\0")
    parts, at = [], 0
    while at < len(shown):
        end = at + _PIECE
        if end < len(shown) and (escape := shown.rfind(b"\\", at + 12, end)) > 0:
            end = escape - 6 if _is_high(shown, escape - 6) else escape
        parts.append(_replace_halves(b"\\\\ufffd", shown[at:end]))
        at = end
    return b"".join(parts).replace(b"\0\0", b"\\\\")


class _NoCanonicalForm(ValueError):
    """Programs may read the text differently."""


def argument_digest(arguments: bytes) -> bytes:
    """Return the SHA-256 of a JSON text in canonical form: order of members and white space do not count.

    A text that programs may read differently is hashed as it is: one with a name twice in an object, with a
    number that is not written as Python writes it, or one that is no JSON. So two texts of which a program
    may make different things never have the same digest. Takes time in proportion to the length.
    """
    try:
        value = json.loads(arguments, object_pairs_hook=_distinct_members, parse_float=_exact_number)
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return hashlib.sha256(b"\0" + arguments).digest()
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _distinct_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _NoCanonicalForm
    return found


def _exact_number(digits: str) -> float:
    value = float(digits)
    if repr(value) != digits:
        raise _NoCanonicalForm
    return value
