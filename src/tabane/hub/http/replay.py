"""Journal of the last events of each stream, bounded: what a client missed when a stream broke; pure.

An event's id names its stream and its place in the session. A client that comes back says the last id
it has seen, and is given what came after it on that stream.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class _JournalEvent(NamedTuple):
    stream: int
    number: int
    event: bytes


class Journal:
    """The last events of a session: at most ``most`` of them, with at most ``most_bytes`` in all."""

    __slots__ = ("_bytes", "_kept", "most", "most_bytes")

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most, self.most_bytes = most, most_bytes
        self._kept: deque[_JournalEvent] = deque()
        self._bytes = 0

    @property
    def size(self) -> int:
        """Bytes kept."""
        return self._bytes

    def keep(self, stream: int, number: int, event: bytes) -> None:
        """Remember an event. One that alone is larger than the bound is not kept, nor what came before."""
        self._kept.append(_JournalEvent(stream, number, event))
        self._bytes += len(event)
        while len(self._kept) > self.most or self._bytes > self.most_bytes:
            self._bytes -= len(self._kept.popleft().event)

    def after(self, stream: int, number: int) -> list[bytes]:
        """Return the events of a stream after its event of that number, the oldest first."""
        return [kept.event for kept in self._kept if kept.stream == stream and kept.number > number]

    def forget(self, stream: int) -> None:
        """Drop the events of a stream."""
        self._kept = deque(kept for kept in self._kept if kept.stream != stream)
        self._bytes = sum(len(kept.event) for kept in self._kept)


def event_id(stream: int, number: int) -> str:
    return f"{stream}-{number}"


def parse_event_id(text: str) -> tuple[int, int] | None:
    """Return stream and number of an event's id; None if it is not one of ours."""
    stream, dash, number = text.partition("-")
    # Bounded before they are converted: a number may be as long as a header.
    if not dash or len(text) > 40 or not (stream.isascii() and number.isascii()):
        return None
    if not (stream.isdigit() and number.isdigit()):
        return None
    return int(stream), int(number)
