"""The embedded engine keeps the contract of vectors, whatever is written, moved and opened again."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tabane.search.engine import VectorQuery
from tabane.search.records import EVERYTHING, Record
from tests.engine.embedded.model import Model, meant, put
from tests.engine.embedded.opening import CollectionMachine, embedded
from tests.engine.embedded.vectors.contract import WHERES, VectorsContract
from tests.engine.embedded.vectors.oracle import QUERIES, RECORDS, SHAPE, VECTORS, check, similarities

pytestmark = pytest.mark.heavy("thousands of records")


class TestEmbedded(VectorsContract):
    engine = staticmethod(embedded)


class VectorMachine(CollectionMachine):
    """A collection with vectors in a folder of its own, beside the dict that it should agree with."""

    shape = SHAPE

    def __init__(self) -> None:
        super().__init__()
        self._model: Model = {}

    @rule(records=st.lists(RECORDS, max_size=8))
    def upsert(self, records: list[Record]) -> None:
        results = self._runner.run(self._collection.upsert(records))
        assert results == put(self._model, records, SHAPE)

    @rule(keys=st.lists(st.sampled_from([f"k{number}" for number in range(12)]), max_size=5, unique=True))
    def delete(self, keys: list[str]) -> None:
        expected = sum(self._model.pop(key, None) is not None for key in keys)
        assert self._runner.run(self._collection.delete(keys)) == expected

    @rule(vectors=VECTORS, number=st.integers(0, 20))
    def attach(self, vectors: dict[str, bytes], number: int) -> None:
        page = self._runner.run(self._collection.select(EVERYTHING))
        rows = {each.row: each.record.key for each in page.records[number % 12 :][:2]}
        assert self._runner.run(self._collection.attach(dict.fromkeys(rows, vectors))) == len(rows)
        for key in rows.values():
            self._model[key].vectors.update(vectors)

    @rule()
    def flush(self) -> None:
        assert self._collection.engine.table.vectors is not None
        self._collection.engine.table.vectors.settle()

    @rule(query=QUERIES, limit=st.integers(1, 9))
    def search(self, query: VectorQuery, limit: int) -> None:
        for where in WHERES:
            hits = self._runner.run(self._collection.nearest(query, where, limit))
            check(hits, similarities(self._model, query, where), limit)

    @invariant()
    def agree(self) -> None:
        for space in SHAPE.spaces:
            keys = sorted(self._model)
            vectors = self._runner.run(self._collection.vectors(keys, space.name))
            assert vectors == [self._model[key].vectors.get(space.name) for key in keys]
            lacking = self._runner.run(self._collection.lacking(space.name))
            assert sorted(each.record.key for each in lacking) == [
                key for key in keys if space.name not in self._model[key].vectors
            ]
            self._agree_on_waiting(space.name)
        assert self._runner.run(self._collection.engine.agrees())

    def _agree_on_waiting(self, space: str) -> None:
        """Those without a vector are counted and come by their likes, the most first and none last."""
        for where in WHERES:
            matching = list(meant(self._model, where, SHAPE))
            without = {record.key for record in matching if space not in record.vectors}
            found = self._runner.run(self._collection.embedded(space, where))
            assert found == len(matching) - len(without)
            first = self._runner.run(self._collection.waiting(space, where, "likes", 0, 5))
            rest = self._runner.run(self._collection.waiting(space, where, "likes", 5, 1000))
            assert len(first) == min(5, len(without))
            assert {each.record.key for each in (*first, *rest)} == without
            likes = [each.record.fields.get("likes") for each in (*first, *rest)]
            known = [each for each in likes if isinstance(each, int | float)]
            assert likes == [*sorted(known, reverse=True), *[None] * (len(likes) - len(known))]


VectorMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestMachine = VectorMachine.TestCase
