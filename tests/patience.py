"""Deadlines and costs that hold on any machine, however loaded.

A test waits for a condition, with :data:`LONG` as the deadline that only a hang reaches. What a test says of
cost, it says as a count of steps or as growth with the size of the input, never as seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

LONG = 120.0
"""Seconds. Nothing that works takes as long, also on a machine with twenty other things to do."""

_ATTEMPTS = 6


def steps(work: Callable[[], object]) -> int:
    """Return how many lines of Python ``work`` executes. The count is the same on every machine."""
    count = 0

    def traced(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def grows_linearly(work: Callable[[int], object], size: int, times: int = 8) -> bool:
    """Return whether the cost of ``work(size * times)`` is nearer to ``times`` than to its square.

    For work inside C code, whose steps cannot be counted. The cost is processor time of this thread. Noise
    only adds to it, so one fair comparison among several attempts is enough; work that grows with the square
    passes none of them.
    """
    return any(
        _cost(work, size * times) <= 3 * times * max(_cost(work, size), 0.002) for _ in range(_ATTEMPTS)
    )


def _cost(work: Callable[[int], object], size: int) -> float:
    begun = time.thread_time()
    work(size)
    return time.thread_time() - begun
