"""Requests to the process that judges arguments, and its answers: MessagePack."""

from __future__ import annotations

import msgspec

from tabane.errors import BadArguments
from tabane.messages import Message
from tabane.workers import codec


class Case(msgspec.Struct, frozen=True, array_like=True):
    """A tool's definition, as the upstream gave it, and arguments for it, both as JSON."""

    definition: bytes
    arguments: bytes


class Verdict(msgspec.Struct, frozen=True, array_like=True):
    """The fault; no message if there is none, or if it cannot be judged."""

    message: Message | None = None
    parameter: str | None = None

    @property
    def error(self) -> BadArguments | None:
        return BadArguments(self.message, self.parameter) if self.message is not None else None


def verdict_of(error: BadArguments | None) -> Verdict:
    return Verdict(error.message, error.parameter) if error else Verdict()


_ENCODER = msgspec.msgpack.Encoder(enc_hook=codec.encode_message)
_CASES = msgspec.msgpack.Decoder(Case)
_VERDICTS = msgspec.msgpack.Decoder(Verdict, dec_hook=codec.decode_message)


def packed(value: Case | Verdict) -> bytes:
    return _ENCODER.encode(value)


def case(body: bytes) -> Case:
    return _CASES.decode(body)


def verdict(body: bytes) -> Verdict:
    """Read a verdict. Raises msgspec.DecodeError."""
    return _VERDICTS.decode(body)
