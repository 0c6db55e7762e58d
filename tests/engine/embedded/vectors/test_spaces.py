"""Any sequence of spaces that come, go and succeed leaves what a dict would hold."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tabane.errors import BadArguments
from tabane.search.engine import VectorQuery
from tabane.search.records import EVERYTHING, EmbeddingSpace, Record
from tests.engine.embedded.opening import CollectionMachine, embedded
from tests.engine.embedded.vectors.oracle import packed
from tests.engine.embedded.vectors.spaces import BARE, SpacesContract

pytestmark = pytest.mark.heavy("thousands of records")

_NAMES = st.sampled_from(["text", "image", "next"])
_KEYS = [f"k{number}" for number in range(6)]
_NUMBERS = st.integers(1, 4)


class TestEmbedded(SpacesContract):
    engine = staticmethod(embedded)


class SpacesMachine(CollectionMachine):
    """A collection whose spaces change, beside a dict of them and one of each record's vectors."""

    shape = BARE

    def __init__(self) -> None:
        super().__init__()
        self._spaces: dict[str, EmbeddingSpace] = {}
        self._records: dict[str, dict[str, bytes]] = {}

    @rule(name=_NAMES, dimension=st.integers(2, 3), model=st.sampled_from(["", "m"]))
    def add(self, name: str, dimension: int, model: str) -> None:
        space = EmbeddingSpace(name, dimension, model)
        there = self._spaces.setdefault(name, space)
        if there.dimension == dimension and model in ("", there.model):
            self._runner.run(self._collection.add_space(space))
        else:
            with pytest.raises(BadArguments):
                self._runner.run(self._collection.add_space(space))

    @rule(name=_NAMES)
    def drop(self, name: str) -> None:
        self._runner.run(self._collection.drop_space(name))
        self._forget(name)

    @rule(name=_NAMES, by=_NAMES)
    def succeed(self, name: str, by: str) -> None:
        if by not in self._spaces:
            with pytest.raises(BadArguments):
                self._runner.run(self._collection.succeed(name, by))
            return
        self._runner.run(self._collection.succeed(name, by))
        if name != by:
            self._forget(name)
            space = self._spaces[by]
            renamed = {each.name: each for each in self._spaces.values()} | {
                by: EmbeddingSpace(name, space.dimension, space.model)
            }
            self._spaces = {each.name: each for each in renamed.values()}
            for vectors in self._records.values():
                if by in vectors:
                    vectors[name] = vectors.pop(by)

    def _forget(self, name: str) -> None:
        self._spaces.pop(name, None)
        for vectors in self._records.values():
            vectors.pop(name, None)

    def _made(self, number: int, names: set[str]) -> dict[str, bytes]:
        there = [space for space in self._spaces.values() if space.name in names]
        return {each.name: packed([1.0, float(number), 2.0][: each.dimension]) for each in there}

    @rule(key=st.sampled_from(_KEYS), number=_NUMBERS, names=st.sets(_NAMES))
    def upsert(self, key: str, number: int, names: set[str]) -> None:
        vectors = self._made(number, names)
        changed = self._runner.run(self._collection.upsert([Record(key=key, vectors=vectors)]))
        assert changed == [self._records.get(key) != vectors]
        self._records[key] = dict(vectors)

    @rule(number=_NUMBERS, names=st.sets(_NAMES), model=st.sampled_from(["", "m"]))
    def attach(self, number: int, names: set[str], model: str) -> None:
        vectors = self._made(number, names)
        page = self._runner.run(self._collection.select(EVERYTHING, limit=3))
        rows = {each.row: vectors for each in page.records}
        assert self._runner.run(self._collection.attach(rows, model)) == len(rows)
        for each in page.records:
            self._records[each.record.key] |= {
                name: vector
                for name, vector in vectors.items()
                if not model or model == self._spaces[name].model
            }

    @rule(key=st.sampled_from(_KEYS))
    def delete(self, key: str) -> None:
        expected = int(self._records.pop(key, None) is not None)
        assert self._runner.run(self._collection.delete([key])) == expected

    @rule()
    def flush(self) -> None:
        if self._collection.engine.table.vectors is not None:
            self._collection.engine.table.vectors.settle()

    @invariant()
    def agree(self) -> None:
        assert self._collection.spaces == tuple(self._spaces.values())
        for name, space in self._spaces.items():
            expected = {key: vectors[name] for key, vectors in self._records.items() if name in vectors}
            found = self._runner.run(self._collection.vectors(_KEYS, name))
            assert found == [expected.get(key) for key in _KEYS]
            lacking = self._runner.run(self._collection.lacking(name))
            assert {each.record.key for each in lacking} == self._records.keys() - expected.keys()
            query = VectorQuery({name: packed([1.0] * space.dimension)})
            hits = self._runner.run(self._collection.nearest(query, EVERYTHING, 10))
            assert {hit.key for hit in hits.hits} == expected.keys()
            scores = {hit.key: hit.score for hit in hits.hits}
            told = self._runner.run(self._collection.similarities(query, _KEYS))
            assert told == [pytest.approx(scores[key]) if key in scores else None for key in _KEYS]
        assert self._runner.run(self._collection.engine.agrees())


SpacesMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestMachine = SpacesMachine.TestCase
