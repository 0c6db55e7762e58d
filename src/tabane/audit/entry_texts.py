"""The parts of an entry's line that stay the same from call to call, made once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Protocol

from tabane.wire import json

MOST_REMEMBERED = 2048
"""Callers and targets whose texts are remembered; beyond it, the memory begins again."""

LONGEST_TEXT = 500
"""Characters of a name, reason or other text of an entry; longer ones are cut."""


class AuditedFace(Protocol):
    """The interface that a call came through: a member of an enum of words."""

    _value_: Any


class AuditedIdentity(Protocol):
    """Who calls: the name for limits, audit and usage, and the name that a person gave it."""

    @property
    def holder(self) -> str: ...
    @property
    def label(self) -> str: ...


class AuditedCaller(Protocol):
    """The record of a caller."""

    @property
    def access(self) -> AuditedIdentity: ...
    @property
    def client(self) -> str: ...
    @property
    def face(self) -> AuditedFace: ...
    @property
    def session(self) -> str: ...
    @property
    def script(self) -> str: ...
    @property
    def approval(self) -> str: ...


class AuditedTarget(Protocol):
    """The record of the called tool, operation, prompt or resource."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def server(self) -> str: ...


class EntryTexts:
    """Makes the texts of callers, targets and times, and remembers them."""

    def __init__(self) -> None:
        self._callers: dict[tuple[str, ...], bytes] = {}
        self._targets: dict[tuple[str, ...], bytes] = {}
        self._second, self._time = -1, b""
        self._last: tuple[AuditedCaller, str, bytes] | None = None

    def caller(self, caller: AuditedCaller) -> bytes:
        access, last = caller.access, self._last
        # A record never changes, but its key may get another label.
        if last is not None and last[0] is caller and last[1] == access.label:
            return last[2]
        text = self._text_of(caller)
        self._last = caller, access.label, text
        return text

    def _text_of(self, caller: AuditedCaller) -> bytes:
        access = caller.access
        key = (access.holder, access.label, caller.client, caller.face._value_, caller.session)
        text = self._callers.get(key)
        if text is None:
            names = ("key", "label", "client", "face", "session")
            text = _remembered(self._callers, key, members(**dict(zip(names, key, strict=True))))
        return text

    def target(self, target: AuditedTarget) -> bytes:
        key = (target.kind, target.name, target.server)
        text = self._targets.get(key)
        if text is None:
            text = members(kind=target.kind, name=target.name, server=target.server)
            _remembered(self._targets, key, text)
        return text

    def time(self, now: float) -> bytes:
        """Return a time, in seconds since 1970, as RFC 3339 in UTC with milliseconds."""
        second = int(now)
        if second != self._second:
            self._second = second
            self._time = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S.").encode()
        return b"%b%03dZ" % (self._time, int((now - second) * 1000))


def members(**values: str | int | float) -> bytes:
    """Return values as members that follow others: ``,"name":"value"`` for each that is not empty."""
    return b"".join(member(name, value) for name, value in values.items() if value)


def member(name: str, value: str | int | float) -> bytes:
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            value = value[: LONGEST_TEXT - 1] + "…"
        text = json.quote(value.encode("utf-8", "replace").decode())
    else:
        text = json.encode(value)
    return b',"%b":%b' % (name.encode(), text)


def _remembered(memory: dict[tuple[str, ...], bytes], key: tuple[str, ...], text: bytes) -> bytes:
    if len(memory) >= MOST_REMEMBERED:
        memory.clear()
    memory[key] = text
    return text
