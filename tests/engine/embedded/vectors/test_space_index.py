"""Whose vectors are whose is kept over a closing; cosines do not depend on the lengths of vectors."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tabane.engine.embedded.collection_state import SpaceStorage, VectorPlacement
from tabane.engine.embedded.vectors.space_files import CODED, CodeFiles, CodeState
from tabane.engine.embedded.vectors.space_index import SpaceIndex
from tabane.engine.embedded.vectors.vector_files import Disk, VectorFile
from tabane.engine.embedded.vectors.vector_truth import VectorOwnership
from tabane.engine.vector_request import Array, Matrix, normalized
from tabane.search.records import EmbeddingSpace
from tests.engine.embedded.vectors.oracle import packed

STORAGE = SpaceStorage(EmbeddingSpace("text", 2), 77, 1)
COUNT = 199
ROWS = list(range(8, 8 + COUNT))


class Known(VectorOwnership):
    """Vector n is that of row ``rows[n - 1]``; ``asked`` tells whether all of them had to be read."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows
        self.asked = False

    @property
    def following(self) -> int:
        return len(self.rows) + 1

    def all(self) -> tuple[Array, Array]:
        self.asked = True
        return np.arange(1, self.following), np.array(self.rows)

    def agree(self, numbers: Sequence[int], rows: Sequence[int]) -> bool:
        known = {row: number for number, row in enumerate(self.rows, 1)}
        return all(known.get(row, number) == number for number, row in zip(numbers, rows, strict=True))


def closed(home: Path, changes: int) -> VectorFile:
    """A space of which the rows were kept after that write."""
    file = VectorFile.create(Disk(), str(home / "vectors"), STORAGE, np.empty(0, dtype=np.int64), 1)
    space = SpaceIndex.fresh(str(home / "text"), STORAGE, file)
    file.put(1, [packed([1, number]) for number in range(1, COUNT + 1)])
    space.apply([VectorPlacement("text", number, row) for number, row in enumerate(ROWS, 1)])
    space.apply([VectorPlacement("text", 5, 0), VectorPlacement("text", 6, 1000)])
    space.keep_owners(changes)
    return file


def opened(home: Path, file: VectorFile, known: Known, changes: int = 41) -> list[int]:
    space = SpaceIndex.open(str(home / "text"), STORAGE, file, known, changes)
    rows: list[int] = space.view().rows.tolist()
    return rows


def test_whose_vectors_are_is_kept_over_a_closing(tmp_path: Path) -> None:
    file = closed(tmp_path, 41)
    for _ in range(2):  # it holds until something is written
        known = Known([*ROWS[:5], 1000, *ROWS[6:]])
        assert opened(tmp_path, file, known) == [*ROWS[:4], 0, 1000, *ROWS[6:]]
        assert not known.asked


