"""Ranking of tools for a query: BM25 over weighted fields, one best variant per concept; or by their names.

BM25F (Zaragoza et al., 2004) with a term counted once per field, since descriptions of tools are short.
The weights were tuned on halves of two public sets (benchmarks/tools/recall.py) and hardly matter
within a factor of two. What matters is the glossary, and that a concept counts once. Scores from words and
from meaning are fused, and each hit says why it matches. Postings are a packed row for each token and server.
"""

from __future__ import annotations

import heapq
import math
import sqlite3
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct, structs

from tabane.search.analysis import is_cjk, placed_runs, stem, tokens
from tabane.search.concepts import Concept, Variant
from tabane.search.source import SearchRequest
from tabane.text.nearest_names import Similarity, similarity

if TYPE_CHECKING:
    from tabane.catalog.tools.vector_table import ToolComparison

_IN_FIRST = bytes(mask & 1 for mask in range(256))
_ENTRY = 9  # bytes: number and score, four each, and the fields as bits

POSTINGS_TABLE = (
    "CREATE TABLE postings (token TEXT NOT NULL, server TEXT NOT NULL, entries BLOB NOT NULL,"
    " PRIMARY KEY (token, server)) WITHOUT ROWID"
)
POSTINGS_INDEX = "CREATE INDEX postings_of ON postings (server)"


class TermPostings:
    """The tools that have a token: ``scores`` by number, and those that have it in the first field."""

    __slots__ = ("_masks", "names", "scores")

    def __init__(self, numbers: Sequence[int], scores: Sequence[float], masks: bytes) -> None:
        self.scores = dict(zip(numbers, scores, strict=True))
        self.names = set(compress(numbers, masks.translate(_IN_FIRST)))
        self._masks = masks

    def fields(self, numbers: Collection[int]) -> dict[int, list[int]]:
        """Return the places of the fields that have the token, for those of these tools that have it."""
        return {
            number: [place for place in range(8) if mask >> place & 1]
            for number, mask in zip(self.scores, self._masks, strict=True)
            if number in numbers
        }


NO_POSTINGS = TermPostings((), (), b"")

ToolPostings = Mapping[str, tuple[float, int]]
"""Token → its score in one tool, and its fields as bits."""


def write_postings(db: sqlite3.Connection, server: str, tools: Iterable[tuple[int, ToolPostings]]) -> None:
    """Store the postings of a server that has none yet, with the number of each tool."""
    found: dict[str, tuple[array[int], array[float], bytearray]] = {}
    for number, postings in tools:
        for token, (score, mask) in postings.items():
            entry = found.get(token)
            if entry is None:
                entry = found[token] = (array("I"), array("f"), bytearray())
            entry[0].append(number)
            entry[1].append(score)
            entry[2].append(mask)
    db.executemany(
        "INSERT INTO postings VALUES (?, ?, ?)",
        (
            (token, server, entry[0].tobytes() + entry[1].tobytes() + entry[2])
            for token, entry in sorted(found.items())
        ),
    )


