"""Ranking of tools for a query: BM25 over weighted fields, one best variant per concept; or by their names.

BM25F (Zaragoza et al., 2004) with a term counted once per field, since descriptions of tools are short.
The weights were tuned on halves of two public sets (benchmarks/tools/recall.py) and hardly matter
within a factor of two. What matters is the glossary, and that a concept counts once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from tabane.search.concepts import Concept, Variant
from tabane.text.nearest_names import Similarity, similarity

# field: weight, how much its length counts (b), its usual length in tokens. A fixed usual length, not
# the collection's average, keeps a tool's score from moving when an unrelated server comes or goes.
FIELDS: Mapping[str, tuple[float, float, float]] = {
    "name": (1.75, 0.3, 3.0),
    "title": (1.2, 0.3, 3.0),
    "lead": (1.0, 0.4, 12.0),
    "rest": (0.5, 0.4, 30.0),
    "params": (0.5, 0.5, 6.0),
    "hints": (0.15, 0.5, 60.0),
    "place": (0.5, 0.3, 3.0),
}
_K1 = 1.5
_UNKNOWN_WORD = 1.5  # synonyms count more if no tool has the word itself
_NAME = 0.2  # a name that the query covers completely raises the score by a fifth
_FULL = 2.2  # the score of a word in name, first sentence and parameters, divided by its idf
_FAINT = 0.02
_RELATIVE = 0.08

Postings = Callable[[str], Iterable[tuple[int, str]]]
"""Token → every tool number and field that has it, each pair once."""


def field_weights(lengths: Sequence[int]) -> tuple[float, ...]:
    """Return the weight of a token in each field of one tool, from the fields' lengths in tokens."""
    return tuple(
        weight / (1 - b + b * length / usual)
        for (weight, b, usual), length in zip(FIELDS.values(), lengths, strict=True)
    )


class ToolRanking:
    """Scores the tools of one collection for one query.

    ``weights`` are :func:`field_weights` by tool number, ``name_parts`` how many words each name has.
    """

    def __init__(
        self,
        postings: Postings,
        weights: Mapping[int, Sequence[float]],
        name_parts: Mapping[int, int],
    ) -> None:
        self._postings = postings
        self._weights = weights
        self._name_parts = name_parts
        self._terms: dict[str, tuple[float, dict[int, float], set[int]]] = {}

    def scores(self, concepts: Iterable[Concept]) -> dict[int, float]:
        """Return tool number → score in (0, 1], without tools that hardly match."""
        sums: dict[int, float] = {}
        named: dict[int, float] = {}
        possible = 0.0
        for concept in concepts:
            best, in_name, idf = self._concept(concept)
            possible += concept.weight * idf
            for number, score in best.items():
                sums[number] = sums.get(number, 0.0) + concept.weight * score
            for number, weight in in_name.items():
                named[number] = named.get(number, 0.0) + weight
        for number, hits in named.items():
            sums[number] *= 1 + _NAME * min(1.0, hits / max(1, self._name_parts[number]))
        return _normalised(sums, possible * _FULL)

    def covered(self, concept: Concept, number: int) -> float:
        """Return how well one tool covers a concept, in 0..1: by the weight of its best variant there.

        A general synonym of a word that is not general ("create" of "issue") does not count.
        """
        said = (each for each in concept.variants if concept.general or not each.general)
        return max(
            (each.weight * self._share(each, number) for each in said if number in self._variant(each)[1]),
            default=0.0,
        )

    def _share(self, variant: Variant, number: int) -> float:
        """Return the share of a variant's tokens that a tool has."""
        return sum(number in self._term(token)[1] for token in variant.tokens) / len(variant.tokens)

    def _concept(self, concept: Concept) -> tuple[dict[int, float], dict[int, float], float]:
        """Return each tool's best variant, the best one in its name, and the concept's idf."""
        best: dict[int, float] = {}
        in_name: dict[int, float] = {}
        reference, boost = 0.0, 1.0
        for variant in concept.variants:
            idf, scores, names = self._variant(variant)
            if not scores:
                continue
            if not reference:
                reference, boost = idf, min(_UNKNOWN_WORD, 1 / variant.weight)
            # A rare synonym counts no more than the nearest word that occurs.
            weight = variant.weight * boost * min(1.0, reference / idf)
            _raise(best, {number: score * weight for number, score in scores.items()})
            _raise(in_name, dict.fromkeys(names, weight))
        return best, in_name, reference or self._idf(0)

    def _variant(self, variant: Variant) -> tuple[float, dict[int, float], set[int]]:
        if len(variant.tokens) == 1:
            return self._term(variant.tokens[0])
        terms = [self._term(token) for token in variant.tokens]
        if variant.strict and not all(scores for _, scores, _ in terms):
            return 0.0, {}, set()
        numbers = set(terms[0][1]).union(*(scores for _, scores, _ in terms[1:]))
        names = set(terms[0][2]).intersection(*(named for _, _, named in terms[1:]))
        if variant.strict:
            numbers.intersection_update(*(scores for _, scores, _ in terms))
        share = 1 / len(terms)
        scored = {n: share * sum(scores.get(n, 0.0) for _, scores, _ in terms) for n in numbers}
        return share * sum(rarity for rarity, _, _ in terms), scored, names

    def _term(self, token: str) -> tuple[float, dict[int, float], set[int]]:
        known = self._terms.get(token)
        if known is None:
            known = self._terms[token] = self._score_term(token)
        return known

    def _score_term(self, token: str) -> tuple[float, dict[int, float], set[int]]:
        frequencies: dict[int, float] = {}
        names: set[int] = set()
        for number, field in self._postings(token):
            worth = self._weights[number][_PLACE[field]]
            frequencies[number] = frequencies.get(number, 0.0) + worth
            if field == "name":
                names.add(number)
        if not frequencies:
            return 0.0, {}, names
        idf = self._idf(len(frequencies))
        rise = idf * (_K1 + 1)
        return idf, {number: rise * f / (f + _K1) for number, f in frequencies.items()}, names

    def _idf(self, having: int) -> float:
        return math.log(1 + (len(self._weights) - having + 0.5) / (having + 0.5))


