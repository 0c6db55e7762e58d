"""BM25: how much a word tells about a text; pure.

Source: S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable

from tabane.engine.query_plans import ScoredTerm, TermMatch

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


LENGTHS = tuple(_lengths())
"""Lengths of fields that fit into one byte of tantivy: exact up to 40, then in eight steps an octave."""


def kept_length(length: int) -> int:
    """Return the length that is scored for a field with so many tokens."""
    return LENGTHS[bisect_right(LENGTHS, length) - 1]


def idf(records: float, having: float) -> float:
    """Return the inverse document frequency of a term that ``having`` of ``records`` contain."""
    return math.log(1 + (records - having + 0.5) / (having + 0.5))


def saturation(frequency: float, length: float, average: float) -> float:
    """Return the weight of a term's frequency in a field with that kept length: below k1 + 1."""
    return (K1 + 1) * frequency / (frequency + K1 * (1 - B + B * length / average))


def rounded(score: float) -> float:
    """Round to six significant digits, which do not depend on the order of additions or on 32-bit floats."""
    return float(f"{score:.6g}")


def ceiling(leaves: Iterable[ScoredTerm], rarity: Callable[[TermMatch], float]) -> float:
    """Return the worth of the query's words, each in the field where it is most usual."""
    usual: dict[tuple[str, str], tuple[float, float]] = {}
    for leaf in leaves:
        rare = rarity(leaf.term)
        word, found = (leaf.term.space[0], leaf.term.token), (rare, leaf.weight * rare)
        usual[word] = min(usual.get(word, found), found)
    return rounded(sum(worth for _, worth in usual.values()))
