"""Requests to the converting process, and its answers: MessagePack."""

from __future__ import annotations

import msgspec

from tabane.messages import Message
from tabane.reader.page import Page
from tabane.workers import codec
from tabane.workers.frames import LONGEST


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Bytes to convert into a page, and their metadata.

    ``plain``: return only their text, in one pass; without ``scripts``, include what browsers without
    scripts show.
    """

    body: bytes
    url: str
    media_type: str = ""
    charset: str | None = None
    name: str = ""
    plain: bool = False
    scripts: bool = True


class ToShow(msgspec.Struct, frozen=True, tag=True):
    """A page to make readable for a person. ``raw``: it is a source, whose comments stay."""

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

_ENCODER = msgspec.msgpack.Encoder(enc_hook=codec.encode_message)
_ASKS: msgspec.msgpack.Decoder[Ask | ToShow] = msgspec.msgpack.Decoder(
    Ask | ToShow, dec_hook=codec.decode_message
)
_REPORTS: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report, dec_hook=codec.decode_message)


def pack(message: Ask | ToShow | Report) -> bytes:
    """Return a message as bytes. Raises ValueError if it is too long for a frame."""
    body = _ENCODER.encode(message)
    if len(body) > LONGEST:
        raise ValueError(f"a frame of {len(body)} bytes")
    return body


def asked(body: bytes) -> Ask | ToShow:
    """Decode a request to the process."""
    return _ASKS.decode(body)


def report(body: bytes) -> Report:
    """Decode an answer of the process. Raises msgspec.DecodeError for anything else."""
    return _REPORTS.decode(body)
