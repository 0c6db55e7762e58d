"""Ranking of tools for a query: BM25 over weighted fields, one best variant per concept; or by their names.

BM25F (Zaragoza et al., 2004) with a term counted once per field, since descriptions of tools are short.
The weights were tuned on halves of two public sets (benchmarks/tools/recall.py) and hardly matter
within a factor of two. What matters is the glossary, and that a concept counts once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from tabane.catalog.tools.postings import TermPostings
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
    "notes": (1.0, 0.3, 12.0),
}
_K1 = 1.5
_UNKNOWN_WORD = 1.5  # synonyms count more if no tool has the word itself
_NAME = 0.2  # a name that the query covers completely raises the score by a fifth
_FULL = 2.2  # the score of a word in name, first sentence and parameters, divided by its idf
_FAINT = 0.02
_RELATIVE = 0.08

PostingsOf = Callable[[str], TermPostings]
"""Token → the tools that have it."""


def field_weights(lengths: Sequence[int]) -> tuple[float, ...]:
    """Return the weight of a token in each field of one tool, from the fields' lengths in tokens."""
    return tuple(
        weight / (1 - b + b * length / usual)
        for (weight, b, usual), length in zip(FIELDS.values(), lengths, strict=True)
    )


def tool_postings(words: Mapping[str, Sequence[str]]) -> dict[str, tuple[float, int]]:
    """Return token → score and fields for one tool, from the tokens of each field.

    The score is what the token adds to the tool's score, divided by the rarity (idf) of the token.
    """
    weights = field_weights([len(words[name]) for name in FIELDS])
    found: dict[str, tuple[float, int]] = {}
    for place, name in enumerate(FIELDS):
        for token in dict.fromkeys(words[name]):
            frequency, mask = found.get(token, (0.0, 0))
            found[token] = frequency + weights[place], mask | 1 << place
    return {token: ((_K1 + 1) * f / (f + _K1), mask) for token, (f, mask) in found.items()}


class ScorePart(Struct, frozen=True):
    """A part of a tool's score: its best variant of a concept; without one, the match of its name."""

    score: float
    concept: Concept | None = None
    variant: Variant | None = None


class _VariantScores(NamedTuple):
    """A variant, its idf and weight, its score by tool number, and the tools that have it in their names."""

    variant: Variant
    idf: float
    weight: float
    scores: dict[int, float]
    names: set[int]


class ToolRanking:
    """Scores the tools of one collection for one query.

    ``name_parts`` is how many words the name of each tool has, by number, for all tools of the collection.
    """

    def __init__(self, postings: PostingsOf, name_parts: Mapping[int, int]) -> None:
        self._postings = postings
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

    def parts(self, concepts: Sequence[Concept], number: int) -> list[ScorePart]:
        """Return what the score of one tool consists of: a part for each concept that it has, then its name.

        The sum is the score of :meth:`scores`, if that is not cut at 1.
        """
        possible = _FULL * sum(concept.weight * self._concept(concept)[2] for concept in concepts)
        found: list[ScorePart] = []
        named = 0.0
        for concept in concepts:
            having = [each for each in self._matching(concept) if number in each.scores]
            if having:
                best = max(having, key=lambda each: each.scores[number] * each.weight)
                score = concept.weight * best.scores[number] * best.weight / possible
                found.append(ScorePart(score, concept, best.variant))
                named += max((each.weight for each in having if number in each.names), default=0.0)
        if named:
            raised = _NAME * min(1.0, named / max(1, self._name_parts[number]))
            found.append(ScorePart(raised * sum(part.score for part in found)))
        return found

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
        rarity = 0.0
        for found in self._matching(concept):
            rarity = rarity or found.idf
            _raise(best, {number: score * found.weight for number, score in found.scores.items()})
            _raise(in_name, dict.fromkeys(found.names, found.weight))
        return best, in_name, rarity or self._idf(0)

    def _matching(self, concept: Concept) -> Iterator[_VariantScores]:
        """Yield the variants that any tool has, with their weights. The first is the reference."""
        reference, boost = 0.0, 1.0
        for variant in concept.variants:
            idf, scores, names = self._variant(variant)
            if not scores:
                continue
            if not reference:
                reference, boost = idf, min(_UNKNOWN_WORD, 1 / variant.weight)
            # A rare synonym counts no more than the nearest word that occurs.
            weight = variant.weight * boost * min(1.0, reference / idf)
            yield _VariantScores(variant, idf, weight, scores, names)

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
        found = self._postings(token)
        if not found.scores:
            return 0.0, {}, found.names
        idf = self._idf(len(found.scores))
        return idf, {number: idf * score for number, score in found.scores.items()}, found.names

    def _idf(self, having: int) -> float:
        return math.log(1 + (len(self._name_parts) - having + 0.5) / (having + 0.5))


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


def is_short(asked: Sequence[Concept]) -> bool:
    """Return whether a query has so few words that each of them matters."""
    return len(_objects(asked)) <= _SHORT


def _objects(asked: Sequence[Concept]) -> Sequence[Concept]:
    return [concept for concept in asked if not concept.general] or asked


def fits_query(ranking: ToolRanking, asked: Sequence[Concept], hits: Sequence[tuple[int, float]]) -> bool:
    """Return whether the best hits, as number and score, fit a query of these concepts."""
    objects = _objects(asked)
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
