"""The WebSocket protocol without I/O: the opening request, frames and messages; pure.

Source: RFC 6455. No extensions are supported. permessage-deflate is not offered, since on one computer it
costs time and saves nothing. Both ends are here, so that the hub and its own client share one implementation.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA

NORMAL, GOING_AWAY, PROTOCOL_ERROR, BAD_TEXT, POLICY, INTERNAL = 1000, 1001, 1002, 1007, 1008, 1011
NO_CODE = 1005
"""The code of a close frame without one; it is never sent (RFC 6455, 7.4.1)."""

VERSION = "13"
MOST_CONTROL = 125
"""Bytes of a ping, a pong or a close frame."""

HEAD_SIZE = 4096
"""Bytes kept of a message that is too long, so that it can be answered by its id."""

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_DATA = (TEXT, BINARY)
_KNOWN = (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG)


class Fault(Exception):
    """The peer broke the protocol: the connection ends with close code ``code``."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class WebSocketMessage(NamedTuple):
    """A whole message, its fragments joined. One of ``text`` is valid UTF-8."""

    data: bytes
    text: bool


class OversizedMessage(NamedTuple):
    """The first bytes of a message that was longer than the limit and was dropped."""

    head: bytes


class WebSocketPing(NamedTuple):
    """A ping. It is to be answered with a pong of the same bytes."""

    data: bytes


class WebSocketPong(NamedTuple):
    """The answer to a ping, or an unsolicited sign of life."""

    data: bytes


class WebSocketClosed(NamedTuple):
    """The peer closes: nothing comes after this."""

    code: int
    reason: str


Event = WebSocketMessage | OversizedMessage | WebSocketPing | WebSocketPong | WebSocketClosed


class _WebSocketFrame:
    """A frame whose payload is coming in: ``left`` bytes of it are not here yet."""

    __slots__ = ("at", "final", "key", "left", "opcode")

    def __init__(self, opcode: int, final: bool, left: int, key: bytes) -> None:
        self.opcode, self.final, self.left, self.key = opcode, final, left, key
        self.at = 0


class WebSocketDecoder:
    """Turns bytes into events, however the stream is cut into chunks.

    ``masked``: the peer is a client, which has to mask what it sends; a server must not. No more than
    ``limit`` bytes of a message are held, and a chunk: the rest of a longer one is dropped as it streams in.
    """

    def __init__(self, limit: int, *, masked: bool) -> None:
        self._limit, self._masked = limit, masked
        self._buffer = bytearray()
        self._frame: _WebSocketFrame | None = None
        self._kind = CONTINUATION
        self._message, self._control = bytearray(), bytearray()
        self._dropping = False
        self._closed = False

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events that a chunk completes, in order. Raises Fault after the last event before it."""
        self._buffer += data
        while not self._closed:
            frame = self._frame or self._next_frame()
            if frame is None:
                return
            self._take_payload(frame)
            if frame.left:
                return
            self._frame = None
            event = self._message_of(frame)
            if event is not None:
                yield event
        self._buffer.clear()

    def _next_frame(self) -> _WebSocketFrame | None:
        """Return the next frame, once its head is complete."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        opcode, length, masked = buffer[0] & 0xF, buffer[1] & 0x7F, bool(buffer[1] & 0x80)
        self._check(buffer[0], opcode, length, masked)
        size = 2 + {126: 2, 127: 8}.get(length, 0)
        end = size + 4 * masked
        if len(buffer) < end:
            return None
        if size > 2:
            length = int.from_bytes(buffer[2:size], "big")
            if length >> 63:
                raise Fault(PROTOCOL_ERROR, "a frame longer than there are")
        if opcode in _DATA:
            self._kind = opcode
        self._frame = _WebSocketFrame(opcode, bool(buffer[0] & 0x80), length, bytes(buffer[size:end]))
        del buffer[:end]
        return self._frame

    def _check(self, first: int, opcode: int, length: int, masked: bool) -> None:
        if first & 0x70:
            raise Fault(PROTOCOL_ERROR, "an extension that was not agreed on")
        if opcode not in _KNOWN:
            raise Fault(PROTOCOL_ERROR, "an unknown kind of frame")
        if masked != self._masked:
            raise Fault(PROTOCOL_ERROR, "a client has to mask its frames, and a server must not")
        if opcode >= CLOSE and (length > MOST_CONTROL or not first & 0x80):
            raise Fault(PROTOCOL_ERROR, "a control frame that is too long, or in parts")
        if opcode in _DATA and self._kind:
            raise Fault(PROTOCOL_ERROR, "a message within another")
        if opcode == CONTINUATION and not self._kind:
            raise Fault(PROTOCOL_ERROR, "the rest of a message that never began")

    def _take_payload(self, frame: _WebSocketFrame) -> None:
        """Take the received part of the frame's payload."""
        count = min(len(self._buffer), frame.left)
        if not count:
            return
        piece = bytes(self._buffer[:count])
        del self._buffer[:count]
        if frame.key:
            piece = masked_with(piece, frame.key, frame.at)
        frame.at += count
        frame.left -= count
        if frame.opcode >= CLOSE:
            self._control += piece
        elif not self._dropping:
            self._message += piece
            if len(self._message) > self._limit:
                self._dropping = True
                self._message = self._message[: min(HEAD_SIZE, self._limit)]

    def _message_of(self, frame: _WebSocketFrame) -> Event | None:
        if frame.opcode >= CLOSE:
            data = bytes(self._control)
            self._control.clear()
            return self._control_event(frame.opcode, data)
        if not frame.final:
            return None
        data, text, dropped = bytes(self._message), self._kind == TEXT, self._dropping
        self._message, self._kind, self._dropping = bytearray(), CONTINUATION, False
        if dropped:
            return OversizedMessage(data)
        if text and not is_text(data):
            raise Fault(BAD_TEXT, "a text that is not UTF-8")
        return WebSocketMessage(data, text)

    def _control_event(self, opcode: int, data: bytes) -> Event:
        if opcode == PING:
            return WebSocketPing(data)
        if opcode == PONG:
            return WebSocketPong(data)
        self._closed = True
        if not data:
            return WebSocketClosed(NO_CODE, "")
        if len(data) < 2:
            raise Fault(PROTOCOL_ERROR, "half a close code")
        code = int.from_bytes(data[:2], "big")
        if not (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999):
            raise Fault(PROTOCOL_ERROR, "a close code that is never sent")
        if not is_text(data[2:]):
            raise Fault(BAD_TEXT, "a reason that is not UTF-8")
        return WebSocketClosed(code, data[2:].decode())


