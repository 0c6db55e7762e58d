"""What Milvus proposes under a filter is never less than what matches, and nothing else if it can say all."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tabane.engine.candidate_index import IndexedVector
from tabane.engine.team.milvus_index import MilvusIndex, parse_milvus_url
from tabane.search.records import (
    And,
    Contains,
    Equal,
    Field,
    Filter,
    In,
    Kind,
    Not,
    Or,
    Prefix,
    Range,
    Record,
    Shape,
    TextField,
    Value,
    checked_filter,
    matches,
)
from tests.harness.milvus_server import MilvusServer

SHAPE = Shape(
    "notes",
    (TextField("body"),),
    (
        Field("author", Kind.STRING),
        Field("likes", Kind.NUMBER),
        Field("at", Kind.DATE),
        Field("open", Kind.BOOLEAN),
        Field("tags", Kind.STRINGS),
    ),
)
_WORDS = ("a", "ab", "東京", "", "x y", 'q"x', "b%", "b_", "=a", "back\\slash", "a" * 2000)
_NUMBERS = (-1, 0, 1, 2.5, 10**6, -1e300, 2**53)


class Chance:
    """Random records and filters."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def fields(self) -> dict[str, Value]:
        pick = self._random
        given: dict[str, Value] = {
            "author": pick.choice(_WORDS),
            "likes": pick.choice(_NUMBERS),
            "at": pick.choice((0, 1.5, 1e12)),
            "open": pick.random() < 0.5,
            "tags": tuple(pick.sample(_WORDS, pick.randrange(3))),
        }
        return {name: value for name, value in given.items() if pick.random() < 0.8}

    def filters(self, count: int) -> Iterator[Filter]:
        for _ in range(count):
            yield self._filter(0)

    def _filter(self, depth: int) -> Filter:
        parts: list[Callable[[], Filter]] = [lambda: self._filter(depth + 1)] * 2
        match self._random.randrange(4) if depth < 3 else 0:
            case 1:
                return Not(parts[0]())
            case 2:
                return And(tuple(each() for each in parts))
            case 3:
                return Or(tuple(each() for each in parts))
            case _:
                return self._condition()

    def _condition(self) -> Filter:
        pick = self._random
        low, high = pick.choice((None, 0, -1)), pick.choice((None, 1, 2.5))
        return pick.choice(
            (
                Equal("author", pick.choice(_WORDS)),
                In("author", tuple(pick.sample(_WORDS, 2))),
                Prefix("author", pick.choice(("a", "", "b", "東", "b%"))),
                Range("author", "a", "b"),
                Range("likes", low, high, pick.random() < 0.5, pick.random() < 0.5),
                Equal("likes", pick.choice(_NUMBERS)),
                In("likes", tuple(pick.sample(_NUMBERS, 2))),
                Equal("open", pick.random() < 0.5),
                Equal("tags", pick.choice(_WORDS)),
                In("tags", tuple(pick.sample(_WORDS, 2))),
                Range(pick.choice(("author", "likes", "at"))),
                Contains("a"),
            )
        )


@pytest.fixture(scope="module")
def index(milvus: MilvusServer) -> Iterator[MilvusIndex]:
    found = MilvusIndex(parse_milvus_url(milvus.url("timeout=60")))
    found.reset("filters", 8, SHAPE)
    yield found
    found.drop("filters")
    found.close()


@pytest.mark.heavy("a real Milvus")
def test_nothing_that_matches_is_missing(index: MilvusIndex) -> None:
    chance, vectors = Chance(3), np.random.default_rng(1).standard_normal((251, 8)).astype("<f4")
    records = {row: Record(key=str(row), fields=chance.fields()) for row in range(1, 251)}
    index.put(
        "filters",
        [IndexedVector(row, vectors[row].tobytes(), each.fields) for row, each in records.items()],
        SHAPE,
    )
    note, said = index.advance("filters", "mark", complete=True), 0
    for asked in chance.filters(150):
        where = checked_filter(asked, SHAPE)
        wanted = {row for row, each in records.items() if matches(where, each)}
        found = set(index.nearest("filters", vectors[0].tobytes(), where, SHAPE, 400, note))
        assert wanted <= found, where
        if index.narrows(where, SHAPE):
            assert found == wanted, where
            said += 1
    assert said > 30
