"""The vectors of a collection and of each of its spaces, searchable where they are: in their mapped files.

A *slot* is the position of a vector in its file. The table reports every commit, and its vectors are compared
one by one until a thread has made their binary codes: every 2,048 vectors or 2 seconds. The slot of a deleted
record stays until the file is rewritten; masks of filters exclude it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tabane.engine.embedded import failures
from tabane.engine.embedded.collection_state import (
    CollectionChange,
    CollectionSpaces,
    SpaceStorage,
    VectorPlacement,
)
from tabane.engine.embedded.columns import Array, GrowableArray, Mask
from tabane.engine.embedded.vectors.space_files import CODED, CodeFiles, CodeState, some
from tabane.engine.embedded.vectors.vector_files import VectorFile
from tabane.engine.embedded.vectors.vector_kernel import KERNEL, BinaryCodes, Floats, VectorKernel
from tabane.engine.embedded.vectors.vector_truth import VectorOwnership, VectorTruth, following
from tabane.engine.vector_request import Matrix

FLUSHED = 2048  # vectors without codes that are worth a write
FLUSHED_AFTER = 2.0  # seconds
_DEAD = 10_000  # slots that are not worth a rewriting
_COMPARED = 4096  # vectors between two pauses


def _on() -> None:
    """Continue without a pause."""


@dataclass(frozen=True, slots=True)
class SpaceSnapshot:
    """A space at one moment. ``rows``: slot → row; ``data``: the vectors by slot, the first ones with codes.

    ``straight``: each slot's row is one more than the slot before it has, which makes masks cheap.
    """

    rows: Array
    data: Matrix
    codes: BinaryCodes | None
    straight: bool
    kernel: VectorKernel = KERNEL

    @property
    def dimension(self) -> int:
        """Return the number of components of a vector."""
        return int(self.data.shape[1])

    @property
    def coded(self) -> int:
        """Return how many slots have codes."""
        return 0 if self.codes is None else self.codes.words.shape[1]

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

    def cosines(self, query: Matrix, slots: Array, pause: Callable[[], None] = _on) -> Array:
        """Return the cosines of sorted slots, as float32. ``pause`` is called between blocks."""
        found = np.empty(len(slots), dtype=np.float32)
        units = 0  # of the slots, the first ones: their vectors are known to have length 1
        if self.codes is not None and self.codes.units:
            units = int(np.searchsorted(slots, self.coded))
        for begin, end, cosines in (0, units, self.kernel.products), (units, len(slots), self.kernel.cosines):
            for first in range(begin, end, _COMPARED):
                part = slice(first, min(first + _COMPARED, end))
                found[part] = cosines(self.data, slots[part], query)
                pause()
        return found

    def exact_cosines(self, query: Matrix, slots: Array) -> Floats:
        """Return the cosines of sorted slots, as float64: equal vectors have equal ones."""
        return self.kernel.exact_cosines(self.data, slots, query)


class SpaceIndex:
    """One space, open. :meth:`apply` is called by the writing thread, :meth:`flush` by another one."""

    def __init__(self, storage: SpaceStorage, file: VectorFile, files: CodeFiles) -> None:
        self.storage = storage
        self._file = file
        self._files = files
        self._lock = threading.Lock()
        self._keeping = threading.Lock()  # over the files of codes
        self._generation = storage.generation  # the last that was begun: none is begun twice
        self._rows = GrowableArray(np.int64)
        self._codes = files.codes()
        self._straight = True

    @classmethod
    def fresh(cls, folder: str, storage: SpaceStorage, file: VectorFile) -> SpaceIndex:
        """Return a space that has no vectors yet. Nothing is in the folder before there are many."""
        return cls(storage, file, CodeFiles(folder, _afresh(storage)))

    @classmethod
    def open(
        cls,
        folder: str,
        storage: SpaceStorage,
        file: VectorFile,
        ownership: VectorOwnership,
        changes: int = 0,
        *,
        after_crash: bool = False,
    ) -> SpaceIndex:
        """Map the files, with the rows that were kept after write number ``changes``, or as the database has
        them. Blocks; raises OSError, and WrongVectors or StoreCorrupt if vectors are not what was written.

        ``after_crash``: the last process died, so what it wrote since its last codes is checked.
        """
        count = file.slot(ownership.following)
        files = CodeFiles.open(folder, _afresh(storage), file.sample(count), after_crash=after_crash)
        found = cls(storage, file, files)
        if after_crash:
            ownership.check(file, files.state.last)
        rows = files.owners(count, changes)
        looked_at = some(count)
        if rows is None or not ownership.agree(list(map(file.number, looked_at)), rows[looked_at].tolist()):
            rows = np.zeros(count, dtype=np.int64)
            numbers, owners = ownership.all()
            rows[file.slots(numbers)] = owners
        found._append_rows(rows)
        return found

    def keep_owners(self, changes: int) -> None:
        """Keep which vector is whose until the next opening. Raises OSError."""
        with self._keeping:
            self._files.keep_owners(self._rows.view(), changes)

    def __len__(self) -> int:
        """Return how many vectors wait for their codes."""
        count = self._rows.length
        return 0 if count < CODED else count - self._files.state.count

    def view(self) -> SpaceSnapshot:
        """Return the vectors of this moment."""
        with self._lock:
            rows = self._rows.view()
            return SpaceSnapshot(rows, self._file.matrix(len(rows)), self._codes, self._straight)

    def apply(self, placed: list[VectorPlacement]) -> None:
        """Take in what a commit changed in this space."""
        numbers = np.array([each.number for each in placed], dtype=np.int64)
        rows = np.array([each.row for each in placed], dtype=np.int64)
        with self._lock:
            slots, count = self._file.slots(numbers), self._rows.length
            new = slots >= count
            if new.any():
                came = np.zeros(int(slots.max()) + 1 - count, dtype=np.int64)
                came[slots[new] - count] = rows[new]
                self._append_rows(came)
            if not new.all():
                self._move(slots[~new], rows[~new])

    def _append_rows(self, rows: Array) -> None:
        whole = np.concatenate([self._rows.view()[-1:], rows])
        self._straight = self._straight and bool((np.diff(whole) == 1).all())
        self._rows.append(rows)

    def _move(self, slots: Array, rows: Array) -> None:
        """Give vectors other rows. Readers of older views still see the old ones."""
        moved = self._rows.view().copy()
        moved[slots[slots >= 0]] = rows[slots >= 0]
        self._rows.replace(moved)
        self._straight = False

    def _held(self) -> tuple[VectorFile, CodeFiles, int]:
        """Return the file of vectors, the files of its codes, and how many vectors there are."""
        with self._lock:
            return self._file, self._files, self._rows.length

    # In the thread that keeps the codes

    def flush(self) -> None:
        """Make the codes of vectors that have none. Raises OSError: these are compared one by one still."""
        with self._keeping:
            if len(self):
                file, files, count = self._held()
                files.append(file.matrix(count))
                codes = files.codes()
                with self._lock:
                    if files is self._files:  # the vectors were not rewritten meanwhile
                        self._codes = codes

    def remove(self) -> None:
        """Delete the files of a dropped space."""
        with self._keeping:
            self._files.remove()

    def codes_agree(self) -> bool:
        """Return whether codes are those of their vectors. Reads all."""
        with self._keeping:
            file, files, count = self._held()
            return files.agree(file.matrix(count))

    # Rewriting the vectors

    def dense(self, truth: VectorTruth, connection: sqlite3.Connection) -> DenseFile | None:
        """Write the vectors of records alone into a file of the next generation, with their codes.

        None if there is not much to gain. Blocks. Raises OSError.
        """
        with self._keeping:
            before, codes, _ = self._held()
            count = before.slot(following(connection, self.storage))
            if count <= _DEAD:
                return None
            numbers = truth.owned(connection, self.storage)
            dead = count - len(numbers)
            if dead <= _DEAD or dead * 2 <= count:
                return None
            self._generation += 1
            storage, files = replace(self.storage, generation=self._generation), truth.files
            file = VectorFile.create(files.disk, files.path(storage), storage, numbers, before.number(count))
            try:
                before.copy(numbers, file)
                dense = codes.dense(before.slots(numbers), storage.generation)
            except BaseException:
                file.close()
                files.disk.remove(file.path)
                raise
            return DenseFile(self, storage, before, file, dense, count)

    def switch(self, dense: DenseFile) -> None:
        """Use that file from now on: it was committed."""
        with self._lock:
            rows = self._rows.view()
            slots = self._file.slots(dense.file.listed)
            self._rows.replace(np.concatenate([rows[slots], rows[dense.count :]]))
            self._straight = bool((np.diff(self._rows.view()) == 1).all())
            self.storage, self._file = dense.storage, dense.file
            self._files, self._codes = dense.codes, dense.codes.codes()

    def keep_codes(self) -> None:
        """Keep the codes of a file that was committed, and delete those of the one before. Raises OSError."""
        with self._keeping:
            self._files.keep()
            self._files.clear()


@dataclass(frozen=True, slots=True)
class DenseFile:
    """The next generation of a space's file, on its way to be that of the space.

    It has the vectors of records among the first ``count`` slots of the one ``before``.
    """

    space: SpaceIndex
    storage: SpaceStorage
    before: VectorFile
    file: VectorFile
    codes: CodeFiles
    count: int

    def commit(self, connection: sqlite3.Connection, truth: VectorTruth) -> bool:
        """Add what was written meanwhile, and note the generation. In the writing thread, last in a commit.

        False if the space was dropped or rewritten meanwhile. Raises StoreError. If it is not committed,
        :meth:`discard` it.
        """
        old, current = self.before, truth.files.file(self.storage)
        if current is not old or truth.spaces(connection).born(self.storage.birth) is None:
            return False
        newer = np.arange(old.number(self.count), following(connection, self.storage))
        try:
            old.copy(newer, self.file)
            self.file.sync()
            truth.files.sync_folder()
        except OSError as error:
            raise failures.from_system(error, self.file.path) from error
        connection.execute(
            "UPDATE space SET generation = ? WHERE birth = ?", (self.storage.generation, self.storage.birth)
        )
        return True

    def discard(self, truth: VectorTruth) -> None:
        """Delete the file, which is of no use."""
        self.file.close()
        with contextlib.suppress(OSError):  # it is deleted when the store is opened the next time
            truth.files.disk.remove(self.file.path)


def _afresh(storage: SpaceStorage) -> CodeState:
    return CodeState(storage.birth, storage.space.dimension, storage.generation)


_REMEMBERED = 8  # moments
_LONGEST_PAUSE = 60.0  # seconds, where the disk refuses again and again

Moment = Mapping[str, SpaceSnapshot]


class VectorIndex:
    """The vectors of a table, and the data derived from them. Made by :meth:`open`."""

    def __init__(
        self, truth: VectorTruth, folder: str, spaces: Mapping[str, SpaceIndex], changes: int
    ) -> None:
        self.truth = truth
        self.replaced = 0
        """Vectors that others took the place of, since somebody set this to 0."""
        self._folder = folder
        self._spaces = spaces
        self._dropped: list[SpaceIndex] = []
        self._moments: OrderedDict[int, Moment] = OrderedDict()
        self._lock = threading.Lock()
        self._moved = threading.Condition()
        self._open = True
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
        *,
        after_crash: bool,
    ) -> VectorIndex:
        """Map existing files; missing codes are made in the background. Blocks.

        Raises WrongVectors if a few are not what was written, and StoreError.

        ``after_crash``: the last process died, so its last writes are checked.
        """
        storages = truth.spaces(connection).storages
        try:
            spaces = {
                each.space.name: SpaceIndex.open(
                    _folder(folder, each),
                    each,
                    truth.file(each),
                    truth.placing(connection, each),
                    changes,
                    after_crash=after_crash,
                )
                for each in storages
            }
            _remove_others(folder, storages)
        except OSError as error:
            raise failures.from_system(error, folder) from error
        return cls(truth, folder, spaces, changes)

    def committed(self, change: CollectionChange) -> None:
        """Apply a write that is on disk. Called in the writing thread, before the columns show it."""
        with self._lock:
            if change.spaces is not None:
                self._respace(change.spaces)
            for name, space in self._spaces.items():
                placed = [each for each in change.vectors if each.space == name]
                if placed:
                    space.apply(placed)
            self.replaced += sum(not each.row for each in change.vectors)
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
        return SpaceIndex.fresh(_folder(self._folder, storage), storage, self.truth.file(storage))

    def _publish(self, changes: int) -> None:
        self._moments[changes] = {name: space.view() for name, space in self._spaces.items()}
        while len(self._moments) > _REMEMBERED:
            self._moments.popitem(last=False)

    def moment(self, changes: int) -> Moment | None:
        """Return the spaces after that write, None if it is too long ago."""
        with self._lock:
            return self._moments.get(changes)

    def settle(self) -> None:
        """Make all codes. Blocks; raises OSError."""
        for space in list(self._spaces.values()):
            space.flush()

    def agrees(self, connection: sqlite3.Connection, changes: int) -> bool:
        """Return whether the vectors are those that were written, and what is derived is theirs. Reads all.

        ``changes``: the last write that the connection's transaction sees. Raises WrongVectors, StoreCorrupt
        if vectors are others.
        """
        moment = self.moment(changes)
        for storage in self.truth.spaces(connection).storages:
            space = self._spaces.get(storage.space.name)
            ownership = self.truth.placing(connection, storage)
            file = self.truth.files.file(storage)
            if space is None or file is None or space.storage.birth != storage.birth:
                return False
            ownership.check(file, 0)
            view = None if moment is None else moment.get(storage.space.name)
            if view is not None and not ownership.fits(view.rows, view.data):
                return False
            if not space.codes_agree():
                return False
        return True

    def close(self) -> None:
        """End the thread, with all codes made. Blocks."""
        with self._moved:
            self._open = False
            self._moved.notify_all()
        self._thread.join()
        with contextlib.suppress(OSError):
            self.settle()
            for space in self._spaces.values():
                space.keep_owners(next(reversed(self._moments)))

    # Vectors of no record

    def dense(self, connection: sqlite3.Connection) -> DenseFile | None:
        """Rewrite a file whose vectors mostly belong to no record; None if there is none. Blocks.

        Raises StoreError.
        """
        for space in list(self._spaces.values()):
            try:
                found = space.dense(self.truth, connection)
            except OSError as error:
                raise failures.from_system(error, self._folder) from error
            if found is not None:
                return found
        return None

    def switch(self, dense: DenseFile) -> None:
        """Use a file that was committed. Called in the writing thread."""
        with self._lock:
            self.truth.files.replace(dense.storage.birth, dense.file)
            dense.space.switch(dense)
            self._publish(next(reversed(self._moments)))

    # In the thread that keeps the codes

    def _work(self) -> None:
        pause = 0.0
        while self._open:
            try:
                self._keep()
                pause = 0.0
            except OSError:  # they are compared one by one
                pause = min(_LONGEST_PAUSE, 2 * pause or FLUSHED_AFTER)
            with self._moved:
                self._moved.wait_for(lambda: not self._open, pause)
                self._moved.wait_for(lambda: self._waiting or not self._open)
                self._moved.wait_for(self._due, FLUSHED_AFTER)

    @property
    def _waiting(self) -> bool:
        return bool(self._dropped) or any(len(space) for space in self._spaces.values())

    def _due(self) -> bool:
        return not self._open or any(len(space) >= FLUSHED for space in self._spaces.values())

    def _keep(self) -> None:
        """Make codes, and delete those of dropped spaces."""
        self.settle()
        with self._lock:
            self._publish(next(reversed(self._moments)))
        while self._dropped:
            self._dropped[0].remove()
            del self._dropped[0]


def _folder(folder: str, storage: SpaceStorage) -> str:
    return os.path.join(folder, f"{storage.birth:016x}")


def _remove_others(folder: str, storages: Iterable[SpaceStorage]) -> None:
    """Delete what is of no space any more."""
    if os.path.isdir(folder):
        known = {os.path.basename(_folder(folder, each)) for each in storages}
        for name in set(os.listdir(folder)) - known:
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
