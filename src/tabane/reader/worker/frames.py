"""What goes between the hub and the process that converts: frames of MessagePack over two pipes.

A frame is four bytes of length, big-endian, and a message. Each :class:`Ask` is answered by :class:`Made` or
:class:`Failed`, one at a time.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tabane.messages import Message
from tabane.reader.page import Page

LONGEST = 128 * 1024 * 1024
"""Bytes of a frame: a body, or a page with its pictures."""


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Bytes to be made a page, and what is known of them. ``seconds`` of the processor are allowed for it."""

    body: bytes
    url: str
    media_type: str = ""
    charset: str | None = None
    name: str = ""
    seconds: int = 60


class Made(msgspec.Struct, frozen=True, tag=True):
    """The page."""

    page: Page


class Failed(msgspec.Struct, frozen=True, tag=True):
    """No page, and why: the members of a ReadError. ``ending``: the process ends itself after this."""

    message: Message
    cause: str
    ending: bool = False


class Said(msgspec.Struct, frozen=True):
    """A Message on its way."""

    template: str
    fields: dict[str, str | int | float | Said | None]


Report = Made | Failed


def _leaving(value: Any) -> Said:
    if isinstance(value, Message):
        return Said(value.template, {name: _field(field) for name, field in value.fields.items()})
    raise NotImplementedError(f"nothing sends a {type(value).__name__}")


def _field(value: object) -> str | int | float | Said | None:
    if isinstance(value, Message):
        return _leaving(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def _arriving(_kind: type, value: Any) -> Message:
    return _message(msgspec.convert(value, Said))


def _message(said: Said) -> Message:
    fields = {
        name: _message(field) if isinstance(field, Said) else field for name, field in said.fields.items()
    }
    return Message(said.template, **fields)


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_leaving)
_ASKS: msgspec.msgpack.Decoder[Ask] = msgspec.msgpack.Decoder(Ask)
_REPORTS: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report, dec_hook=_arriving)


def pack(message: Ask | Report) -> bytes:
    """A frame. Raises ValueError where it would be longer than :data:`LONGEST`."""
    body = _ENCODER.encode(message)
    if len(body) > LONGEST:
        raise ValueError(f"a frame of {len(body)} bytes")
    return len(body).to_bytes(4, "big") + body


def length(head: bytes) -> int:
    """The length of the body after these four bytes. Raises ValueError beyond :data:`LONGEST`."""
    size = int.from_bytes(head, "big")
    if size > LONGEST:
        raise ValueError(f"a frame of {size} bytes")
    return size


def asked(body: bytes) -> Ask:
    """What the process is asked."""
    return _ASKS.decode(body)


def report(body: bytes) -> Report:
    """What the process tells. Raises msgspec.DecodeError for anything else."""
    return _REPORTS.decode(body)