def frame(payload: bytes | memoryview, opcode: int = TEXT, key: bytes = b"") -> bytes:
    """Return a whole message as one frame. ``key`` is four random bytes if a client sends it."""
    size, mask = len(payload), 0x80 if key else 0
    if size <= MOST_CONTROL:
        head = struct.pack("!BB", 0x80 | opcode, mask | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | opcode, mask | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, mask | 127, size)
    if key:
        payload = masked_with(bytes(payload), key)
    return b"".join((head, key, payload))


def close_frame(code: int, reason: str = "", key: bytes = b"") -> bytes:
    """Return a close frame; a reason that is too long is cut. For 1005 the frame has no code."""
    if code == NO_CODE:
        return frame(b"", CLOSE, key)
    text = reason.encode()[: MOST_CONTROL - 2].decode(errors="ignore").encode()
    return frame(struct.pack("!H", code) + text, CLOSE, key)


def masked_with(data: bytes, key: bytes, at: int = 0) -> bytes:
    """Return ``data`` masked, or unmasked, from byte ``at`` of its frame (RFC 6455, 5.3)."""
    size = len(data)
    turned = key[at % 4 :] + key[: at % 4]
    mask = (turned * (size // 4 + 1))[:size]
    # As one number: XOR of two of them is a loop in C.
    return (int.from_bytes(data, "little") ^ int.from_bytes(mask, "little")).to_bytes(size, "little")


def accept_of(key: str) -> str:
    """Return the ``Sec-WebSocket-Accept`` value for a client's ``Sec-WebSocket-Key``."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()


def fault_in(method: str, headers: Mapping[str, str]) -> str | None:
    """Return why a request cannot open a WebSocket (RFC 6455, 4.2.1); None if it can.

    ``headers`` are by lower-case name. The version is checked separately: see :data:`VERSION`.
    """
    if method != "GET":
        return "a WebSocket begins with a GET"
    try:
        nonce = base64.b64decode(headers.get("sec-websocket-key", ""), validate=True)
    except (binascii.Error, ValueError):
        nonce = b""
    return None if len(nonce) == 16 else "Sec-WebSocket-Key: 16 bytes in base64"


def is_text(data: bytes) -> bool:
    """Return whether the bytes are valid UTF-8, as a text message has to be."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