_PLACE = {field: place for place, field in enumerate(FIELDS)}


def _raise(best: dict[int, float], others: dict[int, float]) -> None:
    """Set each number in ``best`` to the higher of both scores."""
    if not best:
        best.update(others)
        return
    for number, score in others.items():
        if score > best.get(number, 0.0):
            best[number] = score


def _normalised(sums: dict[int, float], possible: float) -> dict[int, float]:
    if not sums or not possible:
        return {}
    floor = max(_FAINT * possible, _RELATIVE * max(sums.values()))
    return {number: min(1.0, score / possible) for number, score in sums.items() if score >= floor}


LOOKED_AT = 5
"""Hits that are judged."""

_SHORT = 5  # words of the object; longer queries are not judged
_COVERED = 0.2  # the share of them that one of the hits has to cover
_FAINT_SCORE = 0.08  # a score that means nothing for a hit that covers at most half


def fits_query(ranking: ToolRanking, asked: Sequence[Concept], hits: Sequence[tuple[int, float]]) -> bool:
    """Return whether the best hits, as number and score, fit a query of these concepts."""
    objects = [concept for concept in asked if not concept.general] or asked
    if len(objects) > _SHORT or not hits:
        return True
    covered = max(_covered(ranking, objects, number) for number, _ in hits[:LOOKED_AT])
    return covered > 0.5 or (covered >= _COVERED and hits[0][1] >= _FAINT_SCORE)


def _covered(ranking: ToolRanking, objects: Sequence[Concept], number: int) -> float:
    """Return the share of the object that a tool is about, in 0..1."""
    said = sum(concept.weight * ranking.covered(concept, number) for concept in objects)
    return said / sum(concept.weight for concept in objects)


NameMatch = Literal["partial", "prefix", "exact", "fuzzy"]
_SIMILAR = 0.6


def name_similarity(match: NameMatch) -> Similarity:
    """Return the function that compares a wanted name with a candidate in that way of matching."""
    if match == "fuzzy":
        return similarity(_SIMILAR)
    return {"partial": _partial, "prefix": _prefix, "exact": _exact}[match]


def _partial(wanted: str, candidate: str) -> float:
    return len(wanted) / len(candidate) if wanted in candidate else 0.0


def _prefix(wanted: str, candidate: str) -> float:
    return len(wanted) / len(candidate) if candidate.startswith(wanted) else 0.0


def _exact(wanted: str, candidate: str) -> float:
    return float(wanted == candidate)
