"""How the work on a text grows with the text: a ratio, which no machine and no load changes."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMES = 8
"""How many times longer the second text is. Quadratic work takes 64 times as long then."""

MOST = 24.0
ROUNDS = 6
TICK = 0.005  # seconds of CPU below which nothing can be compared


def assert_in_proportion(work: Callable[[int], object], size: int) -> None:
    """Assert that ``work`` on 8 times ``size`` takes about 8 times as long as on ``size``.

    Noise makes single measurements larger. So one good round of several is enough: quadratic work has none.
    """
    ratios = []
    for _ in range(ROUNDS):
        ratios.append(_taken(work, size * TIMES) / max(_taken(work, size), TICK))
        if ratios[-1] <= MOST:
            return
    raise AssertionError(f"{TIMES} times the size takes {min(ratios):.0f} times the work")


def _taken(work: Callable[[int], object], size: int) -> float:
    begun = time.process_time()
    work(size)
    return time.process_time() - begun
