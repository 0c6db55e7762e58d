"""BM25 as tantivy computes it, so that records outside of the index get the very scores they get inside.

Robertson and Zaragoza (2009), with idf = ln(1 + (N - n + 0.5) / (n + 0.5)), k1 = 1.2, b = 0.75 and the
length of a field kept in one byte: exact up to 40 tokens, then in eight steps an octave.
"""

from __future__ import annotations

import math
from bisect import bisect_right

K1 = 1.2
B = 0.75

_EXACT = 40
_STEPS = 8
_OCTAVES = 27


def _lengths() -> list[int]:
    found = list(range(_EXACT + 1))
    for octave in range(1, _OCTAVES):
        last = found[-1]
        found.extend(last + (1 << octave) * step for step in range(1, _STEPS + 1))
    return found


_LENGTHS = tuple(_lengths())


def kept_length(length: int) -> int:
    """Return the length that tantivy remembers for a field of so many tokens."""
    return _LENGTHS[bisect_right(_LENGTHS, length) - 1]


def idf(records: float, having: float) -> float:
    """Return how much a term says that ``having`` of ``records`` hold."""
    return math.log(1 + (records - having + 0.5) / (having + 0.5))


def saturation(frequency: float, length: float, average: float) -> float:
    """Return how much a term's frequency in a field of that (kept) length counts: below k1 + 1."""
    return (K1 + 1) * frequency / (frequency + K1 * (1 - B + B * length / average))


def rounded(score: float) -> float:
    """Six significant digits: what the order of additions and 32-bit floats leave the same."""
    return float(f"{score:.6g}")
