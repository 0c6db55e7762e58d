"""Fusion of a ranking by words and one by meaning, and diversity of a ranking; pure.

Scores of different measures are never added directly: BM25 has no upper bound, and the zero of a cosine has
no meaning. Each is scaled, and how much words count is decided for each query (:func:`weight_of_words`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T", bound=Hashable)

K = 60
"""Dampens the first ranks, where a score is made of a rank. The value is that of the paper on rank fusion
(Cormack, Clarke, Büttcher, SIGIR 2009)."""

CHANCE_RANK = 10
"""The rank in both rankings whose score is that of chance: few queries have so many answers."""


class ScoreParts(NamedTuple):
    """The parts of the score of a hit. ``words`` and ``meaning`` add up to it, before any reranking.

    ``words_rank`` and ``meaning_rank`` are the ranks from 1 in the two rankings that were fused; None: the
    hit was not among their best. ``ranked`` is the rank before a reranker moved the hit; None: none did.
    ``fusion`` is empty if there was only one ranking.
    """

    words: float = 0.0
    meaning: float = 0.0
    words_rank: int | None = None
    meaning_rank: int | None = None
    fusion: str = ""
    ranked: int | None = None


class Rise(NamedTuple):
    """How far the best hit of a ranking rises above chance: ``best`` and ``chance`` are scores above 0."""

    best: float
    chance: float

    @classmethod
    def of(cls, scores: Sequence[float], fewer: float) -> Rise:
        """Return that of scores, best first. Chance is the score of rank :data:`CHANCE_RANK`.

        If there are fewer scores, chance is ``fewer`` in 0..1 of the best one.
        """
        best = max(scores[0], 0.0) if scores else 0.0
        if len(scores) < CHANCE_RANK:
            return cls(best, fewer * best)
        return cls(best, max(scores[CHANCE_RANK - 1], 0.0))

    @property
    def is_outstanding(self) -> bool:
        """Return whether it is of words that one text has, and hardly any other."""
        return self.best >= _OUTSTANDING and self.share >= _OUTSTANDING / 2

    @property
    def share(self) -> float:
        """Return the share of the best score that is above chance, in 0..1."""
        return 1 - min(self.chance / self.best, 1.0) if self.best > 0 else 0.0


# Fitted on one half of the questions and checked on the other (docs/decisions.md).
_MOST = 0.54  # the weight of words that stand out: meaning still decides between hits with similar words
_BIAS, _COVERAGE, _WORDS_RISE, _MEANING_RISE = -2.4, 8.3, 4.4, 13.0
_SPACED = -0.9  # added for words between spaces: one of them covers more than a pair of Japanese letters
_WIDEST = 1.2  # a higher coverage says no more
_WORDS_POWER, _MEANING_POWER = 2.7, 0.5
_SEATS, _LAST_SEAT = 2, 5
_OUTSTANDING = 0.4


def weight_of_words(words: Rise, meaning: Rise, *, latin: bool) -> float:
    """Return the weight of words in 0..1 beside meaning, which has the rest, for one query.

    ``words`` are shares of the query's words, by their rarity; more than 1 if a short text has them.
    ``meaning`` are cosines above that of unrelated texts. In a large archive some text always shares a few
    words with a query. So words count if the best text has most of them, and far more than the tenth text
    has. Meaning counts if the nearest text is much nearer than the tenth. Ratios are compared, so neither
    the size of an archive nor the range of a model's cosines matters. ``latin``: the query is in Latin
    script, where a few words in common are more often chance than in Japanese.
    """
    if words.best <= 0:
        return 0.0
    if meaning.best <= 0:
        return 1.0
    covered = _COVERAGE * min(words.best, _WIDEST)
    evidence = _BIAS + covered + _WORDS_RISE * words.share - _MEANING_RISE * meaning.share
    evidence += _SPACED if latin else 0.0
    return _MOST / (1 + math.exp(-evidence))


Parts = tuple[float, float]
"""The shares of a score in 0..1 that come from words and from meaning."""


def fused(
    words: Mapping[T, float], meaning: Mapping[T, float | None], weight: float, *, outstanding: bool = False
) -> dict[T, Parts]:
    """Return the parts of the score of each item, best first.

    ``words`` and ``meaning`` are scores in 0..1, as shares of the best one; ``weight`` in 0..1 is that of
    words. An item that is not in ``words`` has none. If its meaning is None or it is not in ``meaning``, its
    meaning is unknown, and assumed to be as good as its words. So an item neither wins nor loses by having no
    vector yet. Equal scores are in the order of ``meaning``, then of ``words``.

    The best :data:`_SEATS` by meaning are among the first :data:`_LAST_SEAT`, whatever words say, and so is
    the best one by words, if it is ``outstanding``: if the other ranking is wrong, that is all that a reader
    sees of the right answer. Their score is raised to that of the item before them.
    """
    parts: dict[T, Parts] = {}
    for item in dict.fromkeys((*meaning, *words)):
        by_words = words.get(item, 0.0) ** _WORDS_POWER
        near = meaning.get(item)
        shares = (weight, 1 - weight) if near is not None else (1.0, 0.0)
        parts[item] = (by_words * shares[0], (near or 0.0) ** _MEANING_POWER * shares[1])
    order = sorted(parts, key=lambda item: -sum(parts[item]))
    known = {item: near for item, near in meaning.items() if near}
    nearest = sorted(known, key=lambda item: -known[item])[:_SEATS]
    seated = {*nearest, max(words, key=words.__getitem__)} if outstanding and words else set(nearest)
    if missing := sum(item in seated for item in order[_LAST_SEAT:]):
        # The last of the others give up their places.
        place = [at for at, item in enumerate(order[:_LAST_SEAT]) if item not in seated][-missing]
        late = [item for item in order[place:] if item in seated]
        score = sum(parts[order[place - 1]])
        for item in late:
            said, near = parts[item]
            parts[item] = (said, score - said) if item in nearest else (score - near, near)
        order = [*order[:place], *late, *(item for item in order[place:] if item not in late)]
    return {item: parts[item] for item in order}


def scaled(scores: Mapping[T, float], nothing: float) -> dict[T, float]:
    """Return scores as shares of the best one, above ``nothing``: 0 if a score is not higher than that."""
    most = max(scores.values(), default=nothing) - nothing
    return {
        item: min(max(score - nothing, 0.0) / most, 1.0) if most > 0 else 0.0
        for item, score in scores.items()
    }


def diverse(
    ranked: Sequence[tuple[T, float]], alike: Callable[[T, T], float], limit: int, relevance: float = 0.7
) -> list[T]:
    """Choose items by maximal marginal relevance: first the best, then each relevant and different one.

    ``ranked`` has scores in 0..1. ``alike`` returns the similarity of two items in 0..1, and is called at
    most ``limit`` times for each item. ``relevance`` in 0..1 is the weight of the score; the rest is the
    weight of the similarity to items that are chosen already. With 1 the order is that of the ranking.

    Source: Carbonell, Goldstein, "The Use of MMR, Diversity-Based Reranking for Reordering Documents and
    Producing Summaries", SIGIR 1998.
    """
    left = dict(ranked)
    nearest = dict.fromkeys(left, 0.0)
    chosen: list[T] = []
    while left and len(chosen) < limit:
        best = max(left, key=lambda item: relevance * left[item] - (1 - relevance) * nearest[item])
        del left[best]
        chosen.append(best)
        for item in left:
            nearest[item] = max(nearest[item], alike(best, item))
    return chosen