def _resident(address: int) -> int:
    """Return how many kilobytes of the mapping at an address are in memory."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if bounds := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(bounds[1], 16) <= address < int(bounds[2], 16)
        elif inside and line.startswith("Rss:"):
            return int(line.split()[1])
    raise AssertionError("nothing is mapped there")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/smaps is of Linux")
def test_an_opening_leaves_no_vectors_in_memory(tmp_path: Path) -> None:
    count, storage = 5000, SpaceStorage(EmbeddingSpace("text", 64), 78, 1)
    vectors = np.random.default_rng(4).normal(size=(count, 64)).astype(np.float32)
    file = VectorFile.create(Disk(), str(tmp_path / "vectors"), storage, np.empty(0, dtype=np.int64), 1)
    space = SpaceIndex.fresh(str(tmp_path / "text"), storage, file)
    file.put(1, [each.tobytes() for each in vectors])
    space.apply([VectorPlacement("text", number, number) for number in range(1, count + 1)])
    space.flush()
    space.keep_owners(41)
    again = VectorFile.open(Disk(), file.path, storage)
    known = Known(list(range(1, count + 1)))
    found = SpaceIndex.open(str(tmp_path / "text"), storage, again, known, 41)
    assert found.view().coded
    assert len(found) == 0
    assert _resident(again.matrix(1).ctypes.data) == 0


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
    file = closed(tmp_path, 41)
    harm(tmp_path / "text" / "rows")
    known = Known(ROWS)
    assert opened(tmp_path, file, known) == ROWS
    assert known.asked


def test_whose_vectors_are_is_read_anew_after_any_other_write_and_forgotten(tmp_path: Path) -> None:
    file = closed(tmp_path, 41)
    for changes in (42, 41):
        known = Known(ROWS)
        assert opened(tmp_path, file, known, changes) == ROWS
        assert known.asked


def test_whose_vectors_are_is_read_anew_where_the_truth_says_something_else(tmp_path: Path) -> None:
    file = closed(tmp_path, 41)
    known = Known([row + 1 for row in ROWS])
    assert opened(tmp_path, file, known) == known.rows
    assert known.asked


def test_numbers_find_their_vectors_in_every_generation(tmp_path: Path) -> None:
    """Those in the list of a file that was rewritten, those behind it, and none of those left out."""
    file = closed(tmp_path, 41)
    kept = np.array([2, 3, 50, 199])
    storage = SpaceStorage(STORAGE.space, STORAGE.birth, 2)
    dense = VectorFile.create(Disk(), str(tmp_path / "dense"), storage, kept, COUNT + 1)
    file.copy(kept, dense)
    dense.put(COUNT + 1, [packed([7, 7]), packed([8, 8])])
    dense.close()
    dense = VectorFile.open(Disk(), str(tmp_path / "dense"), storage)
    numbers = np.array([1, 2, 3, 4, 50, 51, 199, 200, 201])
    assert dense.slots(numbers).tolist() == [-1, 0, 1, -1, 2, -1, 3, 4, 5]
    assert [dense.slot(number) for number in numbers.tolist()] == dense.slots(numbers).tolist()
    assert [dense.number(slot) for slot in range(6)] == [2, 3, 50, 199, 200, 201]
    expected = [None, packed([1, 2]), packed([1, 3]), None, packed([1, 50]), None, packed([1, 199])]
    assert [dense.vector(number) for number in numbers.tolist()] == [
        *expected,
        packed([7, 7]),
        packed([8, 8]),
    ]
    assert (tmp_path / "dense").stat().st_size == 4096 + 6 * 8


def _appended(space: SpaceIndex, file: VectorFile, vectors: Matrix) -> None:
    first = len(space.view().rows) + 1
    file.put(first, [vector.tobytes() for vector in vectors])
    numbers = range(first, first + len(vectors))
    space.apply([VectorPlacement("text", number, number) for number in numbers])


@pytest.mark.parametrize("off", [0.0, 4e-7, 1e-5, 2.0])
def test_cosines_are_right_where_only_some_vectors_have_length_one(tmp_path: Path, off: float) -> None:
    """Those with codes, those that got theirs later, those without; and after another opening."""
    storage = SpaceStorage(EmbeddingSpace("text", 64), 7, 1)
    vectors = np.random.default_rng(1).standard_normal((4 * CODED // 3, 64), dtype=np.float32)
    vectors = normalized(vectors.tobytes(), 64)
    vectors[CODED + 100 :] *= np.float32(1 + off)
    file = VectorFile.create(Disk(), str(tmp_path / "vectors"), storage, np.empty(0, dtype=np.int64), 1)
    space = SpaceIndex.fresh(str(tmp_path / "text"), storage, file)
    doubled = vectors.astype(np.float64)
    expected = doubled @ vectors[0] / np.linalg.norm(doubled, axis=1)
    for end in (CODED + 100, CODED + 500, len(vectors)):
        _appended(space, file, vectors[len(space.view().rows) : end])
        for _ in range(2):
            found = space.view().cosines(vectors[0], np.arange(end))
            assert np.allclose(found, expected[:end], rtol=0, atol=1e-6)
            space.flush()
    assert space.codes_agree()
    reopened = CodeFiles.open(
        str(tmp_path / "text"), CodeState(7, 64, 1), file.matrix(len(vectors)), after_crash=True
    )
    assert reopened.state.count == len(vectors)
    assert reopened.state.units == (off < 5e-7)
