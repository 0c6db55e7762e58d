"""Failures of calls as one hub tells them to another: their kind and message, which stays translatable."""

from __future__ import annotations

from typing import Any

from tabane.errors import (
    TabaneError,
    UpstreamDied,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from tabane.messages import Message
from tabane.wire import json

_OTHER = "UpstreamError"
_CLASSES = {
    "UpstreamDied": UpstreamDied,
    "UpstreamOverloaded": UpstreamOverloaded,
    "UpstreamTimeout": UpstreamTimeout,
    "UpstreamUnavailable": UpstreamUnavailable,
}


def failure_line(number: int, failure: TabaneError) -> tuple[str, bytes]:
    """Return the kind of a failure, and a line with the id of the call and the message."""
    kind = next((name for name, each in _CLASSES.items() if isinstance(failure, each)), _OTHER)
    return kind, json.encode({"id": number, "message": _packed(failure.message)})


def failure_in(kind: str, line: bytes) -> tuple[int, UpstreamError]:
    """Return the id of the call that has failed at another hub, and why."""
    found: dict[str, Any] = json.decode(line)
    return int(found["id"]), _CLASSES.get(kind, UpstreamError)(_unpacked(found["message"]))


def _packed(message: Message) -> dict[str, Any]:
    return {"text": message.template, "fields": {name: _value(each) for name, each in message.fields.items()}}


def _value(value: object) -> object:
    if isinstance(value, Message):
        return _packed(value)
    return value if isinstance(value, str | int | float) else str(value)


def _unpacked(found: dict[str, Any]) -> Message:
    fields = {
        name: _unpacked(value) if isinstance(value, dict) else value
        for name, value in found["fields"].items()
    }
    return Message(found["text"], **fields)
