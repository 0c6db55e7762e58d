"""When clients are told that a list is another one now."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable

SOON = 0.1
"""Seconds in which changes are gathered: several servers that list at once are told of once."""

LONGEST = 5.0
"""Seconds between two notices of a list that goes on changing."""


class News:
    """Kinds of lists that have changed. ``tell`` is called with a kind, shortly after it has.

    A client reads the whole list again each time that it is told. So a list that goes on changing, as that
    of resources does while a folder of ten thousand files becomes documents, is told of at intervals that
    double up to :data:`LONGEST`; the last change is always told.
    """

    def __init__(self, loop: AbstractEventLoop, tell: Callable[[str], None]) -> None:
        self._loop, self._tell = loop, tell
        self._due: set[str] = set()
        self._told: dict[str, tuple[float, float]] = {}  # when, and how long after it nothing is told

    def changed(self, kind: str) -> None:
        """A list of that kind is another one now."""
        if kind in self._due:
            return
        self._due.add(kind)
        now = self._loop.time()
        at, gap = self._told.get(kind, (now, 0.0))
        gap = SOON if now - at >= 2 * gap else min(2 * gap, LONGEST)
        self._loop.call_later(max(SOON, at + gap - now), self._now, kind, gap)

    def _now(self, kind: str, gap: float) -> None:
        self._due.discard(kind)
        self._told[kind] = (self._loop.time(), gap)
        self._tell(kind)
