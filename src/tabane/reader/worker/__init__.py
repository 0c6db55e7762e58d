"""The process that converts bytes into pages, and the messages to and from it, in MessagePack.

A parser that crashes or takes too much memory ends this process, and nothing else.
"""

from __future__ import annotations

import msgspec

from tabane.messages import Message
from tabane.reader.page import Page
from tabane.workers import frames
from tabane.workers.frames import LONGEST


class ConversionRequest(msgspec.Struct, frozen=True, tag=True):
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


class CleaningRequest(msgspec.Struct, frozen=True, tag=True):
    """A page to make readable for a person. ``raw``: it is a source, whose comments stay."""

    page: Page
    raw: bool = False


class ConvertedPage(msgspec.Struct, frozen=True, tag=True):
    """The page."""

    page: Page


class ConversionFailure(msgspec.Struct, frozen=True, tag=True):
    """No page, and why: the members of a ReadError. ``ending``: the process ends itself after this."""

    message: Message
    cause: str
    ending: bool = False


ConversionResult = ConvertedPage | ConversionFailure

_ENCODER = msgspec.msgpack.Encoder(enc_hook=frames.encode_message)
_ASKS: msgspec.msgpack.Decoder[ConversionRequest | CleaningRequest] = msgspec.msgpack.Decoder(
    ConversionRequest | CleaningRequest, dec_hook=frames.decode_message
)
_REPORTS: msgspec.msgpack.Decoder[ConversionResult] = msgspec.msgpack.Decoder(
    ConversionResult, dec_hook=frames.decode_message
)


def pack(message: ConversionRequest | CleaningRequest | ConversionResult) -> bytes:
    """Return a message as bytes. Raises ValueError if it is too long for a frame."""
    body = _ENCODER.encode(message)
    if len(body) > LONGEST:
        raise ValueError(f"a frame of {len(body)} bytes")
    return body


def decode_request(body: bytes) -> ConversionRequest | CleaningRequest:
    """Decode a request to the process."""
    return _ASKS.decode(body)


def decode_result(body: bytes) -> ConversionResult:
    """Decode an answer of the process. Raises msgspec.DecodeError for anything else."""
    return _REPORTS.decode(body)
