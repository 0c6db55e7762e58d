"""Queries on kept results, and answers to them, as they pass between the hub and a process."""

from __future__ import annotations

from typing import Literal

import msgspec

from tabane.messages import Message
from tabane.workers import frames

Aggregate = Literal["count", "sum", "min", "max", "avg", "group", "unique", "keys"]


class ResultQuery(msgspec.Struct, frozen=True, array_like=True):
    """A query on a document. ``context`` is the number of lines around each that matches."""

    document: bytes
    of_json: bool
    select: str | None = None
    lines: str | None = None
    regex: str | None = None
    context: int = 0
    aggregate: Aggregate | None = None


class QueryAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The value that was found: JSON or a text. ``note`` is about it, ``failure`` says why there is none."""

    found: bytes = b""
    of_json: bool = False
    note: Message | None = None
    failure: Message | None = None


_ENCODER = msgspec.msgpack.Encoder(enc_hook=frames.encode_message)
_QUERIES = msgspec.msgpack.Decoder(ResultQuery)
_ANSWERS = msgspec.msgpack.Decoder(QueryAnswer, dec_hook=frames.decode_message)


def packed_query(query: ResultQuery) -> bytes:
    return _ENCODER.encode(query)


def packed_answer(answer: QueryAnswer) -> bytes:
    return _ENCODER.encode(answer)


def read_query(body: bytes) -> ResultQuery:
    return _QUERIES.decode(body)


def read_answer(body: bytes) -> QueryAnswer:
    """Return an answer. Raises msgspec.DecodeError."""
    return _ANSWERS.decode(body)
