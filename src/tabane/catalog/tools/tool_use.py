"""The use of each tool by each caller, and the order of hits with equal scores that follows from it; pure."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tabane.catalog.tools.ranking import ToolHit


HALF_LIFE = 14 * 86_400.0
"""Seconds after which a call counts half."""

TIE = 0.01
"""The largest difference of two scores that are equal for a reader."""

MOST = 5_000
"""Pairs of caller and tool that are counted. Beyond it, the half that counts least is forgotten."""

OWN_SHARE = 0.87
"""The part of its score that counts for a tool of the hub beside those of servers.

A server that fits about as well was added for such requests. With this share, the tools of an empty hub lower
recall@5 of a public set from .922 to .915 (benchmarks/tools/recall.py --own).
"""

_BEGIN = 1_767_225_600.0  # 2026-01-01: so far, a call had the weight 1
_YEAR = 365 * 86_400.0
_LARGEST = 1_000.0  # of an exponent: a clock may be wrong

Use = tuple[str, str, float]
"""(holder, public name of the tool, weight)"""


class ToolUse:
    """Counts calls by holder and tool. A later call counts more, so that weights never have to be reduced.

    ``used`` is what this hub counted earlier. In a group of hubs, the weights of the others are added.
    """

    def __init__(self, used: Iterable[Use] = ()) -> None:
        self._weights: dict[tuple[str, str], float] = {
            (holder, tool): weight for holder, tool, weight in used
        }
        self._others: dict[tuple[str, str], float] = {}
        self._untold = set(self._weights)
        self._by_holder: dict[str, dict[str, float]] | None = None

    def note(self, holder: str, tool: str, now: float, times: int = 1, *, told: bool = True) -> None:
        """Count calls at that Unix time. ``told``: other hubs may know of it."""
        key = holder, tool
        if told:
            self._untold.add(key)
        weight = times * 2.0 ** min(_LARGEST, (now - _BEGIN) / HALF_LIFE)
        self._weights[key] = self._weights.get(key, 0.0) + weight
        self._by_holder = None
        if len(self._weights) > MOST:
            kept = heapq.nlargest(MOST // 2, self._weights.items(), key=lambda item: (item[1], item[0]))
            self._weights = dict(kept)
            self._untold &= self._weights.keys()

    def of(self, holder: str) -> Mapping[str, float]:
        """Return the weights of the tools that this holder used. Only their order has a meaning."""
        if self._by_holder is None:
            self._by_holder = {}
            for (whose, tool), weight in (*self._weights.items(), *self._others.items()):
                of_one = self._by_holder.setdefault(whose, {})
                of_one[tool] = of_one.get(tool, 0.0) + weight
        return self._by_holder.get(holder, {})

    def all(self) -> list[Use]:
        """Return what this hub counted."""
        return [(holder, tool, weight) for (holder, tool), weight in self._weights.items()]

    def untold(self) -> list[Use]:
        """Return what this hub counted and has not told the others, and forget that it was not told."""
        untold, self._untold = self._untold, set()
        return [(*key, self._weights[key]) for key in untold if key in self._weights]

    def tell_again(self, uses: Iterable[Use]) -> None:
        """Note that the others were not told of this."""
        self._untold |= {(holder, tool) for holder, tool, _ in uses}

    def restore(self, kept: Iterable[Use]) -> None:
        """Take what the group keeps of this hub, if it is more: the files of the hub may be older."""
        for holder, tool, weight in kept:
            key = holder, tool
            self._weights[key] = max(weight, self._weights.get(key, 0.0))
        self._by_holder = None

    def put_others(self, uses: Iterable[Use]) -> None:
        """Replace the weights of all other hubs."""
        self._others = {(holder, tool): weight for holder, tool, weight in uses}
        self._by_holder = None


def forgotten(now: float) -> float:
    """Return the weight of one call that was made a year before that Unix time: less hardly counts."""
    return float(2.0 ** min(_LARGEST, (now - _YEAR - _BEGIN) / HALF_LIFE))


def ties_broken(
    hits: Sequence[ToolHit], used: Mapping[str, float], own: Collection[str]
) -> tuple[ToolHit, ...]:
    """Return the hits in the order of their scores, where scores within :data:`TIE` are a tie.

    The hub's ``own`` tools count with :data:`OWN_SHARE` of their scores. A tie contains a hit and those below
    it that score at most that much less. Within it, tools of servers come before own ones, then those that
    were used more, and then the order that was given. A hit with score 1 was asked for by its name, and one
    with score 0 only matches a filter: these are in no tie.
    """
    ties: list[list[ToolHit]] = []
    standings = {hit.alias: _standing(hit, own) for hit in hits}
    for hit in sorted(hits, key=lambda hit: -standings[hit.alias]):
        if ties and _tied(standings[ties[-1][0].alias], standings[hit.alias]):
            ties[-1].append(hit)
        else:
            ties.append([hit])
    for tie in ties:
        tie.sort(key=lambda hit: (hit.alias in own, -used.get(hit.alias, 0.0)))
    return tuple(hit for tie in ties for hit in tie)


def _standing(hit: ToolHit, own: Collection[str]) -> float:
    return hit.score * OWN_SHARE if hit.alias in own and hit.score < 1.0 else hit.score


def _tied(best: float, score: float) -> bool:
    return 0.0 < best < 1.0 and round(best - score, 6) <= TIE
