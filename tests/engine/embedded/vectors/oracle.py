"""What a search by vectors ought to answer, worked out in a plain way with float64."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from tabane.search.engine import Combination, EngineHits, VectorQuery
from tabane.search.records import EmbeddingSpace, Field, Filter, Kind, Record, Shape, TextField
from tests.engine.embedded.model import Model, meant

SHAPE = Shape(
    "notes",
    (TextField("body"),),
    (Field("author", Kind.STRING), Field("likes", Kind.NUMBER)),
    (EmbeddingSpace("text", 5), EmbeddingSpace("image", 70)),
)


def packed(numbers: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def cosines(one: bytes, others: Sequence[bytes]) -> list[float]:
    """Return the cosine of a vector with each of the others."""
    left = np.frombuffer(one, "<f4").astype(np.float64)
    right = np.frombuffer(b"".join(others), "<f4").astype(np.float64).reshape(len(others), len(left))
    products = (right * left).sum(axis=1)
    found: list[float] = (products / np.linalg.norm(left) / np.linalg.norm(right, axis=1)).tolist()
    return found


def cosine(one: bytes, other: bytes) -> float:
    return cosines(one, [other])[0]


def similarity(query: VectorQuery, found: Mapping[str, float]) -> float | None:
    """Return the combined similarity of a record, whose cosine in each space is given.

    None if it has none of the spaces.
    """
    if query.whole and len(found) < len(query.vectors):
        return None
    if not found or len(query.vectors) == 1:
        return next(iter(found.values()), None)
    weights = {name: query.weights.get(name, 1.0) for name in query.vectors}
    each = {name: found.get(name, 0.0) for name in query.vectors}
    weighted = sum(weights[name] * each[name] for name in each)
    match query.combination:
        case Combination.AVERAGE:
            return weighted / sum(weights.values())
        case Combination.WEIGHTED:
            return weighted
        case Combination.MAXIMUM:
            return max(found.values())
        case Combination.MINIMUM:
            return min(each.values())
        case Combination.PRODUCT:
            return math.prod(each.values())


def similarities(model: Model, query: VectorQuery, where: Filter) -> dict[str, float]:
    """Every record that is meant and can be compared, with its similarity."""
    asked = meant(model, where, SHAPE)
    each: dict[str, dict[str, float]] = {record.key: {} for record in asked}
    for name, vector in query.vectors.items():
        there = {record.key: record.vectors[name] for record in asked if name in record.vectors}
        for key, value in zip(there, cosines(vector, list(there.values())), strict=True):
            each[key][name] = value
    found = {key: similarity(query, of_one) for key, of_one in each.items()}
    reached = -math.inf if query.threshold is None else query.threshold
    return {key: value for key, value in found.items() if value is not None and value >= reached}


def check(hits: EngineHits, expected: Mapping[str, float], limit: int, offset: int = 0) -> None:
    """The hits are the best there are, in order; where two are as good as equal, either may come first."""
    scores = sorted(expected.values(), reverse=True)[offset : offset + limit]
    assert len(hits.hits) == len(scores)
    for hit, score in zip(hits.hits, scores, strict=True):
        assert abs(hit.score - score) < 1e-6
        assert abs(expected[hit.key] - score) < 1e-6
    assert list(hits.hits) == sorted(hits.hits, key=lambda hit: (-hit.score, hit.key))
    assert len({hit.key for hit in hits.hits}) == len(hits.hits)


# Few numbers, so that some vectors are equal, some opposite, and many similarities the same.
NUMBERS = st.sampled_from([-1.0, 0.0, 0.5, 1.0])


def vectors_of(space: EmbeddingSpace) -> st.SearchStrategy[bytes]:
    """Vectors of a space: its first numbers drawn, the others made of them."""

    def widened(numbers: list[float]) -> bytes:
        return packed([numbers[at % 5] * (1 + at // 5) for at in range(space.dimension)])

    return st.lists(NUMBERS, min_size=5, max_size=5).filter(any).map(widened)


VECTORS = st.fixed_dictionaries({}, optional={space.name: vectors_of(space) for space in SHAPE.spaces})

RECORDS = st.builds(
    Record,
    key=st.sampled_from([f"k{number}" for number in range(12)]),
    texts=st.fixed_dictionaries({}, optional={"body": st.sampled_from(["a", "東京"])}),
    fields=st.fixed_dictionaries(
        {}, optional={"author": st.sampled_from(["a", "b"]), "likes": st.integers(0, 3)}
    ),
    vectors=VECTORS,
)

QUERIES = st.builds(
    VectorQuery,
    VECTORS.filter(bool),
    st.sampled_from(Combination),
    st.sampled_from([{}, {}]),
    st.sampled_from([None, None, 0.2517, -0.4973]),
    st.booleans(),
)
