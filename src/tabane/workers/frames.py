"""Frames between the hub and a worker, over two pipes, and hooks that encode messages for people in them.

A request is four bytes of length, four with its number, four with the CPU time it may take in milliseconds
(0 for any), a byte that is 1 if it is urgent, and a body. An answer is four bytes of length, four with the
number of its request, a byte with its kind, and a body. All numbers are big-endian. The first answer is
empty: the worker is ready.

Bodies are the callers' own. Those in MessagePack pass :func:`encode_message` and :func:`decode_message` to
msgspec if they contain a Message.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec

from tabane.messages import Message

LONGEST = 128 * 1024 * 1024
"""Bytes of a body."""

REQUEST = struct.Struct(">III?")
ANSWER = struct.Struct(">IIB")

_MOST_MILLISECONDS = (1 << 32) - 1


class AnswerKind(IntEnum):
    """The kind of an answer.

    A result; a result after which the worker ends; progress of a request that is not answered yet; or a
    :class:`WorkerRefusal`.
    """

    RESULT = 0
    LAST = 1
    PROGRESS = 2
    REFUSED = 3


class RequestHead(NamedTuple):
    """The head of a request: bytes of its body, its number, and its seconds of CPU time."""

    length: int
    number: int
    seconds: float
    urgent: bool


class AnswerHead(NamedTuple):
    """The head of an answer: bytes of its body, the number of its request, and its kind."""

    length: int
    number: int
    kind: AnswerKind


class WorkerRefusal(msgspec.Struct, frozen=True):
    """Why a worker cannot do what was requested. ``package`` is the name of a missing package, or ""."""

    reason: str
    package: str = ""


def request(length: int, seconds: float = 0.0, *, number: int = 0, urgent: bool = False) -> bytes:
    """Return the head of a request that may take ``seconds`` of CPU time, 0 for any.

    Raises ValueError for a body beyond LONGEST.
    """
    milliseconds = max(1, min(int(seconds * 1000), _MOST_MILLISECONDS)) if seconds else 0
    return REQUEST.pack(_check_length(length), number, milliseconds, urgent)


def answer(length: int, *, kind: AnswerKind = AnswerKind.RESULT, number: int = 0) -> bytes:
    """Return the head of an answer. Raises ValueError for a body beyond LONGEST."""
    return ANSWER.pack(_check_length(length), number, kind)


def request_head(head: bytes) -> RequestHead:
    """Parse the head of a request. Raises ValueError beyond LONGEST."""
    length, number, milliseconds, urgent = REQUEST.unpack(head)
    return RequestHead(_check_length(length), number, milliseconds / 1000, urgent)


def answer_head(head: bytes) -> AnswerHead:
    """Parse the head of an answer. Raises ValueError beyond LONGEST and for an unknown kind."""
    length, number, kind = ANSWER.unpack(head)
    return AnswerHead(_check_length(length), number, AnswerKind(kind))


def _check_length(length: int) -> int:
    if length > LONGEST:
        raise ValueError(f"a frame of {length} bytes")
    return length


class SentMessage(msgspec.Struct, frozen=True):
    """A Message in transit."""

    template: str
    fields: dict[str, str | int | float | SentMessage | None]


def encode_message(value: Any) -> SentMessage:
    """Convert a Message for MessagePack. An ``enc_hook``."""
    if isinstance(value, Message):
        return SentMessage(value.template, {name: _sent_field(field) for name, field in value.fields.items()})
    raise NotImplementedError(f"nothing sends a {type(value).__name__}")


def decode_message(_kind: type, value: Any) -> Message:
    """Convert a sent message into a Message. A ``dec_hook``."""
    return _read_message(msgspec.convert(value, SentMessage))


def _sent_field(value: object) -> str | int | float | SentMessage | None:
    if isinstance(value, Message):
        return encode_message(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def _read_message(sent: SentMessage) -> Message:
    fields = {
        name: _read_message(field) if isinstance(field, SentMessage) else field
        for name, field in sent.fields.items()
    }
    return Message(sent.template, **fields)
