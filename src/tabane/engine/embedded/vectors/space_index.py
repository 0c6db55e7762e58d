"""The vectors of a collection and of each of its spaces: searchable at once, then written into mapped files.

A *slot* is the position of a vector: first those in the files, then the tail, which holds the newest
vectors in memory. Slots are in order of the numbers of vectors. The slot of a deleted record stays until
the files are compacted; masks of filters exclude it. When a space is opened, vectors that the files lack
are read into the tail if they are few. Otherwise they are added to the files in the background, and have
no slot before.

The vectors of one collection: searchable at once, and written into mapped files in the background. The
table reports every commit. New vectors stay in memory, where they are compared one by one, until a thread
has put them into the files: every 2,048 vectors or 2 seconds. The same thread rebuilds lost files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from tabane.engine.embedded import failures
from tabane.engine.embedded.collection_state import (
    CollectionChange,
    CollectionSpaces,
    SpaceStorage,
    VectorPlacement,
)
from tabane.engine.embedded.columns import Array, ColumnSnapshot, GrowableArray, Mask
from tabane.engine.embedded.vectors.space_files import (
    VectorSpaceFiles,
    read_vectors,
    rows_of,
    slots_of_numbers,
    some,
)
from tabane.engine.embedded.vectors.vector_database import VectorDatabase
from tabane.engine.embedded.vectors.vector_kernel import KERNEL, BinaryCodes, Floats, VectorKernel
from tabane.engine.embedded.vectors.vector_truth import VectorOwnership, VectorTruth
from tabane.engine.vector_request import Matrix, normalized
from tabane.errors import StoreError

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
        """Return the number of components of a vector."""
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
        """Return the vectors of this moment: those in files, and those that are newer."""
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
                matrix = normalized(
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
        """Give vectors other rows. Readers of older views still see the old ones."""
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
        dead = ~live[:sealed]
        count = int(np.count_nonzero(dead))
        if count <= _DEAD or count * 2 <= len(dead):
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


MOST_BEHIND = 8 * FLUSHED  # vectors in memory, of one space
_REMEMBERED = 8  # moments
_LONGEST_WAIT = 30.0  # seconds
_LONGEST_PAUSE = 60.0  # seconds, where the disk refuses again and again

Moment = Mapping[str, SpaceSnapshot]
Live = Callable[[], ColumnSnapshot]


class VectorIndex:
    """The data derived from the vectors of a table. Made by :meth:`open`."""

    def __init__(
        self, truth: VectorTruth, folder: str, spaces: Mapping[str, SpaceIndex], changes: int, live: Live
    ) -> None:
        """``live`` returns the columns: they say which rows are live when files are compacted."""
        self.truth = truth
        self._folder = folder
        self._spaces = spaces
        self._dropped: list[SpaceIndex] = []
        self._moments: OrderedDict[int, Moment] = OrderedDict()
        self._lock = threading.Lock()
        self._moved = threading.Condition()
        self._open = True
        self._live = live
        self._publish(changes)
        self._thread = threading.Thread(target=self._work, name="store-vectors", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls,
        connection: sqlite3.Connection,
        folder: str,
        truth: VectorTruth,
        changes: int,
        live: Live,
        *,
        after_crash: bool,
    ) -> VectorIndex:
        """Map existing files; much missing data is made again in the background. Blocks; raises StoreError.

        ``after_crash``: the last process died, so its last writes are checked.
        """
        storages = truth.spaces(connection).storages
        try:
            spaces = {
                each.space.name: SpaceIndex.open(
                    _folder(folder, each),
                    each,
                    truth.file,
                    truth.placing(connection, each),
                    changes,
                    after_crash=after_crash,
                )
                for each in storages
            }
            _remove_others(folder, storages)
        except OSError as error:
            raise failures.from_system(error, folder) from error
        return cls(truth, folder, spaces, changes, live)

    def committed(self, change: CollectionChange) -> None:
        """Apply a write that is on disk. Called in the writing thread, before the columns show it."""
        with self._lock:
            if change.spaces is not None:
                self._respace(change.spaces)
            for name, space in self._spaces.items():
                placed = [each for each in change.vectors if each.space == name]
                if placed:
                    space.apply(placed)
            self._publish(change.state.changes)
        if change.vectors or change.spaces is not None:
            with self._moved:
                self._moved.notify_all()

    def _respace(self, spaces: CollectionSpaces) -> None:
        there = {space.storage.birth: space for space in self._spaces.values()}
        self._spaces = {
            storage.space.name: self._kept_or_fresh(storage, there) for storage in spaces.storages
        }
        self._dropped += there.values()

    def _kept_or_fresh(self, storage: SpaceStorage, there: dict[int, SpaceIndex]) -> SpaceIndex:
        """Return the space of that birth, taken from those there are."""
        if storage.birth in there:
            return there.pop(storage.birth)
        return SpaceIndex.fresh(_folder(self._folder, storage), storage)

    def _publish(self, changes: int) -> None:
        self._moments[changes] = {name: space.view() for name, space in self._spaces.items()}
        while len(self._moments) > _REMEMBERED:
            self._moments.popitem(last=False)

    def moment(self, changes: int) -> Moment | None:
        """Return the spaces after that write, None if it is too long ago."""
        with self._lock:
            return self._moments.get(changes)

    def room(self) -> None:
        """Wait, half a minute at most, where too much is in memory. Blocks."""
        with self._moved:
            self._moved.wait_for(lambda: not self.full, _LONGEST_WAIT)

    @property
    def full(self) -> bool:
        """Return whether so many vectors wait to be written into files that writers have to wait."""
        return any(len(space) >= MOST_BEHIND for space in self._spaces.values())

    @property
    def whole(self) -> bool:
        """Return whether nothing is being rebuilt."""
        return all(space.whole for space in self._spaces.values())

    def wait_until_whole(self, timeout: float) -> bool:
        """Wait while something is being rebuilt. Blocks."""
        with self._moved:
            return self._moved.wait_for(lambda: self.whole or not self._open, timeout) and self.whole

    def settle(self) -> None:
        """Put all that is in memory into the files. Blocks; raises OSError."""
        for space in self._spaces.values():
            space.flush()

    def agrees(self, connection: sqlite3.Connection) -> bool:
        """Return whether the files hold what the truth holds. Reads everything."""
        for storage in self.truth.spaces(connection).storages:
            space = self._spaces.get(storage.space.name)
            numbers = sorted(number for number, _ in self.truth.places(connection, storage))
            if (
                space is None
                or space.storage.birth != storage.birth
                or not space.agrees(self.truth.file, numbers)
            ):
                return False
        return True

    def close(self) -> None:
        """End the thread, with everything in the files. Blocks."""
        with self._moved:
            self._open = False
            self._moved.notify_all()
        self._thread.join()
        with contextlib.suppress(OSError):
            self.settle()
            for space in self._spaces.values():
                space.keep_owners(next(reversed(self._moments)))

    # In the thread that keeps the files

    def _work(self) -> None:
        pause = 0.0
        while self._open:
            try:
                self._keep()
                pause = 0.0
            except (OSError, StoreError):  # it stays in memory, or behind, and what is there answers
                pause = min(_LONGEST_PAUSE, 2 * pause or FLUSHED_AFTER)
            with self._moved:
                self._moved.wait_for(lambda: not self._open, pause)
                self._moved.wait_for(lambda: self._waiting or not self._open)
                self._moved.wait_for(self._due, FLUSHED_AFTER)

    @property
    def _waiting(self) -> bool:
        return bool(self._dropped) or any(len(space) for space in self._spaces.values()) or not self.whole

    def _due(self) -> bool:
        spaces = self._spaces.values()
        return not (self._open and self.whole) or any(len(space) >= FLUSHED for space in spaces)

    def _keep(self) -> None:
        """Rebuild what is missing, move vectors from memory into the files, delete dropped spaces."""
        for space in list(self._spaces.values()):
            while self._open and space.catch_up(self.truth.file):
                self._show()
            space.recode()
            space.flush()
            space.tidy(lambda space=space: _living(self._live(), space))  # type: ignore[misc]
        self._show()
        while self._dropped:
            self._dropped[0].remove()
            del self._dropped[0]

    def _show(self) -> None:
        with self._lock:
            self._publish(next(reversed(self._moments)))
        with self._moved:
            self._moved.notify_all()


def _living(snapshot: ColumnSnapshot, space: SpaceIndex) -> Mask:
    """Return which slots belong to records, those that columns do not show yet included."""
    view = space.view()
    to_come = view.rows >= snapshot.origin + len(snapshot.alive)
    return np.asarray(view.within(snapshot.alive, snapshot.origin) | to_come)


def _folder(folder: str, storage: SpaceStorage) -> str:
    return os.path.join(folder, f"{storage.birth:016x}")


def _remove_others(folder: str, storages: Iterable[SpaceStorage]) -> None:
    """Delete what is of no space any more."""
    if os.path.isdir(folder):
        known = {os.path.basename(_folder(folder, each)) for each in storages}
        for name in set(os.listdir(folder)) - known:
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
