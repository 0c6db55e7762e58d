"""Deadlines and costs that hold on any machine, however loaded.

A test waits for a condition, with :data:`LONG` as the deadline that only a hang reaches. It measures cost as
a count of steps or as growth with the size of the input, never as seconds.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

LONG = 120.0
"""Seconds. Nothing that works takes as long, also on a machine with twenty other things to do."""

T = TypeVar("T")

_TIMES = 8  # quadratic work costs 64 times as much then
_MOST = 24.0
_ROUNDS = 6
_TICK = 0.005  # seconds of CPU below which nothing can be compared


async def until(
    condition: Callable[[], Any], what: str = "the condition", seconds: float = LONG, every: float = 0.01
) -> None:
    """Wait for a condition that nothing announces. It may be a coroutine function.

    It is looked at ``every`` so many seconds. Raise AssertionError if it is not true within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while True:
        met = condition()
        if inspect.isawaitable(met):
            met = await met
        if met:
            return
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(every)


def wait_until(
    condition: Callable[[], T | None], what: str = "the condition", seconds: float = LONG, pause: float = 0.01
) -> T:
    """Wait, without an event loop, until a condition is true, and return its value.

    ``pause``: seconds between two looks, more if a look costs a process.
    Raise AssertionError if it is not true within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while not (met := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(pause)
    return met


def run(scenario: Callable[[], Coroutine[Any, Any, None]], limit: float = 4 * LONG) -> None:
    """Run an async test with a time limit in seconds."""
    asyncio.run(asyncio.wait_for(scenario(), limit))


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


def assert_in_proportion(work: Callable[[int], object], size: int) -> None:
    """Assert that ``work`` on 8 times ``size`` costs about 8 times as much as on ``size``.

    For work inside C code, whose steps cannot be counted. The cost is processor time of this thread. Noise
    only adds to it, so one good round of several is enough; work that grows with the square has none.
    """
    ratios = []
    for _ in range(_ROUNDS):
        ratios.append(_cost(work, size * _TIMES) / max(_cost(work, size), _TICK))
        if ratios[-1] <= _MOST:
            return
    raise AssertionError(f"{_TIMES} times the size costs {min(ratios):.0f} times as much")


def _cost(work: Callable[[int], object], size: int) -> float:
    begun = time.thread_time()
    work(size)
    return time.thread_time() - begun
