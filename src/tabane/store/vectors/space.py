"""The vectors of one space in memory and mapped: which row each belongs to, and a tail of the newest.

A *slot* is a vector's place: those of the files first, then the tail. Slots are in order of the vectors'
numbers. A slot whose record is no more stays until the files are made dense again; which these are,
filters' masks say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tabane.store.columns import Array, Growing, Mask
from tabane.store.vectors.codes import Codes, Matrix, normalised
from tabane.store.vectors.file import Held, VectorFile
from tabane.store.vectors.files import SpaceFiles
from tabane.store.vectors.truth import Placed

FLUSHED = 2048  # vectors of the tail that are worth a write
FLUSHED_AFTER = 2.0  # seconds
_CAUGHT_UP = 4096  # vectors of a step
_DEAD = 10_000  # slots that are not worth a rewriting
_GATHERED = 4096  # vectors of a step
_CROWDED = 3  # times as many vectors are sooner read in a row than picked out


@dataclass(frozen=True, slots=True)
class View:
    """A space at one moment. ``rows``: slot → row; ``data``: the slots of the files, ``tail`` the rest.

    ``straight``: each slot's row is one more than the slot before it has, which makes masks cheap.
    """

    rows: Array
    data: Matrix
    tail: Matrix
    codes: Codes | None
    straight: bool

    def within(self, mask: Mask, origin: int) -> Mask:
        """Which slots are meant by a mask of rows that begins at row ``origin``."""
        run = self.run(origin, len(mask))
        if run is not None:
            return mask[run]
        padded = np.zeros(len(mask) + 2, dtype=np.bool_)
        padded[1:-1] = mask
        return padded.take(self.rows - (origin - 1), mode="clip")

    def run(self, origin: int, size: int) -> slice | None:
        """Where all slots are in a mask of so many rows, if they are there in a row."""
        if not len(self.rows) or not self.straight:
            return None
        first = int(self.rows[0]) - origin
        return slice(first, first + len(self.rows)) if 0 <= first <= size - len(self.rows) else None

    def vectors(self, slots: Array) -> Matrix:
        """The unit vectors of slots that are in order."""
        sealed = int(np.searchsorted(slots, len(self.data)))
        if sealed == len(slots):
            return self.data[slots]
        return np.concatenate([self.data[slots[:sealed]], self.tail[slots[sealed:] - len(self.data)]])

    def cosines(self, query: Matrix, slots: Array) -> Array:
        """The cosines of slots that are in order, as float32.

        Row by row: as fast as a product of matrices, which waits for threads of its own where the
        processors are busy.
        """
        found = np.empty(len(slots), dtype=np.float32)
        for first in range(0, len(slots), _GATHERED):
            part = slots[first : first + _GATHERED]
            low, high = int(part[0]), int(part[-1]) + 1
            if high <= len(self.data) and high - low <= _CROWDED * len(part):
                near = np.vecdot(self.data[low:high], query)[part - low]  # nothing is copied
            else:
                near = np.vecdot(self.vectors(part), query)
            found[first : first + len(part)] = near
        return found


class SpaceIndex:
    """One space, open. :meth:`apply` is called by the writing thread, :meth:`flush` by another one."""

    def __init__(self, held: Held, files: SpaceFiles) -> None:
        self.held = held
        self._files = files
        self._lock = threading.Lock()
        self._keeping = threading.Lock()  # over the files
        self._numbers = Growing(np.int64)
        self._rows = Growing(np.int64)
        self._tail: Matrix = np.empty((0, held.space.dimension), dtype=np.float32)
        self._filled = 0  # vectors of the tail: the array has room for more
        self._data = files.data()
        self._codes = files.codes()
        self._straight = True

    @classmethod
    def open(cls, folder: str, held: Held, file: VectorFile, places: list[tuple[int, int]]) -> SpaceIndex:
        """Map the files, and put in what they lack. ``places``: number and row of each vector. Blocks."""
        files = SpaceFiles.open(folder, held.birth, held.space.dimension)
        known = np.array(sorted(places), dtype=np.int64).reshape(-1, 2)
        if _wasteful(np.isin(files.numbers(), known[:, 0], invert=True)):
            files.dense(np.flatnonzero(np.isin(files.numbers(), known[:, 0]))).adopt()
            files = SpaceFiles.open(folder, held.birth, held.space.dimension)
        _catch_up(files, file, held, known[:, 0])
        if files.codes() is None:
            files.recode()
        found = cls(held, files)
        numbers = files.numbers()
        found._numbers.append(numbers)
        found._append_rows(_rows_of(numbers, known))
        return found

    def __len__(self) -> int:
        """How many vectors are in the tail."""
        return self._filled

    def view(self) -> View:
        with self._lock:
            rows, tail = self._rows.view(), self._tail[: self._filled]
            return View(rows, self._data, tail, self._codes, self._straight)

    def apply(self, placed: list[Placed]) -> None:
        """Take in what a commit changed in this space."""
        came = [each for each in placed if each.vector is not None]
        moved = [each for each in placed if each.vector is None]
        with self._lock:
            if came:
                matrix = normalised(b"".join(each.vector or b"" for each in came), self.held.space.dimension)
                self._append(matrix)
                self._numbers.append(np.array([each.number for each in came], dtype=np.int64))
                self._append_rows(np.array([each.row for each in came], dtype=np.int64))
            if moved:
                self._move(moved)

    def _append_rows(self, rows: Array) -> None:
        known = self._rows.view()
        whole = np.concatenate([known[-1:], rows])
        self._straight = self._straight and bool((np.diff(whole) == 1).all())
        self._rows.append(rows)

    def _append(self, matrix: Matrix) -> None:
        following = self._filled + len(matrix)
        if following > len(self._tail):
            grown = np.empty((following + following // 4 + 64, matrix.shape[1]), dtype=np.float32)
            grown[: self._filled] = self._tail[: self._filled]
            self._tail = grown
        self._tail[self._filled : following] = matrix
        self._filled = following

    def _move(self, moved: list[Placed]) -> None:
        """Other rows for vectors that are there; readers of older views see the old ones still."""
        numbers, rows = self._numbers.view(), self._rows.view().copy()
        wanted = np.array([each.number for each in moved], dtype=np.int64)
        slots = np.searchsorted(numbers, wanted)
        there = slots < len(numbers)
        there[there] = numbers[slots[there]] == wanted[there]
        rows[slots[there]] = np.array([each.row for each in moved], dtype=np.int64)[there]
        self._rows.replace(rows)
        self._straight = False

    # In the thread that keeps the files

    def flush(self) -> None:
        """Move the tail into the files. Raises OSError: the tail stays, and answers."""
        with self._keeping:
            self._flush()

    def _flush(self) -> None:
        count = self._filled
        if not count:
            return
        sealed = len(self._data)
        self._files.append(self._numbers.view()[sealed : sealed + count], self._tail[:count])
        data, codes = self._files.data(), self._files.codes()
        with self._lock:
            self._data, self._codes = data, codes
            self._tail = self._tail[count : self._filled].copy()
            self._filled -= count

    def tidy(self, live: Callable[[], Mask]) -> None:
        """Make the files dense where more than half of them is dead. ``live`` tells which slots are not."""
        with self._keeping:
            self._tidy(live())

    def _tidy(self, live: Mask) -> None:
        sealed = len(self._data)
        if not _wasteful(~live[:sealed]):
            return
        slots = np.flatnonzero(live[:sealed])
        files = self._files.dense(slots)
        files.adopt()
        data, codes = files.data(), files.codes()
        with self._lock:
            for each in (self._numbers, self._rows):
                held = each.view()
                each.replace(np.concatenate([held[slots], held[sealed:]]))
            self._straight = bool((np.diff(self._rows.view()) == 1).all())
            self._files, self._data, self._codes = files, data, codes

    def agrees(self, file: VectorFile, numbers: list[int]) -> bool:
        """Whether files and tail hold these vectors as the truth has them. Reads all."""
        view, held = self.view(), self._numbers.view()
        for first in range(0, len(numbers), _GATHERED):
            truth = file.vectors(self.held, numbers[first : first + _GATHERED])
            wanted = np.array(sorted(truth), dtype=np.int64)
            slots = np.searchsorted(held, wanted)
            if (slots >= len(view.rows)).any() or (held[slots] != wanted).any():
                return False
            expected = normalised(b"".join(truth[number] for number in sorted(truth)), view.tail.shape[1])
            if not np.array_equal(view.vectors(slots), expected):
                return False
        return True


def _wasteful(dead: Mask) -> bool:
    count = int(np.count_nonzero(dead))
    return count > _DEAD and count * 2 > len(dead)


def _catch_up(files: SpaceFiles, file: VectorFile, held: Held, known: Array) -> None:
    """Put in the vectors behind the last of the files, those that a record has."""
    numbers = files.numbers()
    last = int(numbers[-1]) if len(numbers) else 0
    waiting: list[tuple[int, bytes]] = []
    wanted = set(known[known > last].tolist())
    if not wanted:
        return
    for number, vector in file.behind(held, last):
        if number in wanted:
            waiting.append((number, vector))
            if len(waiting) == _CAUGHT_UP:
                _put_in(files, held, waiting)
                waiting = []
    if waiting:
        _put_in(files, held, waiting)


def _put_in(files: SpaceFiles, held: Held, several: list[tuple[int, bytes]]) -> None:
    matrix = normalised(b"".join(vector for _, vector in several), held.space.dimension)
    files.append(np.array([number for number, _ in several], dtype=np.int64), matrix)


def _rows_of(numbers: Array, known: Array) -> Array:
    """The rows of vectors by number, 0 for those that no record has. ``known``: number and row, in order."""
    rows = np.zeros(len(numbers), dtype=np.int64)
    if len(known):
        at = np.minimum(np.searchsorted(known[:, 0], numbers), len(known) - 1)
        there = known[at, 0] == numbers
        rows[there] = known[at[there], 1]
    return rows