def read_postings(db: sqlite3.Connection, token: str) -> TermPostings:
    """Return the tools of all servers that have a token."""
    rows = db.execute("SELECT entries FROM postings WHERE token = ?", (token,)).fetchall()
    if not rows:
        return NO_POSTINGS
    numbers, scores, masks = array("I"), array("f"), bytearray()
    for (entries,) in rows:
        size = 4 * (len(entries) // _ENTRY)
        numbers.frombytes(entries[:size])
        scores.frombytes(entries[size : 2 * size])
        masks += entries[2 * size :]
    return TermPostings(numbers, scores, bytes(masks))


def delete_tool_postings(db: sqlite3.Connection, server: str, number: int) -> None:
    """Take one tool out of the postings of its server."""
    rows = db.execute("SELECT token, entries FROM postings WHERE server = ?", (server,)).fetchall()
    for token, entries in rows:
        count = len(entries) // _ENTRY
        numbers = array("I", entries[: 4 * count])
        if number not in numbers:
            continue
        at = numbers.index(number)
        kept = entries[: 4 * at] + entries[4 * at + 4 : 4 * count + 4 * at]
        kept += entries[4 * count + 4 * at + 4 : 8 * count + at] + entries[8 * count + at + 1 :]
        db.execute("UPDATE postings SET entries = ? WHERE token = ? AND server = ?", (kept, token, server))


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
_NAME = 0.4  # by this share, a name that the query covers completely raises the score
_FULL = 2.2  # the score of a word in name, first sentence and parameters, divided by its idf
_FAINT = 0.02
_RELATIVE = 0.08
_NEARLY = 0.7

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


_TermScores = tuple[float, dict[int, float], set[int]]
"""The idf of a term, its score by tool number, and the tools that have it in their names."""

_ConceptScores = tuple[dict[int, float], dict[int, float], float]
"""The best variant of a concept in each tool and in each name, and the concept's idf."""


class ToolRanking:
    """Scores the tools of one collection for one query.

    ``name_parts`` is how many words the name of each tool has, by number, for all tools of the collection.
    """

    def __init__(self, postings: PostingsOf, name_parts: Mapping[int, int]) -> None:
        self._postings = postings
        self._name_parts = name_parts
        self._terms: dict[str, _TermScores] = {}
        self._variants: dict[Variant, _TermScores] = {}
        self._concepts: dict[tuple[Variant, ...], _ConceptScores] = {}

    def for_next_query(self) -> ToolRanking:
        """Return a ranking of the same tools that need not read again what this one has read."""
        other = ToolRanking(self._postings, self._name_parts)
        other._terms = self._terms.copy()
        other._variants = self._variants.copy()
        other._concepts = self._concepts.copy()
        return other

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
            sums[number] *= 1 + self._named(number, hits)
        return _normalized(sums, possible * _FULL)

    def parts(self, concepts: Sequence[Concept], number: int) -> list[ScorePart]:
        """Return what the score of one tool consists of: a part for each concept that it has, then its name.

        The sum is the score of :meth:`scores` before that is bounded.
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
            raised = self._named(number, named)
            found.append(ScorePart(raised * sum(part.score for part in found)))
        return found

    def _named(self, number: int, hits: float) -> float:
        """Return by how much its name raises the score of a tool; words that nobody asked for lower it."""
        return _NAME * min(1.0, hits / max(1, self._name_parts[number])) ** 2

    def covered(self, concept: Concept, number: int) -> float:
        """Return how well one tool covers a concept, in 0..1: by the weight of its best variant there.

        A general synonym of a word that is not general ("create" of "issue") does not count.
        """
        said = (each for each in concept.variants if concept.general or not each.general)
        return max((each.weight * self._share(each, number) for each in said), default=0.0)

    def about(self, objects: Sequence[Concept], number: int) -> float:
        """Return the share of the object of a query that one tool is about, in 0..1."""
        said = sum(concept.weight * self.covered(concept, number) for concept in objects)
        return said / sum(concept.weight for concept in objects) if objects else 0.0

    def best_about(self, objects: Sequence[Concept], words: Mapping[int, float]) -> float:
        """Return the most of the object of a query that one of the best tools by words is about, in 0..1."""
        leading = heapq.nlargest(LOOKED_AT, words, key=words.__getitem__)
        return max((self.about(objects, number) for number in leading), default=0.0)

    def _share(self, variant: Variant, number: int) -> float:
        """Return the share of a variant's tokens that a tool has; of a strict one, all or nothing."""
        having = sum(number in self._term(token)[1] for token in variant.tokens)
        return 0.0 if variant.strict and having < len(variant.tokens) else having / len(variant.tokens)

    def _concept(self, concept: Concept) -> _ConceptScores:
        """Return each tool's best variant, the best one in its name, and the concept's idf."""
        known = self._concepts.get(concept.variants)
        if known is None:
            known = self._concepts[concept.variants] = self._read_concept(concept)
        return known

    def _read_concept(self, concept: Concept) -> _ConceptScores:
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

    def _variant(self, variant: Variant) -> _TermScores:
        if len(variant.tokens) == 1:
            return self._term(variant.tokens[0])
        known = self._variants.get(variant)
        if known is None:
            known = self._variants[variant] = self._read_variant(variant)
        return known

    def _read_variant(self, variant: Variant) -> _TermScores:
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

    def _term(self, token: str) -> _TermScores:
        known = self._terms.get(token)
        if known is None:
            found = self._postings(token)
            idf = self._idf(len(found.scores)) if found.scores else 0.0
            scores = {number: idf * score for number, score in found.scores.items()}
            known = self._terms[token] = idf, scores, found.names
        return known

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


def _normalized(sums: dict[int, float], possible: float) -> dict[int, float]:
    if not sums or not possible:
        return {}
    floor = max(_FAINT * possible, _RELATIVE * max(sums.values()))
    return {number: _bounded(score / possible) for number, score in sums.items() if score >= floor}


def _bounded(score: float) -> float:
    """Return a score below 1 in the same order: scores above :data:`_NEARLY` are pressed together."""
    rest = 1 - _NEARLY
    return score if score < _NEARLY else 1 - rest * math.exp(-(score - _NEARLY) / rest)


LOOKED_AT = 5
"""Hits that are judged."""


def objects_of(asked: Sequence[Concept]) -> Sequence[Concept]:
    """Return the concepts of a query that say what it is about; all if they are all general."""
    return [concept for concept in asked if not concept.general] or asked


class FitEvidence(NamedTuple):
    """Evidence of whether the hits fit a query. What is not known is 0.

    ``relevance`` is that of the best tool, ``covered`` the share of the query's object that the first hit is
    about, ``words`` the best score by words, ``answered`` how surely the query is a question about the world
    that one of the first hits answers, all about 0..1. ``objects`` are words of the query, ``tools`` those
    that were searched: among many, one is near to anything.
    """

    relevance: float
    covered: float
    words: float
    answered: float
    objects: int
    tools: int


# Weights of a logistic regression for the fields of FitEvidence, the counts by their logarithm, and bias.
# Fitted on 420 requests of ours to 37 real and made servers in nine choices of them, a quarter of which no
# tool fits, and on parts of two public sets. The bias leaves about one in 30 requests doubted that a tool
# fits.
_FIT_BY_MEANING = (2.26, 2.26, 3.32, 5.07, 1.05, -0.55, -2.28)
_FIT_BY_WORDS = (0.0, 3.07, 5.86, 3.88, 1.42, -0.47, -1.4)


def doubts(evidence: FitEvidence, *, compared: bool) -> bool:
    """Return whether perhaps no tool fits. ``compared``: models have compared the tools."""
    *weights, bias = _FIT_BY_MEANING if compared else _FIT_BY_WORDS
    relevance = min(_MOST_RELEVANCE, evidence.relevance)
    words = min(_MOST_WORDS, evidence.words)
    counts = (math.log(max(1, evidence.objects)), math.log(max(_FEWEST_TOOLS, evidence.tools)))
    values = (relevance, evidence.covered, words, evidence.answered, *counts)
    return sum(weight * value for weight, value in zip(weights, values, strict=True)) + bias < 0


_MOST_RELEVANCE, _MOST_WORDS = 2.0, 0.8  # more says nothing more
_FEWEST_TOOLS = 30  # fewer say no more


def world_weight(form: float, asked: Sequence[Concept], about: float, relevance: Iterable[float]) -> float:
    """Return how much tools that search the web count for a query, 0 for not at all.

    ``form`` is how likely it is a question about the world. It counts less, the better other tools fit:
    ``about`` is the share of its object that one is about, ``relevance`` how near they are by meaning.
    """
    best = max(relevance, default=None)
    if best is None:
        share, form = _WORLD_BY_WORDS, form * (1 - about)
    else:
        near = min(1.0, max(0.0, best - _NEAR))
        share, form = _WORLD, form * max(_LEAST_WORLD, (1 - about) * (1 - near))
    return form * max(1.0, share * min(len(asked), _MOST_WORLD)) if form > _FAINT_WORLD else 0.0


_NEAR = 0.8  # the relevance from which on a tool may be what is meant
_WORLD = 0.85  # of the weight of a word, for each word of the query
_WORLD_BY_WORDS = 0.25  # the same if no model says how near other tools are
_MOST_WORLD = 8  # words
_LEAST_WORLD, _FAINT_WORLD = 0.4, 0.1

_UNASKED_VERBS = (
    "delete remove drop archive unarchive update rotate duplicate transfer clear cancel kill logout"
)
UNASKED = tuple(map(stem, _UNASKED_VERBS.split()))
"""Words in names of tools that somebody who wants them says."""

_UNASKED = 0.93  # of its score, for a tool that does what the query does not say
_OWN = 0.8  # of its score, for a tool of the hub: a server that fits as well was added for such requests


def factors(
    asked: Iterable[Concept], own: Collection[int], doing: Mapping[str, Collection[int]]
) -> dict[int, float]:
    """Return what the scores of some tools are multiplied by. ``doing`` are tools by :data:`UNASKED`."""
    said = {token for concept in asked for variant in concept.variants for token in variant.tokens}
    found = dict.fromkeys(own, _OWN)
    for numbers in (numbers for verb, numbers in doing.items() if verb not in said):
        for number in numbers:
            found[number] = found.get(number, 1.0) * _UNASKED
    return found


NameMatch = Literal["partial", "prefix", "exact", "fuzzy"]
_SIMILAR = 0.6


def name_similarity(match: NameMatch) -> Similarity:
    """Return the function that compares a wanted name with a candidate in that way of matching."""
    if match == "fuzzy":
        return similarity(_SIMILAR)
    return {
        "partial": _partial,
        "prefix": _prefix,
        "exact": lambda wanted, candidate: float(wanted == candidate),
    }[match]


def _partial(wanted: str, candidate: str) -> float:
    return len(wanted) / len(candidate) if wanted in candidate else 0.0


def _prefix(wanted: str, candidate: str) -> float:
    return len(wanted) / len(candidate) if candidate.startswith(wanted) else 0.0


_FIELDS = tuple(FIELDS)


class MatchedTerm(Struct, frozen=True):
    """Why a tool matches a part of the query. ``asked`` and ``matched`` are tokens of query and tool.

    ``kind`` is ``word`` if the tool has the word of the query, ``glossary`` if it has a synonym or a
    translation. ``name`` is the match of the whole name, and ``meaning`` that of query and definition as
    compared by models; both have no tokens. ``fields`` are the parts of the definition where it occurs.
    """

    kind: Literal["word", "glossary", "name", "meaning"]
    score: float
    asked: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


def matched_terms(
    ranking: ToolRanking,
    postings: PostingsOf,
    asked: Sequence[Concept],
    numbers: Collection[int],
    called: Collection[int],
) -> dict[int, tuple[MatchedTerm, ...]]:
    """Return why each of these tools matches. The query is the exact name of those in ``called``."""
    parts = {
        number: ([ScorePart(1.0)] if number in called else ranking.parts(asked, number)) for number in numbers
    }
    variants = [part.variant for found in parts.values() for part in found if part.variant]
    having: dict[str, dict[int, set[str]]] = {}
    for token in {token for variant in variants for token in variant.tokens}:
        places = postings(token).fields(parts)
        having[token] = {number: {_FIELDS[place] for place in found} for number, found in places.items()}
    return {number: tuple(_term(part, number, having) for part in found) for number, found in parts.items()}


def _term(part: ScorePart, number: int, having: dict[str, dict[int, set[str]]]) -> MatchedTerm:
    if part.concept is None or part.variant is None:
        return MatchedTerm("name", part.score, fields=("name",))
    first = part.concept.variants[0]
    fields = {field for token in part.variant.tokens for field in having[token].get(number, ())}
    return MatchedTerm(
        "word" if part.variant == first else "glossary",
        part.score,
        first.tokens,
        part.variant.tokens,
        tuple(field for field in FIELDS if field in fields),
    )


_LONGEST = 4000
"""Characters of a text that are looked through for a word."""


def spelled(wanted: tuple[str, ...], text: str) -> str:
    """Return the words of a text that have these tokens, as the text spells them; else the tokens, joined.

    Tokens have no English inflection: of "issues" the token is "issu", and this returns "issues".
    """
    if all(is_cjk(token) for token in wanted):
        return _overlapped(wanted)
    words = {token: run for _, run in placed_runs(text[:_LONGEST]) for token in reversed(tokens(run))}
    return " ".join(dict.fromkeys(words.get(token, token) for token in wanted))


def _overlapped(bigrams: tuple[str, ...]) -> str:
    """Return the text of overlapping bigrams: メー, ール → メール."""
    text = bigrams[0] if bigrams else ""
    for bigram in bigrams[1:]:
        text += bigram[-1:] if text.endswith(bigram[:1]) else bigram
    return text


_MEANING = 0.24  # of a relevance of 1
_WORDS = 1.3  # beside one model
_WORDS_BESIDE_SEVERAL = 1.0
_BEST_WORDS = 0.1  # for the best tool by words, and in proportion for the others
_LIKELY = 1.0  # the relevance of a tool without a vector
_FAINT_RELEVANCE = 0.5  # below this relevance, a tool without any word is no hit

MOST_BY_WORDS = 200
"""The best tools by words that are compared by meaning too."""


class ToolScore(Struct, frozen=True):
    """Score in 0..1 of one tool, its parts, cosine and relevance. Without vectors, only words count.

    ``covered`` is the score of the words alone, in 0..1.
    """

    score: float
    words: float
    meaning: float = 0.0
    cosine: float | None = None
    relevance: float | None = None
    covered: float = 0.0


def best_by_words(words: Mapping[int, float]) -> Sequence[int]:
    """Return the tools with the best scores by words, at most :data:`MOST_BY_WORDS`."""
    if len(words) <= MOST_BY_WORDS:
        return list(words)
    return heapq.nlargest(MOST_BY_WORDS, words, key=words.__getitem__)


def fused(
    words: Mapping[int, float], compared: ToolComparison, factors: Mapping[int, float]
) -> dict[int, ToolScore]:
    """Return the scores of the best tools by words and of those that a query was compared with.

    ``factors`` are what the scores of some tools are multiplied by.
    """
    if not compared.models:
        return {
            number: ToolScore(score * factors.get(number, 1.0), score, covered=score)
            for number, score in words.items()
        }
    weight = _WORDS if compared.models == 1 else _WORDS_BESIDE_SEVERAL
    best = max(words.values(), default=0.0) or 1.0
    found: dict[int, ToolScore] = {}
    for number in {*best_by_words(words), *compared.relevance}:
        said = words.get(number, 0.0)
        relevance = compared.relevance.get(number)
        if not said and (relevance is None or relevance < _FAINT_RELEVANCE):
            continue
        near = relevance if relevance is not None else _LIKELY * (number in compared.missing)
        by_words, by_meaning = said * (weight + _BEST_WORDS / best), _MEANING * near
        score = -math.expm1(-max(0.0, by_words + by_meaning)) * factors.get(number, 1.0)
        found[number] = ToolScore(score, by_words, by_meaning, compared.cosines.get(number), relevance, said)
    return found


def explained(score: ToolScore, terms: Iterable[MatchedTerm]) -> tuple[MatchedTerm, ...]:
    """Return why a tool was found: its words and its meaning, with their shares of the score."""
    given = tuple(terms)
    said = sum(term.score for term in given)
    whole = score.words + max(0.0, score.meaning)
    share = score.score * score.words / whole / said if said and whole else 0.0
    near = score.score * score.meaning / whole if whole and score.meaning > 0 else 0.0
    parts = [structs.replace(term, score=term.score * share) for term in given]
    if near:
        parts.append(MatchedTerm("meaning", near))
    return tuple(sorted(parts, key=lambda term: -term.score))


Match = Literal["relevance", "partial", "prefix", "exact", "fuzzy"]


@dataclass(frozen=True, slots=True)
class ToolQuery(SearchRequest):
    """A search for tools. ``tags`` are met by any of them; ``match`` other than relevance is by name.

    ``names`` are those of the tools that may be found; None: all. ``folded``: of tools that are the same on
    several servers, only the best is a hit, and it names the others.

    One matching tag is enough. Each ``match`` other than relevance compares names. A relevance query without
    any word lists the tools that match the filters, by alias.
    """

    limit: int = 5
    server: str | None = None
    tags: tuple[str, ...] = ()
    category: str | None = None
    match: Match = "relevance"
    names: frozenset[str] | None = None
    explain: bool = False
    folded: bool = False


class ToolHit(Struct, frozen=True):
    """A tool that was found. ``score`` is in 0..1 and good for order; see ``cosine`` for relevance.

    Without vectors, it is how much of a relevance query the words of the tool cover, and ``words`` is always
    that. ``cosine`` is the mean over the models that compared query and tool; None if none did. ``relevance``
    is the same on a scale that does not depend on the model: 0 is usual between texts that have nothing to do
    with each other, above 1 is rare. ``same`` are the names of tools of other servers that are folded into
    this one. ``terms`` are why, if the query asks for an explanation.
    """

    alias: str
    score: float
    terms: tuple[MatchedTerm, ...] = ()
    cosine: float | None = None
    relevance: float | None = None
    words: float = 0.0
    same: tuple[str, ...] = ()


class ToolHits(Struct, frozen=True):
    """The best hits in order, ties by alias, and the total number of tools that matched.

    ``doubtful``: perhaps no tool fits the query, and the hits are only the nearest. ``compared``: by meaning
    too, ``incomplete``: without the tools that have no vector yet. ``starting``: vectors of the query or of
    tools are still being made; ``late``: that of the query, by a model that has answered before.
    """

    hits: tuple[ToolHit, ...]
    total: int
    doubtful: bool = False
    compared: bool = False
    incomplete: bool = False
    starting: bool = False
    late: bool = False
