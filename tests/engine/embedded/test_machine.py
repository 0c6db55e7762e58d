"""Any sequence of writes, compactions and reopenings leaves what a dict would hold."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tabane.search.records import Filter, Record
from tests.engine.embedded.model import Model, agrees, all_of, meant, put
from tests.engine.embedded.opening import CollectionMachine
from tests.engine.embedded.shapes import FILTERS, KEYS, RECORDS, SHAPE

pytestmark = pytest.mark.heavy("thousands of records")


class StoreMachine(CollectionMachine):
    """A store in a folder of its own, beside the dict that it should agree with."""

    def __init__(self) -> None:
        super().__init__()
        self._model: Model = {}

    @rule(records=st.lists(RECORDS, max_size=8))
    def upsert(self, records: list[Record]) -> None:
        results = self._runner.run(self._collection.upsert(records))
        assert results == put(self._model, records, SHAPE)

    @rule(
        batches=st.lists(
            st.lists(RECORDS, min_size=1, max_size=3, unique_by=lambda each: each.key), max_size=5
        )
    )
    def upsert_at_once(self, batches: list[list[Record]]) -> None:
        """Writes that wait together are one commit, each whole, in the order they came."""

        async def run() -> None:
            await asyncio.gather(*(self._collection.upsert(batch) for batch in batches))

        self._runner.run(run())
        for batch in batches:
            put(self._model, batch, SHAPE)

    @rule(keys=st.lists(KEYS, max_size=5))
    def delete(self, keys: list[str]) -> None:
        ready = dict.fromkeys(key if key != "か\u3099" else "が" for key in keys)
        expected = sum(self._model.pop(key, None) is not None for key in ready)
        assert self._runner.run(self._collection.delete(keys)) == expected

    @rule(where=FILTERS)
    def filter(self, where: Filter) -> None:
        found = self._runner.run(all_of(self._collection, where))
        assert {record.key for record in found} == {record.key for record in meant(self._model, where, SHAPE)}

    @invariant()
    def agree(self) -> None:
        self._runner.run(agrees(self._collection, self._model))


StoreMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestStore = StoreMachine.TestCase
