"""A space that catches up: what comes meanwhile goes into the files behind what was there before it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tabane.search.records import Space
from tabane.store.changes import Placed
from tabane.store.vectors.file import VectorFile
from tabane.store.vectors.space import MOST_TAKEN, SpaceIndex
from tests.store.vectors.oracle import packed


def test_files_are_in_order_of_numbers_though_new_vectors_come_while_older_ones_are_behind(
    tmp_path: Path,
) -> None:
    file = VectorFile.open(str(tmp_path / "vectors.db"), doubtful=False)
    held = file.make("notes", Space("text", 2))
    places = [(file.put(held, packed([1, row])), row) for row in range(1, MOST_TAKEN + 6000)]
    file.ahead()
    space = SpaceIndex.open(str(tmp_path / "text"), held, file, places)
    assert not space.whole
    rows = len(places)
    steps = 0
    while True:
        rows += 1
        number = file.put(held, packed([1, rows]))
        file.ahead()
        space.apply([Placed("text", number, rows, packed([1, rows])), Placed("text", 5000, 100_000)])
        space.flush()
        if not space.catch_up(file):
            break
        steps += 1
    assert steps > 2
    space.flush()
    assert len(space) == 0
    assert space.agrees(file, list(range(1, rows + 1)))
    expected = np.arange(1, rows + 1)
    expected[4999] = 100_000
    assert np.array_equal(space.view().rows, expected)
    places = list(zip(range(1, rows + 1), expected.tolist(), strict=True))
    again = SpaceIndex.open(str(tmp_path / "text"), held, file, places)
    assert again.whole
    assert again.agrees(file, list(range(1, rows + 1)))
    assert np.array_equal(again.view().rows, expected)
    file.close()
