"""Messages for people in MessagePack: hooks for msgspec, so that an answer of a worker may contain them."""

from __future__ import annotations

from typing import Any

import msgspec

from tabane.messages import Message


class SentMessage(msgspec.Struct, frozen=True):
    """A Message in transit."""

    template: str
    fields: dict[str, str | int | float | SentMessage | None]


def encode_message(value: Any) -> SentMessage:
    """Turn a Message into what MessagePack can hold. An ``enc_hook``."""
    if isinstance(value, Message):
        return SentMessage(value.template, {name: _field(field) for name, field in value.fields.items()})
    raise NotImplementedError(f"nothing sends a {type(value).__name__}")


def decode_message(_kind: type, value: Any) -> Message:
    """Turn it back into a Message. A ``dec_hook``."""
    return _message(msgspec.convert(value, SentMessage))


def _field(value: object) -> str | int | float | SentMessage | None:
    if isinstance(value, Message):
        return encode_message(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def _message(said: SentMessage) -> Message:
    fields = {
        name: _message(field) if isinstance(field, SentMessage) else field
        for name, field in said.fields.items()
    }
    return Message(said.template, **fields)
