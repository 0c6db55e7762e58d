"""Durations in buckets of equal ratio, so that percentiles of any sum of them are within 5 %; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

_RATIO = 1.1
_SHORTEST = 0.001  # ms: everything below counts as this
_LONGEST = 1e9  # ms: everything above counts as this
_LOG = math.log(_RATIO)

HIGHEST = round(math.log(_LONGEST / _SHORTEST) / _LOG)
"""The number of the last bucket; the first is 0."""


def bucket_of(ms: float) -> int:
    """Return the bucket of a duration. Its value differs by less than 5 % from all durations in it."""
    if not ms > _SHORTEST:
        return 0
    return round(math.log(min(ms, _LONGEST) / _SHORTEST) / _LOG)


def duration_of(bucket: int) -> float:
    """Return the duration in milliseconds that a bucket stands for."""
    return float(_SHORTEST * _RATIO**bucket)


def percentiles(buckets: Iterable[tuple[int, int]], shares: Iterable[float]) -> list[float | None]:
    """Return the duration below or at which each share of the counted calls ended (nearest rank).

    ``buckets`` are pairs of bucket and count. Without any count, each is None.
    """
    counted = sorted(buckets)
    total = sum(count for _, count in counted)
    return [_ranked(counted, max(1, math.ceil(share * total))) if total else None for share in shares]


def _ranked(counted: list[tuple[int, int]], rank: int) -> float:
    for bucket, count in counted:
        rank -= count
        if rank <= 0:
            return round(duration_of(bucket), 4)
    return round(duration_of(counted[-1][0]), 4)
