"""Failed attempts, bounded: those of one second and source are one entry with a count."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from tabane.audit.entry import EntryType, Outcome

WINDOW = 1.0
"""Seconds for which equal events are counted together."""

MOST_SOURCES = 100
"""Sources in a second that get entries of their own; all others share entries."""

_OTHERS = "…"


class AccessEvent(NamedTuple):
    """A sign-in, a failed attempt, or a change of keys, settings or the hub."""

    type: EntryType
    holder: str
    label: str
    source: str
    action: str
    outcome: Outcome
    detail: str


class EventFlood:
    """Writes the first event of a source at once, and the number of the others after a second."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        write: Callable[[AccessEvent, int], None],
        clock: Callable[[], float],
    ) -> None:
        self._loop, self._write, self._clock = loop, write, clock
        self._counts: dict[tuple[str, str], int] = {}
        self._last: dict[tuple[str, str], AccessEvent] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, event: AccessEvent) -> None:
        key = (event.source, event.action)
        if key not in self._counts and len(self._counts) >= MOST_SOURCES:
            key = (_OTHERS, "")
            event = event._replace(holder="", label="", source=_OTHERS)
        if key in self._counts:
            self._counts[key] += 1
            self._last[key] = event
            return
        self._counts[key] = 0
        self._write(event, 1)
        if self._timer is None:
            self._timer = self._loop.call_later(WINDOW, self.flush)

    def flush(self) -> None:
        """Write the numbers of the events that were only counted."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        counts, self._counts = self._counts, {}
        last, self._last = self._last, {}
        for key, count in counts.items():
            if count:
                self._write(last[key], count)
