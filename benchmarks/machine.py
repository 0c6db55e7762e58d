"""How busy the machine is, and a bounded wait until it is quiet."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

QUIET = 15.0
"""Percent of all cores that may be busy before a part starts."""

BUSY = "BENCH_BUSY"
"""The environment variable that tells a part how busy the machine was before it, in percent."""

_LOOK = 2.0
"""Seconds of one look."""


@dataclass(frozen=True, slots=True)
class Load:
    """``busy`` is the share of all cores in percent, just now; ``average`` the load average of a minute."""

    busy: float
    average: float

    def __str__(self) -> str:
        return f"{self.busy:.0f}% of the cores busy, load average {self.average:.2f}"


def load_now() -> Load:
    """Look for two seconds."""
    return Load(psutil.cpu_percent(_LOOK), psutil.getloadavg()[0])


def wait_until_quiet(
    most: float, look: Callable[[], Load] = load_now, clock: Callable[[], float] = time.monotonic
) -> Load:
    """Return the load once at most :data:`QUIET` percent are busy, or what it is after ``most`` seconds.

    The load average is not waited for: a minute after the part before, it would still be that part's.
    """
    began = clock()
    while (found := look()).busy > QUIET and clock() - began < most:
        pass
    return found
