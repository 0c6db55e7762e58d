"""The index of codes finds what a look at all slots finds, whatever was added since it was made."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.engine.embedded.columns import LOOKED_THROUGH, Array, CodeIndexes, ColumnSnapshot, ColumnValues
from tabane.search.records import Field, Kind

FIELD = Field("tag", Kind.STRING)


def snapshot(values: Array, origin: int = 1) -> ColumnSnapshot:
    alive = np.ones(len(values), dtype=np.bool_)
    return ColumnSnapshot(origin, 0, alive, {"tag": ColumnValues(FIELD, values, None)})


sizes = st.sampled_from([0, 1, 500, LOOKED_THROUGH, LOOKED_THROUGH + 1, 3 * LOOKED_THROUGH])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(sizes, st.integers(1, 2)), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_slots_are_those_of_a_look_at_all(moments: list[tuple[int, int]], seed: int) -> None:
    """Snapshots of any size follow each other, also a shorter one, and one after the rows were moved."""
    chance = np.random.default_rng(seed)
    columns = {origin: chance.integers(0, 5000, 3 * LOOKED_THROUGH).astype(np.uint32) for origin in (1, 2)}
    indexes = CodeIndexes()
    for size, origin in moments:
        values = columns[origin][:size]
        codes = np.unique(chance.integers(0, 6000, 20)).astype(np.uint32)
        found = indexes.slots(snapshot(values, origin), "tag", codes)
        assert found.tolist() == np.flatnonzero(np.isin(values, codes)).tolist()


def test_no_code_has_no_slots() -> None:
    values = np.zeros(3 * LOOKED_THROUGH, dtype=np.uint32)
    assert CodeIndexes().slots(snapshot(values), "tag", values[:0]).tolist() == []
