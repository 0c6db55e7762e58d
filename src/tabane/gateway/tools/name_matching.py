"""Names that are nearly, partly or exactly what was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from tabane.search.analysis import normalise

NameMatch = Literal["partial", "prefix", "exact", "fuzzy"]
Measure = Callable[[str, str], float]
"""(wanted, candidate), both normalised → likeness in 0..1, 0 for no match."""

_SIMILAR = 0.6
_NEAR = 0.45
_LONGEST = 128


def measure(match: NameMatch) -> Measure:
    """How that way of matching compares a wanted name with a candidate."""
    if match == "fuzzy":
        return _similar()
    return {"partial": _partial, "prefix": _prefix, "exact": _exact}[match]


def nearest(names: Iterable[str], wanted: str, n: int = 3) -> tuple[str, ...]:
    """Up to ``n`` names that may have been meant, the nearest first; none where none is near.

    A name is compared whole and without its server (``server__``), so that ``read_fiel`` finds
    ``filesystem__read_file``.
    """
    similar = _similar(_NEAR)
    target = normalise(wanted[:_LONGEST]).replace(".", "__", 1)
    bare = target.partition("__")[2] or target
    scored = []
    for name in names:
        candidate = normalise(name)
        own = candidate.partition("__")[2] or candidate
        # The server's part weighs less than the tool's: a right server is no reason to offer its tools.
        whole = similar(target, candidate)
        score = max(similar(bare, own), whole * 0.9, _contained(bare, own))
        if score:
            # Of servers with the same tool, the one that was named comes first.
            scored.append((-score, -whole, name))
    return tuple(name for _, _, name in sorted(scored)[:n])


def _similar(cutoff: float = _SIMILAR) -> Measure:
    # Imported where a name is wrong: most hubs never need it.
    from rapidfuzz.distance import OSA

    def similar(wanted: str, candidate: str) -> float:
        return OSA.normalized_similarity(wanted[:_LONGEST], candidate[:_LONGEST], score_cutoff=cutoff)

    return similar


def _contained(wanted: str, candidate: str) -> float:
    """A name that holds the other, or is held by it: ``read`` for ``read_file``."""
    short, long = sorted((wanted, candidate), key=len)
    return 0.5 + 0.5 * len(short) / len(long) if len(short) >= 3 and short in long else 0.0


def _partial(wanted: str, candidate: str) -> float:
    return len(wanted) / len(candidate) if wanted in candidate else 0.0


def _prefix(wanted: str, candidate: str) -> float:
    return len(wanted) / len(candidate) if candidate.startswith(wanted) else 0.0


def _exact(wanted: str, candidate: str) -> float:
    return float(wanted == candidate)
