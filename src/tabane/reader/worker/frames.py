"""What the process that converts is asked, and what it answers: MessagePack."""

from __future__ import annotations

import msgspec

from tabane.messages import Message
from tabane.reader.page import Page
from tabane.workers import codec
from tabane.workers.frames import LONGEST


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Bytes to be made a page, and what is known of them.

    ``plain``: their text alone, in one pass; without ``scripts`` what browsers without scripts show.
    """

    body: bytes
    url: str
    media_type: str = ""
    charset: str | None = None
    name: str = ""
    plain: bool = False
    scripts: bool = True


class ToShow(msgspec.Struct, frozen=True, tag=True):
    """A page to be made what a person sees of it. ``raw``: it is a source, whose comments stay."""

    page: Page
    raw: bool = False


class Made(msgspec.Struct, frozen=True, tag=True):
    """The page."""

    page: Page


class Failed(msgspec.Struct, frozen=True, tag=True):
    """No page, and why: the members of a ReadError. ``ending``: the process ends itself after this."""

    message: Message
    cause: str
    ending: bool = False


Report = Made | Failed

_ENCODER = msgspec.msgpack.Encoder(enc_hook=codec.leaving)
_ASKS: msgspec.msgpack.Decoder[Ask | ToShow] = msgspec.msgpack.Decoder(Ask | ToShow, dec_hook=codec.arriving)
_REPORTS: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report, dec_hook=codec.arriving)


def pack(message: Ask | ToShow | Report) -> bytes:
    """Return a message as bytes. Raises ValueError beyond what a frame may hold."""
    body = _ENCODER.encode(message)
    if len(body) > LONGEST:
        raise ValueError(f"a frame of {len(body)} bytes")
    return body


def asked(body: bytes) -> Ask | ToShow:
    """Read what the process is asked."""
    return _ASKS.decode(body)


def report(body: bytes) -> Report:
    """Read what the process answers. Raises msgspec.DecodeError for anything else."""
    return _REPORTS.decode(body)
