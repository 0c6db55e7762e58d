"""Parsing and building of JSON messages whose parts stay verbatim.

A message is decoded one level deep: what is not needed stays :class:`msgspec.Raw`, the bytes as the
peer wrote them. What msgspec refuses though peers emit it (lone surrogates, which Node writes when it
cuts an emoji; NaN; numbers with very many digits) is sliced with the standard library's scanner, so
that it passes just as untouched. That scanner builds every value it passes; of a text longer than
:data:`SLICED` msgspec reads a copy of the same length instead, in which harmless text stands for what
it refuses, and the parts are cut out of the original. That takes two copies of the text at most.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

Members = dict[str, Raw]

HEAD = 1024
"""Bytes of an unreadable message that are searched for its id."""

SLICED = 64 << 10
"""Bytes of a text up to which the standard library's scanner parses it."""

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
_members = msgspec.json.Decoder(Members)
_elements = msgspec.json.Decoder(list[Raw])


def decode_frame(line: bytes) -> JsonRpcFrame:
    """Parse one line. Raises :class:`InvalidJson`; the caller counts it and continues."""
    if not line.isascii():
        _check_utf_8(line)
    try:
        return _frames.decode(line)
    except _REFUSED as refusal:
        return _refused_frame(line, refusal)


def repaired(line: bytes) -> bytes:
    """Replace bytes that are not UTF-8 by U+FFFD; the result is at most three times as long."""
    decoder = _utf_8("replace")
    parts = [decoder.decode(line[at : at + _PIECE]).encode() for at in range(0, len(line), _PIECE)]
    return b"".join([*parts, decoder.decode(b"", True).encode()])


def fields(raw: bytes | Raw) -> Members:
    """Return the members of a JSON object, verbatim. Raises :class:`InvalidJson` if it is not an object."""
    try:
        return _members.decode(raw)
    except _REFUSED as refusal:
        return _refused_members(bytes(raw), refusal)


def elements(raw: bytes | Raw) -> list[Raw]:
    """Return the elements of a JSON array, verbatim. Raises :class:`InvalidJson` if it is not an array."""
    try:
        return _elements.decode(raw)
    except _REFUSED as refusal:
        return _refused_elements(bytes(raw), refusal)


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
        return json.loads(bytes(raw).decode())
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
    return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}\n' % (number, method, bytes(params))


def notification_line(method: str, params: bytes | Raw = b"{}") -> bytes:
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}\n' % (quote(method), bytes(params))


def id_in(head: bytes) -> bytes | None:
    """Return the id in the first bytes of a message that is too long to be read; None if it is not found."""
    match = _id_in_head.match(head)
    return match[1] if match else None


def result_line(request_id: bytes | Raw, result: bytes | Raw) -> bytes:
    """Return an answer as a line. The id comes first, in this form: the bridge reads only the head."""
    return b"".join((b'{"jsonrpc":"2.0","id":', request_id, b',"result":', result, b"}\n"))


def error_line(request_id: bytes | Raw | None, error: bytes | Raw) -> bytes:
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


def _refused_members(line: bytes, refusal: Exception) -> Members:
    return _sliced(line) if len(line) <= SLICED else _masked_members(line, refusal)


def _refused_elements(line: bytes, refusal: Exception) -> list[Raw]:
    return _sliced_elements(line) if len(line) <= SLICED else _masked_elements(line, refusal)


# A scanner that converts no numbers: only the places where values begin and end are wanted.
_scan = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str).raw_decode
_space = re.compile(r"[ \t\r\n]*").match


def _sliced(line: bytes) -> Members:
    try:
        source = line.decode()
        return _slice(source)
    except (ValueError, RecursionError, StopIteration) as error:
        raise InvalidJson(str(error) or "not JSON") from None


def _slice(source: str) -> Members:
    members: Members = {}
    at = _skip(source, 0)
    if source[at : at + 1] != "{":
        raise InvalidJson("not an object")
    at = _skip(source, at + 1)
    if source[at : at + 1] == "}":
        return _ended(source, at + 1, members)
    while True:
        if source[at : at + 1] != '"':
            raise InvalidJson(f"a name was expected at character {at}")
        key, at = _scan(source, at)
        at = _expect(source, at, ":")
        begin = at
        _, at = _scan(source, begin)
        # surrogatepass is not needed: escapes are still escapes in the slice.
        members[key] = Raw(source[begin:at].encode())
        at = _skip(source, at)
        if source[at : at + 1] == "}":
            return _ended(source, at + 1, members)
        at = _expect(source, at, ",")


def _sliced_elements(line: bytes) -> list[Raw]:
    try:
        source = line.decode().strip()
        if source[:1] != "[":
            raise InvalidJson("not an array")
        found: list[Raw] = []
        at = _skip(source, 1)
        while source[at : at + 1] != "]":
            begin = at if not found else _expect(source, at, ",")
            _, at = _scan(source, begin)
            found.append(Raw(source[begin:at].encode()))
            at = _skip(source, at)
    except (ValueError, RecursionError) as error:
        raise InvalidJson(str(error) or "not JSON") from None
    if at + 1 != len(source):
        raise InvalidJson("more than one value")
    return found


