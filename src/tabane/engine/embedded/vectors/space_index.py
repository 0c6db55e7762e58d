"""The vectors of one space, in mapped files and in memory, with the row of each.

A *slot* is the position of a vector: first those in the files, then the tail, which holds the newest vectors
in memory. Slots are in order of the numbers of vectors. The slot of a deleted record stays until the files
are compacted; masks of filters exclude it. When a space is opened, vectors that the files lack are read into
the tail if they are few. Otherwise they are added to the files in the background, and have no slot before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from tabane.engine.embedded.collection_state import SpaceStorage, VectorPlacement
from tabane.engine.embedded.columns import Array, GrowableArray, Mask
from tabane.engine.embedded.vectors.binary_codes import BinaryCodes
from tabane.engine.embedded.vectors.space_files import VectorSpaceFiles, some
from tabane.engine.embedded.vectors.vector_database import VectorDatabase
from tabane.engine.embedded.vectors.vector_kernel import KERNEL, Floats, VectorKernel
from tabane.engine.embedded.vectors.vector_rows import read_vectors, rows_of, slots_of_numbers
from tabane.engine.embedded.vectors.vector_truth import VectorOwnership
from tabane.engine.unit_vectors import Matrix, normalised

FLUSHED = 2048  # vectors of the tail that are worth a write
FLUSHED_AFTER = 2.0  # seconds
_CAUGHT_UP = 4096  # vectors of a step
MOST_TAKEN = 8 * FLUSHED  # vectors that are read into memory while a space is opened
_DEAD = 10_000  # slots that are not worth a rewriting
_COMPARED = 4096  # vectors between two pauses


def _on() -> None:
    """Continue without a pause."""


_NOTHING: Array = np.empty((0, 2), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class SpaceSnapshot:
    """A space at one moment. ``rows``: slot → row; ``data``: the slots of the files, ``tail`` the rest.

    ``straight``: each slot's row is one more than the slot before it has, which makes masks cheap.
    ``whole``: every vector has a slot.
    """

    rows: Array
    data: Matrix
    tail: Matrix
    codes: BinaryCodes | None
    straight: bool
    whole: bool = True
    kernel: VectorKernel = KERNEL

    @property
    def dimension(self) -> int:
        return int(self.tail.shape[1])

    def within(self, mask: Mask, origin: int) -> Mask:
        """Return which slots are meant by a mask of rows that begins at row ``origin``."""
        run = self.run(origin, len(mask))
        if run is not None:
            return mask[run]
        padded = np.zeros(len(mask) + 2, dtype=np.bool_)
        padded[1:-1] = mask
        return padded.take(self.rows - (origin - 1), mode="clip")

    def run(self, origin: int, size: int) -> slice | None:
        """Return where all slots are in a mask of so many rows, if they are there in a row."""
        if not len(self.rows) or not self.straight:
            return None
        first = int(self.rows[0]) - origin
        return slice(first, first + len(self.rows)) if 0 <= first <= size - len(self.rows) else None

    def vectors(self, slots: Array) -> Matrix:
        """Return the unit vectors of slots that are in order."""
        sealed = int(np.searchsorted(slots, len(self.data)))
        if sealed == len(slots):
            return self.data.take(slots, axis=0, mode="clip")  # a third faster than [slots], and the same
        return np.concatenate([self.data[slots[:sealed]], self.tail[slots[sealed:] - len(self.data)]])

    def cosines(self, query: Matrix, slots: Array, pause: Callable[[], None] = _on) -> Array:
        """Return the cosines of sorted slots, as float32. ``pause`` is called between blocks."""
        found = np.empty(len(slots), dtype=np.float32)
        sealed = int(np.searchsorted(slots, len(self.data)))
        for first in range(0, sealed, _COMPARED):
            part = slots[first : min(first + _COMPARED, sealed)]
            found[first : first + len(part)] = self.kernel.dot_rows(self.data, part, query)
            pause()
        if sealed < len(slots):
            found[sealed:] = self.kernel.dot_rows(self.tail, slots[sealed:] - len(self.data), query)
        return found

    def exact_cosines(self, query: Matrix, slots: Array) -> Floats:
        """Return the cosines of sorted slots, as float64: equal vectors have equal ones."""
        sealed = int(np.searchsorted(slots, len(self.data)))
        found = self.kernel.exact_dot_rows(self.data, slots[:sealed], query)
        if sealed == len(slots):
            return found
        tail = self.kernel.exact_dot_rows(self.tail, slots[sealed:] - len(self.data), query)
        return np.concatenate([found, tail])


class SpaceIndex:
    """One space, open. :meth:`apply` is called by the writing thread, :meth:`flush` by another one."""

    def __init__(self, storage: SpaceStorage, files: VectorSpaceFiles) -> None:
        self.storage = storage
        self._files = files
        self._lock = threading.Lock()
        self._keeping = threading.Lock()  # over the files
        self._numbers = GrowableArray(np.int64)
        self._rows = GrowableArray(np.int64)
        self._tail: Matrix = np.empty((0, storage.space.dimension), dtype=np.float32)
        self._filled = 0  # vectors of the tail: the array has room for more
        self._data = files.data()
        self._codes = files.codes()
        self._straight = True
        self._behind = _NOTHING  # number and row of the vectors that have no slot yet, in order

    @classmethod
    def fresh(cls, folder: str, storage: SpaceStorage) -> SpaceIndex:
        """Return a space that has no vectors yet. Nothing is on the disk before the first ones are."""
        return cls(storage, VectorSpaceFiles.fresh(folder, storage.birth, storage.space.dimension))

    @classmethod
    def open(
        cls,
        folder: str,
        storage: SpaceStorage,
        file: VectorDatabase,
        places: VectorOwnership,
        changes: int = 0,
        *,
        after_crash: bool = False,
    ) -> SpaceIndex:
        """Map the files, with the rows that were kept after write number ``changes``, or as ``places`` has
        them. What the files lack is taken in here if it is little, else :meth:`catch_up` does it. Blocks.
        ``after_crash``: the last process died.
        """
        found = cls(
            storage,
            VectorSpaceFiles.open(folder, storage.birth, storage.space.dimension, after_crash=after_crash),
        )
        if not found._resumed(places, changes):
            found._placed(file, places.all())
        return found

    def _resumed(self, places: VectorOwnership, changes: int) -> bool:
        """Take over what was kept, where some of it is looked up and true."""
        rows = self._files.owners(changes)
        if rows is None:
            return False
        numbers, looked_at = self._files.numbers(), some(len(rows))
        if not places.agree(numbers[looked_at].tolist(), rows[looked_at].tolist()):
            return False
        self._numbers.append(numbers)
        self._append_rows(rows)
        return True

    def keep_owners(self, changes: int) -> None:
        """Keep which vector is whose until the next opening, where all are in the files. Raises OSError."""
        with self._keeping:
            if self.whole and not self._filled:
                self._files.keep_owners(self._rows.view(), changes)

    def _placed(self, file: VectorDatabase, places: list[tuple[int, int]]) -> None:
        """Give all vectors the rows that the truth says."""
        known = np.fromiter(chain.from_iterable(places), np.int64, 2 * len(places)).reshape(-1, 2)
        known = known[np.argsort(known[:, 0])]
        numbers = self._files.numbers()
        self._numbers.append(numbers)
        self._append_rows(rows_of(numbers, known))
        last = int(numbers[-1]) if len(numbers) else 0
        behind = known[int(np.searchsorted(known[:, 0], last, side="right")) :]
        if len(behind) <= MOST_TAKEN:
            self._take_in(file, behind)
        else:
            self._behind = behind

    def _take_in(self, file: VectorDatabase, behind: Array) -> None:
        """Read vectors into the tail."""
        for first in range(0, len(behind), _CAUGHT_UP):
            numbers, matrix = read_vectors(file, self.storage, behind[first : first + _CAUGHT_UP, 0])
            self._append(matrix)
            self._numbers.append(numbers)
            self._append_rows(rows_of(numbers, behind))

    def __len__(self) -> int:
        """Return how many vectors are in the tail."""
        return self._filled

    def view(self) -> SpaceSnapshot:
        with self._lock:
            rows, tail = self._rows.view(), self._tail[: self._filled]
            return SpaceSnapshot(rows, self._data, tail, self._codes, self._straight, self.whole)

    @property
    def whole(self) -> bool:
        """Return whether every vector has a slot: :meth:`catch_up` has nothing to do."""
        return not len(self._behind)

    def apply(self, placed: list[VectorPlacement]) -> None:
        """Take in what a commit changed in this space."""
        came = [each for each in placed if each.vector is not None]
        moved = [each for each in placed if each.vector is None]
        with self._lock:
            if came:
                matrix = normalised(
                    b"".join(each.vector or b"" for each in came), self.storage.space.dimension
                )
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

    def _move(self, moved: list[VectorPlacement]) -> None:
        """Other rows for vectors that are there; readers of older views see the old ones still."""
        numbers, rows = self._numbers.view(), self._rows.view().copy()
        wanted = np.array([each.number for each in moved], dtype=np.int64)
        to = np.array([each.row for each in moved], dtype=np.int64)
        slots, there = slots_of_numbers(numbers, wanted)
        rows[slots[there]] = to[there]
        self._rows.replace(rows)
        self._straight = False
        slots, there = slots_of_numbers(self._behind[:, 0], wanted)
        self._behind[slots[there], 1] = to[there]

    # In the thread that keeps the files

    def flush(self) -> None:
        """Move the tail into the files. Raises OSError: the tail stays, and answers."""
        with self._keeping:
            self._flush()

    def _flush(self) -> None:
        with self._lock:  # a commit in the midst has its vectors in already, and their numbers not yet
            count, sealed = self._filled, len(self._data)
            numbers, tail = self._numbers.view()[sealed : sealed + count], self._tail[:count]
        if not count or not self.whole:  # what is behind has the lower numbers, and goes first
            return
        self._files.append(numbers, tail)
        data, codes = self._files.data(), self._files.codes()
        with self._lock:
            self._data, self._codes = data, codes
            self._tail = self._tail[count : self._filled].copy()
            self._filled -= count

    def catch_up(self, file: VectorDatabase) -> bool:
        """Put some of the vectors that have no slot into the files. False if there are none.

        Raises OSError and StoreError: then they have none still.
        """
        with self._keeping:
            part = self._behind[:_CAUGHT_UP]
            if len(part):
                self._put_between(*read_vectors(file, self.storage, part[:, 0]), len(part))
            return len(part) > 0

    def _put_between(self, numbers: Array, matrix: Matrix, done: int) -> None:
        """Give vectors slots behind those of the files and ahead of the tail."""
        sealed = len(self._data)
        if len(numbers):
            self._files.append(numbers, matrix)
        data, codes = self._files.data(), self._files.codes()
        with self._lock:
            rows = rows_of(numbers, self._behind[:done])
            for each, new in ((self._numbers, numbers), (self._rows, rows)):
                known = each.view()
                each.replace(np.concatenate([known[:sealed], new, known[sealed:]]))
            self._behind = self._behind[done:] if done < len(self._behind) else _NOTHING
            self._straight = bool((np.diff(self._rows.view()) == 1).all())
            self._data, self._codes = data, codes

    def recode(self) -> None:
        """Make codes if there are none and there ought to be. Raises OSError."""
        with self._keeping:
            if self._files.codes() is None:
                self._files.recode()
                codes = self._files.codes()
                with self._lock:
                    self._codes = codes

    def remove(self) -> None:
        """Delete the files of a dropped space."""
        with self._keeping:
            self._files.remove()

    def tidy(self, live: Callable[[], Mask]) -> None:
        """Compact the files if more than half of their slots are dead. ``live`` returns the live slots."""
        with self._keeping:
            if self.whole:
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
                known = each.view()
                each.replace(np.concatenate([known[slots], known[sealed:]]))
            self._straight = bool((np.diff(self._rows.view()) == 1).all())
            self._files, self._data, self._codes = files, data, codes

    def agrees(self, file: VectorDatabase, numbers: list[int]) -> bool:
        """Return whether files and tail hold these vectors as the truth has them. Reads all."""
        with self._keeping:
            view = self.view()
            slot_numbers = self._numbers.view()[: len(view.rows)]
            codes = view.codes is None or self._files.codes_agree(len(view.data))
        return self.whole and codes and _agree(view, slot_numbers, file, self.storage, numbers)


def _wasteful(dead: Mask) -> bool:
    count = int(np.count_nonzero(dead))
    return count > _DEAD and count * 2 > len(dead)


def _agree(
    view: SpaceSnapshot, numbers: Array, file: VectorDatabase, storage: SpaceStorage, wanted: list[int]
) -> bool:
    """Return whether a moment of a space holds these vectors as the truth has them. Reads all.

    ``numbers`` says which vector is in each slot; one that was deleted meanwhile does not matter.
    """
    for first in range(0, len(wanted), _CAUGHT_UP):
        some, expected = read_vectors(
            file, storage, np.array(wanted[first : first + _CAUGHT_UP], dtype=np.int64)
        )
        slots, there = slots_of_numbers(numbers, some)
        if not there.all() or not np.array_equal(view.vectors(slots), expected):
            return False
    return True
