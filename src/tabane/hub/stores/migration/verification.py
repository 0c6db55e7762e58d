"""Comparison of a copied collection with its source: counts, and sampled records and queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from tabane.messages import Message, say
from tabane.search.engine import Collection, EngineHits, LexicalQuery, VectorQuery
from tabane.search.filters import EVERYTHING
from tabane.search.records import Kind, Record, Scalar, Shape

SAMPLES = 24  # records of a collection that are compared, and asked for
_LIMIT = 10  # hits that have to be the same
_WIDER = 5 * _LIMIT  # hits among which they have to be
_OF_VECTORS, _OF_WORDS = 1e-4, 0.02  # by how much a score may differ; of words, as a part of it
_OF_CEILINGS = 1e-5  # by which part the worth of a query's words may differ if their statistics are the same
_LONGEST = 60  # characters of a text that are searched for
_VALUES = 50  # most frequent values of a field whose counts are compared


@dataclass(slots=True)
class Verification:
    """The differences between two collections, and how many queries were compared."""

    queries: int = 0
    differences: list[Message] = field(default_factory=list)

    def compare(self, what: Message, same: bool) -> None:
        self.queries += 1
        if not same:
            self.differences.append(what)


async def verified(
    source: Collection, target: Collection, shape: Shape, samples: Sequence[Record]
) -> Verification:
    """Compare two collections, which nobody changes meanwhile. ``samples``: records with their vectors."""
    found = Verification()
    await _compare_counts(source, target, shape, found)
    for record in samples:
        await _compare_record(target, record, found)
        await _compare_vectors(source, target, record, found)
        await _compare_words(source, target, record, found)
    return found


async def _compare_counts(source: Collection, target: Collection, shape: Shape, found: Verification) -> None:
    before, after = await source.count(EVERYTHING), await target.count(EVERYTHING)
    found.compare(
        say("number of records: {before}, then {after}", before=before, after=after), before == after
    )
    for space in source.shape.spaces:
        before = await source.embedded(space.name, EVERYTHING)
        after = await target.embedded(space.name, EVERYTHING)
        message = say(
            "number of vectors of {name}: {before}, then {after}", before=before, after=after, name=space.name
        )
        found.compare(message, before == after)
    for each in shape.fields:
        if each.kind in (Kind.STRING, Kind.STRINGS, Kind.BOOLEAN):
            counts = [await _counts(one, each.name) for one in (source, target)]
            message = say("counts of the values of {name} differ", name=each.name)
            found.compare(message, counts[0] == counts[1])


async def _counts(collection: Collection, name: str) -> list[tuple[Scalar, int]]:
    return await collection.facet(name, EVERYTHING, _VALUES)


async def _compare_record(target: Collection, record: Record, found: Verification) -> None:
    copied = (await target.get([record.key]))[0]
    vectors = {name: (await target.vectors([record.key], name))[0] for name in record.vectors}
    same = copied == msgspec.structs.replace(record, vectors={}) and vectors == record.vectors
    found.compare(say("another record: {key}", key=record.key), same)


async def _compare_vectors(
    source: Collection, target: Collection, record: Record, found: Verification
) -> None:
    for name, vector in record.vectors.items():
        query = VectorQuery({name: vector})
        hits = [(await one.nearest(query, EVERYTHING, _LIMIT)).hits for one in (source, target)]
        best = [{hit.key for hit in several} for several in hits]
        keys = sorted(best[0] | best[1])
        scores = [await one.similarities(query, keys) for one in (source, target)]
        message = say("records that are similar to {key} differ", key=record.key)
        # An index may miss one of the best. A vector that is another one has another similarity.
        most = 2 * len(best[0] & best[1]) >= max(len(best[0]), len(best[1]))
        found.compare(message, most and all(map(_close, *scores)))


def _close(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and abs(one - other) <= _OF_VECTORS


async def _compare_words(source: Collection, target: Collection, record: Record, found: Verification) -> None:
    for text in record.texts.values():
        query = LexicalQuery(text[:_LONGEST])
        hits = [await one.search(query, EVERYTHING, _WIDER) for one in (source, target)]
        message = say("hits for the words of {key} differ", key=record.key)
        found.compare(message, alike(hits[0], hits[1]))


def alike(one: EngineHits, other: EngineHits) -> bool:
    """Return whether the best hits of each are among those of the other, with about the same score.

    Deleted records stay in the statistics of an index until it is tidied, and a copy never had them. Then
    words are worth something else there, and only the hits are compared.
    """
    counted_alike = math.isclose(one.ceiling, other.ceiling, rel_tol=_OF_CEILINGS)
    among = _among if counted_alike else _mostly_among
    return among(one, other) and among(other, one)


def _among(one: EngineHits, other: EngineHits) -> bool:
    scores = {hit.key: hit.score for hit in other.hits}
    # If there are more hits than were asked for, those below the last one are unknown.
    unknown = other.hits[-1].score if len(other.hits) == _WIDER else 0.0
    return all(
        abs(scores.get(hit.key, unknown) - hit.score) <= _OF_WORDS * hit.score for hit in one.hits[:_LIMIT]
    )


def _mostly_among(one: EngineHits, other: EngineHits) -> bool:
    """Return whether all hits are there; the first and half of the best if more match than were asked for."""
    best, there = [hit.key for hit in one.hits[:_LIMIT]], {hit.key for hit in other.hits}
    missing = [key for key in best if key not in there]
    return not missing or (len(there) == _WIDER and best[0] in there and 2 * len(missing) <= len(best))
