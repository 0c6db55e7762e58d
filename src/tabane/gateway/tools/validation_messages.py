"""Requests to the process that judges arguments, and its answers: MessagePack."""

from __future__ import annotations

import msgspec

from tabane.errors import BadArguments
from tabane.messages import Message
from tabane.workers import codec


class ValidationRequest(msgspec.Struct, frozen=True, array_like=True):
    """A tool's definition, as the upstream gave it, and arguments for it, both as JSON."""

    definition: bytes
    arguments: bytes


class ValidationResult(msgspec.Struct, frozen=True, array_like=True):
    """The fault; no message if there is none, or if it cannot be judged."""

    message: Message | None = None
    parameter: str | None = None

    @property
    def error(self) -> BadArguments | None:
        return BadArguments(self.message, self.parameter) if self.message is not None else None


def result_of(error: BadArguments | None) -> ValidationResult:
    return ValidationResult(error.message, error.parameter) if error else ValidationResult()


_ENCODER = msgspec.msgpack.Encoder(enc_hook=codec.leaving)
_CASES = msgspec.msgpack.Decoder(ValidationRequest)
_VERDICTS = msgspec.msgpack.Decoder(ValidationResult, dec_hook=codec.arriving)


def packed(value: ValidationRequest | ValidationResult) -> bytes:
    return _ENCODER.encode(value)


def decode_request(body: bytes) -> ValidationRequest:
    return _CASES.decode(body)


def decode_result(body: bytes) -> ValidationResult:
    """Read a verdict. Raises msgspec.DecodeError."""
    return _VERDICTS.decode(body)
