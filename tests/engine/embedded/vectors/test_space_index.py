"""A space that is kept while it is written to: what comes meanwhile goes into the files, and in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from tabane.engine.embedded.collection_state import SpaceStorage, VectorPlacement
from tabane.engine.embedded.vectors.space_index import MOST_TAKEN, SpaceIndex
from tabane.engine.embedded.vectors.vector_database import VectorDatabase
from tabane.engine.embedded.vectors.vector_truth import VectorOwnership
from tabane.search.records import EmbeddingSpace
from tests.engine.embedded.vectors.oracle import packed
from tests.harness.patience import LONG


class Known(VectorOwnership):
    """Which vector is whose; ``asked`` tells whether all of it had to be read."""

    def __init__(self, places: list[tuple[int, int]]) -> None:
        self.places = places
        self.asked = False

    def all(self) -> list[tuple[int, int]]:
        self.asked = True
        return self.places

    def agree(self, numbers: Sequence[int], rows: Sequence[int]) -> bool:
        known = {row: number for number, row in self.places}
        return all(known.get(row, number) == number for number, row in zip(numbers, rows, strict=True))


def test_files_are_in_order_of_numbers_though_new_vectors_come_while_older_ones_are_behind(
    tmp_path: Path,
) -> None:
    file = VectorDatabase.open(str(tmp_path / "vectors.db"), after_crash=False)
    storage = file.make("notes", EmbeddingSpace("text", 2))
    places = [(file.put(storage, packed([1, row])), row) for row in range(1, MOST_TAKEN + 6000)]
    file.ahead()
    space = SpaceIndex.open(str(tmp_path / "text"), storage, file, Known(places))
    assert not space.whole
    rows = len(places)
    steps = 0
    while True:
        rows += 1
        number = file.put(storage, packed([1, rows]))
        file.ahead()
        space.apply(
            [VectorPlacement("text", number, rows, packed([1, rows])), VectorPlacement("text", 5000, 100_000)]
        )
        space.flush()
        if not space.catch_up(file):
            break
        steps += 1
        if not space.whole:
            space.keep_owners(1)  # nothing: it does not know of all yet
            assert not (tmp_path / "text" / "rows").exists()
    assert steps > 2
    space.flush()
    assert len(space) == 0
    assert space.agrees(file, list(range(1, rows + 1)))
    expected = np.arange(1, rows + 1)
    expected[4999] = 100_000
    assert np.array_equal(space.view().rows, expected)
    places = list(zip(range(1, rows + 1), expected.tolist(), strict=True))
    again = SpaceIndex.open(str(tmp_path / "text"), storage, file, Known(places))
    assert again.whole
    assert again.agrees(file, list(range(1, rows + 1)))
    assert np.array_equal(again.view().rows, expected)
    file.close()


class _Coming:
    """A vector that comes; between its vector and its number, somebody flushes."""

    space, row = "text", 1

    def __init__(self, space: SpaceIndex, vector: bytes) -> None:
        self.vector = vector
        self._flushing = threading.Thread(target=space.flush)

    @property
    def number(self) -> int:
        self._flushing.start()
        self._flushing.join(0.3)  # who flushes waits for the commit, so this is waited for in vain
        return 1

    def ended(self) -> None:
        self._flushing.join(LONG)
        assert not self._flushing.is_alive()


def test_a_flush_in_the_midst_of_a_commit_takes_vectors_with_their_numbers(tmp_path: Path) -> None:
    file = VectorDatabase.open(str(tmp_path / "vectors.db"), after_crash=False)
    storage = file.make("notes", EmbeddingSpace("text", 2))
    vector = packed([3, 4])
    assert file.put(storage, vector) == 1
    file.ahead()
    space = SpaceIndex.fresh(str(tmp_path / "text"), storage)
    coming = _Coming(space, vector)
    space.apply([cast(VectorPlacement, coming)])
    coming.ended()
    space.flush()
    assert len(space) == 0
    assert space.agrees(file, [1])
    assert SpaceIndex.open(str(tmp_path / "text"), storage, file, Known([(1, 1)])).agrees(file, [1])
    file.close()


_PLACES = [(number, number + 7) for number in range(1, 200)]


def _closed(home: Path, changes: int) -> tuple[VectorDatabase, SpaceStorage]:
    """A space of which the rows were kept after that write."""
    file = VectorDatabase.open(str(home / "vectors.db"), after_crash=False)
    storage = file.make("notes", EmbeddingSpace("text", 2))
    for number, _ in _PLACES:
        file.put(storage, packed([1, number]))
    file.ahead()
    space = SpaceIndex.open(str(home / "text"), storage, file, Known(_PLACES))
    space.keep_owners(changes)  # nothing: they are not in the files yet
    assert not (home / "text" / "rows").exists()
    space.flush()
    space.apply([VectorPlacement("text", 5, 0), VectorPlacement("text", 6, 1000)])
    space.keep_owners(changes)
    file.settled()
    return file, storage


def test_whose_vectors_are_is_kept_over_a_closing(tmp_path: Path) -> None:
    file, storage = _closed(tmp_path, 41)
    for _ in range(2):  # it holds until something is written
        known = Known([*_PLACES[:5], (6, 1000), *_PLACES[6:]])
        again = SpaceIndex.open(str(tmp_path / "text"), storage, file, known, 41)
        assert not known.asked
        assert again.whole
        rows = [row for _, row in _PLACES]
        assert again.view().rows.tolist() == [*rows[:4], 0, 1000, *rows[6:]]
        assert again.agrees(file, [number for number, _ in _PLACES])
    file.close()


def _shorter(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def _flipped(path: Path) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))


def _unreadable(path: Path) -> None:
    path.write_bytes(b"rows\n")


@pytest.mark.parametrize("harm", [_shorter, _flipped, _unreadable, Path.unlink])
def test_whose_vectors_are_is_read_anew_where_the_file_is_torn(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    file, storage = _closed(tmp_path, 41)
    harm(tmp_path / "text" / "rows")
    known = Known(_PLACES)
    again = SpaceIndex.open(str(tmp_path / "text"), storage, file, known, 41)
    assert known.asked
    assert again.view().rows.tolist() == [row for _, row in _PLACES]
    file.close()


def test_whose_vectors_are_is_read_anew_after_any_other_write_and_forgotten(tmp_path: Path) -> None:
    file, storage = _closed(tmp_path, 41)
    for changes in (42, 41):
        known = Known(_PLACES)
        SpaceIndex.open(str(tmp_path / "text"), storage, file, known, changes)
        assert known.asked
    file.close()


def test_whose_vectors_are_is_read_anew_where_the_truth_says_something_else(tmp_path: Path) -> None:
    file, storage = _closed(tmp_path, 41)
    other = Known([(number, row + 1) for number, row in _PLACES])
    again = SpaceIndex.open(str(tmp_path / "text"), storage, file, other, 41)
    assert other.asked
    assert again.view().rows.tolist() == [row + 1 for _, row in _PLACES]
    file.close()


@pytest.mark.parametrize("name", ["unit-1", "codes-1"])
def test_what_a_death_left_torn_in_the_last_append_is_made_again(tmp_path: Path, name: str) -> None:
    """In the middle of it, which nobody looks at where the last process ended as it should."""
    dimension, count = 64, 5000
    file = VectorDatabase.open(str(tmp_path / "vectors.db"), after_crash=False)
    storage = file.make("notes", EmbeddingSpace("text", dimension))
    places = [
        (file.put(storage, packed([float((number * at) % 13 - 6.5) for at in range(dimension)])), number)
        for number in range(1, count + 1)
    ]
    file.ahead()
    folder = tmp_path / "text"
    space = SpaceIndex.open(str(folder), storage, file, Known(places))
    space.flush()
    slot = count - 777
    with (folder / name).open("r+b") as torn:
        torn.seek(slot * dimension * 4 if name == "unit-1" else 4096 + slot * 8)
        torn.write(b"\x55" * 8)
    numbers = [number for number, _ in places]
    assert not SpaceIndex.open(str(folder), storage, file, Known(places)).agrees(file, numbers)
    again = SpaceIndex.open(str(folder), storage, file, Known(places), after_crash=True)
    again.recode()
    again.flush()
    assert again.agrees(file, numbers)
    file.close()