def _skip(source: str, at: int) -> int:
    match = _space(source, at)
    return match.end() if match else at


def _expect(source: str, at: int, mark: str) -> int:
    at = _skip(source, at)
    if source[at : at + 1] != mark:
        raise InvalidJson(f"{mark!r} was expected at character {at}")
    return _skip(source, at + 1)


def _ended(source: str, at: int, members: Members) -> Members:
    if _skip(source, at) != len(source):
        raise InvalidJson("more than one value")
    return members


def _refused_frame(line: bytes, refusal: Exception) -> JsonRpcFrame:
    members = _refused_members(line, refusal)
    method = members.get("method")
    name: str | UnsetType = UNSET
    if method is not None:
        decoded = decode(method)
        if not isinstance(decoded, str):
            raise InvalidJson("method is not a string")
        name = decoded
    return JsonRpcFrame(
        id=members.get("id", UNSET),
        method=name,
        params=members.get("params", UNSET),
        result=members.get("result", UNSET),
        error=members.get("error", UNSET),
    )


# Masks are of the length of what they cover. One that covers part of a longer text makes that wrong where
# it was wrong (1NaN, for one), and inside a string it is text like any other.
_MASKS = (
    (b"\\ud", b"\\u0"),
    (b"\\uD", b"\\u0"),
    (b"-Infinity", b"{       }"),
    (b"Infinity", b"{      }"),
    (b"NaN", b"{ }"),
)
# No mask contains one of these, so none crosses a border between two pieces.
_border = re.compile(rb'[",:\[\] \n]')
_many_digits = re.compile(rb"[1-9][0-9]{299,}+")
_member = re.compile(rb'[{,\s]*+"((?:[^"\\]++|\\.)*+)"\s*+:\s*+', re.S)
_closing = re.compile(rb"\s*+\}\s*+\Z")
_gap = re.compile(rb"[\[,\s]*+")


def _masked(line: bytes, refusal: Exception) -> bytes:
    """Return a text of the same length that is valid JSON if the line is. Raises :class:`InvalidJson`."""
    if isinstance(refusal, RecursionError):
        raise InvalidJson("it is nested too deeply") from None
    pieces, at = [], 0
    while at < len(line):
        end = _cut(line, at + _PIECE)
        pieces.append(_mask(line[at:end]))
        at = end
    masked = b"".join(pieces)
    if masked == line:
        raise InvalidJson(str(refusal) or "not JSON") from None
    return masked


def _cut(line: bytes, at: int, reach: int = _PIECE) -> int:
    """Return a position at or after ``at``, at most a little beyond ``reach``, that is not inside a mask.

    Text without a border, such as that of an image, is cut all the same: one long piece would hold the
    interpreter for as long as all its pieces take together.
    """
    border = _border.search(line, at, at + reach)
    if border or at + reach >= len(line):
        return border.start() if border else len(line)
    end = at + reach
    while any(_lies_across(line, end, given) for given, _ in _MASKS):
        end += 1
    return end


def _lies_across(line: bytes, end: int, given: bytes) -> bool:
    return line.find(given, max(0, end - len(given) + 1), end + len(given) - 1) >= 0


def _mask(piece: bytes) -> bytes:
    for given, mask in _MASKS:
        piece = piece.replace(given, mask)
    return _many_digits.sub(lambda digits: b"1" * len(digits[0]), piece)


def _masked_members(line: bytes, refusal: Exception) -> Members:
    masked = _masked(line, refusal)
    try:
        found = _members.decode(masked)
    except _REFUSED as error:
        raise InvalidJson(str(error) or "not JSON") from None
    members: Members = {}
    at = 0
    while len(members) < len(found):
        name = _member.match(masked, at)
        value = found.get(decode(b'"' + name[1] + b'"')) if name else None
        if name is None or value is None:
            raise InvalidJson("it repeats a name")
        key = decode(b'"' + line[name.start(1) : name.end(1)] + b'"')
        at = name.end() + len(value)
        members[key] = Raw(line[name.end() : at])
    # For a repeated name msgspec returns only the last value, so the walk ends before the object does.
    if found and not _closing.match(masked, at):
        raise InvalidJson("it repeats a name")
    return members


def _masked_elements(line: bytes, refusal: Exception) -> list[Raw]:
    masked = _masked(line, refusal)
    try:
        found = _elements.decode(masked)
    except _REFUSED as error:
        raise InvalidJson(str(error) or "not JSON") from None
    cut: list[Raw] = []
    at = 0
    for element in found:
        begin = _begin(masked, at)
        at = begin + len(element)
        cut.append(Raw(line[begin:at]))
    return cut


def _begin(masked: bytes, at: int) -> int:
    """Return where the next element of an array begins, at most after a bracket or a comma."""
    match = _gap.match(masked, at)
    return match.end() if match else at
