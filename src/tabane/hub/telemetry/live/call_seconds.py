"""Calls by the second: how many, how many failed, and how long they took, for the last 15 minutes."""

from __future__ import annotations

import random
import time
from array import array
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from tabane.operations import Outcome

KEPT = 900
"""Seconds that are kept."""

MOST_SAMPLES = 512
"""Durations of one second that percentiles are computed from. Of more, these are chosen at random."""


class SecondFigures(NamedTuple):
    """The figures of one second. ``p50`` and ``p95`` are milliseconds, None if no call was made."""

    second: int
    calls: int
    failed: int
    refused: int
    p50: float | None
    p95: float | None


class CallSeconds:
    """Counts calls by the second in which they ended. ``on_second`` gets each second that had calls."""

    def __init__(
        self, on_second: Callable[[SecondFigures], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._on_second, self._clock = on_second, clock
        self.since = int(clock())
        self._closed: deque[SecondFigures] = deque(maxlen=KEPT)
        self._second = self.since
        self._begin(self.since)

    def count(self, outcome: Outcome, seconds: float) -> None:
        """Count a call that has ended now. One that was refused was not made, so it has no duration."""
        self.close()
        self._calls += 1
        if outcome == "refused" or outcome == "limited":
            self._refused += 1
            return
        if outcome == "failed":
            self._failed += 1
        self._timed += 1
        if len(self._samples) < MOST_SAMPLES:
            self._samples.append(seconds)
        elif (place := random.randrange(self._timed)) < MOST_SAMPLES:
            self._samples[place] = seconds

    def close(self) -> float:
        """Close the second if it is over. Return the seconds until the current one is."""
        now = self._clock()
        if int(now) != self._second:
            if self._calls:
                figures = self._figures()
                self._closed.append(figures)
                self._on_second(figures)
            self._begin(int(now))
        return 1.0 - now % 1.0

    def report(self, seconds: int) -> dict[str, Any]:
        """Return the figures of the last ``seconds`` complete seconds, one list for each figure."""
        self.close()
        end = self._second
        start = end - min(seconds, KEPT)
        known = {figures.second: figures for figures in self._closed}
        rows = [known.get(second) for second in range(start, end)]
        return {
            "from": start,
            "since": self.since,
            "calls": [row.calls if row else 0 for row in rows],
            "failed": [row.failed if row else 0 for row in rows],
            "refused": [row.refused if row else 0 for row in rows],
            "p50": [row.p50 if row else None for row in rows],
            "p95": [row.p95 if row else None for row in rows],
        }

    def _begin(self, second: int) -> None:
        self._second = second
        self._calls = self._failed = self._refused = self._timed = 0
        self._samples = array("f")

    def _figures(self) -> SecondFigures:
        times = sorted(self._samples)
        return SecondFigures(
            self._second,
            self._calls,
            self._failed,
            self._refused,
            _milliseconds(times, 0.5),
            _milliseconds(times, 0.95),
        )


def _milliseconds(times: list[float], part: float) -> float | None:
    """Return the time that this part of the calls did not exceed."""
    if not times:
        return None
    return round(times[min(int(len(times) * part), len(times) - 1)] * 1000, 3)
