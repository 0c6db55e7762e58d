"""What a search by vectors ought to answer, worked out one record at a time with float64."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from tabane.search.engine import Combination, EngineHits, VectorQuery
from tabane.search.filters import Filter
from tabane.search.records import EmbeddingSpace, Field, Kind, Record, Shape, TextField
from tests.store.model import Model, meant

SHAPE = Shape(
    "notes",
    (TextField("body"),),
    (Field("author", Kind.STRING), Field("likes", Kind.NUMBER)),
    (EmbeddingSpace("text", 5), EmbeddingSpace("image", 70)),
)


def packed(numbers: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def cosine(one: bytes, other: bytes) -> float:
    left, right = (struct.unpack(f"<{len(each) // 4}f", each) for each in (one, other))
    return math.fsum(a * b for a, b in zip(left, right, strict=True)) / math.hypot(*left) / math.hypot(*right)


def similarity(query: VectorQuery, vectors: Mapping[str, bytes]) -> float | None:
    """The combined similarity of a record; None where it has none of the spaces."""
    found = {name: cosine(vector, vectors[name]) for name, vector in query.vectors.items() if name in vectors}
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
    found = {record.key: similarity(query, record.vectors) for record in meant(model, where, SHAPE)}
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
