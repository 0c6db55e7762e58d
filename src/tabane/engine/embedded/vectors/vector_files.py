"""The vectors of a domain: one append-only file for each space, see :mod:`vector_format`.

A file holds the vectors as they were given, one after the other. Nothing that was written is changed. What
the records' database does not know of is none of it: a transaction takes numbers for its vectors there
(``space.next``), writes the vectors, and is committed once they are on the disk. So an append needs no
commit of its own, what a death or an error leaves behind the last number is written over by the next
append, and a checksum for each vector is in the row that says whose it is.

Numbers are never reused. A file that is rewritten without the vectors that no record has any more (its
next generation) begins with a list of the numbers that it was made with; those behind follow each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
from collections.abc import Iterable, Sequence

import numpy as np

from tabane.engine.embedded import failures
from tabane.engine.embedded.collection_state import SpaceStorage
from tabane.engine.embedded.columns import Array, Mask
from tabane.engine.embedded.database import CommitCompanion
from tabane.engine.embedded.vectors.vector_format import EMPTY, VectorHead, names_of, path_of
from tabane.engine.vector_request import Matrix

log = logging.getLogger(__name__)

_SPARE = 1 << 18  # bytes by which a full file grows at least, and by a quarter: room that takes no disk
_COPIED = 2048  # vectors at a time


class Disk:
    """The calls by which vectors get to the disk. A test has others, to lose what was not synced."""

    def create(self, path: str) -> int:
        """Return the descriptor of an empty file, whose name :meth:`sync_folder` makes durable."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def open(self, path: str) -> int:
        """Return the descriptor of a file that is there, to read and write it."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)

    def write(self, fd: int, data: bytes, offset: int) -> None:
        """Write all of it."""
        view = memoryview(data)
        while view:
            count = os.pwrite(fd, view, offset)
            view, offset = view[count:], offset + count

    def resize(self, fd: int, size: int) -> None:
        """Cut a file, or make room behind its end that reads as zeros."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Wait until the content of a file is on the disk, and nothing before a power cut can take it."""
        if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: a plain fsync leaves the data in the disk's own memory
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(fd)

    def sync_folder(self, path: str) -> None:
        """Wait until the names of the files in a folder are on the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def remove(self, path: str) -> None:
        """Delete a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


class VectorFile:
    """One generation of the vectors of a space. Written by one thread, read by any."""

    def __init__(self, disk: Disk, path: str, fd: int, head: VectorHead) -> None:
        self.path = path
        self.head = head
        self.listed: Array = np.frombuffer(head.numbers, dtype="<i8")
        self._disk = disk
        self._fd = fd
        self._width = 4 * head.storage.space.dimension
        self._end = 0  # behind the last vector that was put, which is behind all that were there
        self._matrix: Matrix = np.empty((0, head.storage.space.dimension), dtype=np.float32)
        self._map()

    @classmethod
    def create(cls, disk: Disk, path: str, storage: SpaceStorage, numbers: Array, start: int) -> VectorFile:
        """Make a file in place of any other of that name: for vectors of these numbers, and from ``start``
        on. Raises OSError.
        """
        fd, head = disk.create(path), VectorHead(storage, start, numbers.astype("<i8").tobytes())
        try:
            disk.write(fd, head.packed(), 0)
            return cls(disk, path, fd, head)
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def open(cls, disk: Disk, path: str, storage: SpaceStorage) -> VectorFile:
        """Open a file. Raises FileNotFoundError, OSError, and StoreCorrupt if it is something else."""
        fd = disk.open(path)
        try:
            return cls(disk, path, fd, VectorHead.read(path, fd, storage))
        except BaseException:
            os.close(fd)
            raise

    # Writing

    def put(self, first: int, vectors: Sequence[bytes]) -> None:
        """Write vectors under consecutive numbers: on the disk after :meth:`sync`. Raises OSError."""
        self._write(self.slot(first), b"".join(vectors))

    def copy(self, numbers: Array, other: VectorFile) -> None:
        """Put vectors, in order of numbers, into another file that has them in its list. Raises OSError."""
        slots = self.slots(numbers)
        for first in range(0, len(slots), _COPIED):
            part = slots[first : first + _COPIED]
            other._write(other.slot(int(numbers[first])), self._matrix[part].tobytes())

    def _write(self, slot: int, data: bytes) -> None:
        end = slot + len(data) // self._width
        if end > len(self._matrix):
            self._disk.resize(self._fd, self.head.offset + self._width * (end + end // 4) + _SPARE)
            self._map()
        self._disk.write(self._fd, data, self.head.offset + self._width * slot)
        self._end = max(self._end, end)

    def sync(self) -> None:
        """Wait until all that was put is on the disk. Raises OSError."""
        self._disk.sync(self._fd)

    def close(self) -> None:
        """Close the file, without room behind what was put. What is mapped stays readable."""
        if self._end:
            with contextlib.suppress(OSError):
                self._disk.resize(self._fd, self.head.offset + self._width * self._end)
        os.close(self._fd)

    def _map(self) -> None:
        count = max(0, os.fstat(self._fd).st_size - self.head.offset) // self._width
        if count:
            self._matrix = self._mapped(count)

    def _mapped(self, count: int) -> Matrix:
        shape = (count, self._width // 4)
        return np.asarray(np.memmap(self.path, np.float32, "r", self.head.offset, shape))

    # Reading, in any thread

    @property
    def room(self) -> int:
        """Return how many vectors the file has room for: those that are there, and some more."""
        return len(self._matrix)

    def slot(self, number: int) -> int:
        """Return the position of a vector; -1 if it was left out of this generation."""
        if number >= self.head.start:
            return len(self.listed) + number - self.head.start
        place = int(np.searchsorted(self.listed, number))
        return place if place < len(self.listed) and self.listed[place] == number else -1

    def slots(self, numbers: Array) -> Array:
        """Return the position of each vector; -1 for those that were left out."""
        listed = np.searchsorted(self.listed, numbers)
        found = np.where(numbers >= self.head.start, len(self.listed) + numbers - self.head.start, listed)
        old = np.flatnonzero(numbers < self.head.start)
        there: Mask = listed[old] < len(self.listed)
        there[there] = self.listed[listed[old[there]]] == numbers[old[there]]
        found[old[~there]] = -1
        return found

    def number(self, slot: int) -> int:
        """Return the number of the vector at a position."""
        if slot < len(self.listed):
            return int(self.listed[slot])
        return self.head.start + slot - len(self.listed)

    def matrix(self, count: int) -> Matrix:
        """Return the first vectors, mapped."""
        return self._matrix[:count]

    def sample(self, count: int) -> Matrix:
        """Return the first vectors in a mapping of their own. Each look may load megabytes around it, which
        count as memory of the process until that mapping is gone.
        """
        return self._mapped(count) if count else self.matrix(0)

    def vector(self, number: int) -> bytes | None:
        """Return a vector as it was given; None if there is none of that number."""
        slot, matrix = self.slot(number), self._matrix
        return matrix[slot].tobytes() if 0 <= slot < len(matrix) else None


class VectorFiles(CommitCompanion):
    """The files of a domain, open. They are on the disk before each commit of the records that needs them."""

    def __init__(self, database: str, disk: Disk | None = None) -> None:
        """``database``: path of the database of records."""
        self.disk = disk or Disk()
        self._database = database
        self._folder = os.path.dirname(database)
        self._open: dict[int, VectorFile] = {}
        self._lock = threading.Lock()
        self._unsynced: set[VectorFile] = set()
        self._lost_from: str | None = None

    def path(self, storage: SpaceStorage) -> str:
        """Return the path of the file of a space."""
        return path_of(self._database, storage)

    # In the writing thread: see tabane.engine.embedded.database.CommitCompanion

    def ahead(self) -> None:
        while self._unsynced:
            file = self._unsynced.pop()
            try:
                file.sync()
            except OSError as error:
                raise failures.from_system(error, file.path) from error

    def lost(self) -> None:
        self._unsynced.clear()

    def put(self, storage: SpaceStorage, first: int, vectors: Sequence[bytes]) -> None:
        """Write vectors under consecutive numbers that the transaction took. Raises StoreError."""
        file = self._open[storage.birth]
        try:
            file.put(first, vectors)
        except OSError as error:
            raise failures.from_system(error, file.path) from error
        self._unsynced.add(file)

    def make(self, storage: SpaceStorage) -> None:
        """Make the file of a new space, durably. Raises StoreError."""
        none = np.empty(0, dtype=np.int64)
        try:
            file = VectorFile.create(self.disk, self.path(storage), storage, none, 1)
            file.sync()
            self.sync_folder()
        except OSError as error:
            raise failures.from_system(error, self.path(storage)) from error
        self._open[storage.birth] = file

    def sync_folder(self) -> None:
        """Make the names of new files durable. Raises OSError."""
        self.disk.sync_folder(self._folder)

    def prepare(self, storage: SpaceStorage) -> bool:
        """Open the file of a space. Return False if it is gone. Raises StoreError."""
        if storage.birth not in self._open:
            try:
                self._open[storage.birth] = VectorFile.open(self.disk, self.path(storage), storage)
            except FileNotFoundError:
                return False
            except OSError as error:
                raise failures.from_system(error, self.path(storage)) from error
        return True

    def note_lost(self, path: str, space: str, count: int) -> None:
        """Note that so many records lost their vectors with a file, and log it. :meth:`check` says so."""
        if count:
            log.warning("%d records lost their vectors in the space %s with %s", count, space, path)
            self._lost_from = path

    def replace(self, birth: int, file: VectorFile) -> None:
        """Let a file that was committed be that of its space from now on, and delete the one before."""
        with self._lock:
            before, self._open[birth] = self._open[birth], file
        before.close()
        self._remove(before.path)

    def drop(self, storage: SpaceStorage) -> bool:
        """Delete the file of a space that was dropped, durably. False if that is refused."""
        with self._lock:
            file = self._open.pop(storage.birth, None)
        if file is not None:
            file.close()
            self._unsynced.discard(file)
        try:
            self.disk.remove(self.path(storage) if file is None else file.path)
            self.sync_folder()
        except OSError:
            return False
        return True

    def _remove(self, path: str) -> None:
        with contextlib.suppress(OSError):  # it is deleted when the store is opened the next time
            self.disk.remove(path)

    def remove_others(self, storages: Sequence[SpaceStorage]) -> None:
        """Delete what deaths left: other generations of spaces, and files of spaces that no commit knew.

        A file with vectors of an unknown space stays, and is logged: somebody may have put back an older
        database, and want the newer one again.
        """
        known = {os.path.basename(self.path(each)) for each in storages}
        births = {f"{each.birth:016x}" for each in storages}
        for name in os.listdir(self._folder):
            ours = names_of(self._database).fullmatch(name)
            if ours is None or name in known:
                continue
            path = os.path.join(self._folder, name)
            if ours[1] in births or os.path.getsize(path) <= EMPTY:
                self._remove(path)
            else:
                log.warning(
                    "%s is kept, but is of no space of %s: delete it if you need it no more",
                    path,
                    self._database,
                )

    def close(self) -> None:
        """Close the files. The writing thread has ended."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    # In any thread

    def check(self) -> None:
        """Raise StoreCorrupt if a file was gone when it was opened, or was deleted since."""
        with self._lock:
            paths = [file.path for file in self._open.values()]
        path = self._lost_from or next((path for path in paths if not os.path.exists(path)), None)
        if path is not None:
            raise failures.vectors_lost(path)

    def file(self, storage: SpaceStorage) -> VectorFile | None:
        """Return the file of a space; None if it was dropped and deleted."""
        with self._lock:
            return self._open.get(storage.birth)

    def vector(self, storage: SpaceStorage, number: int) -> bytes | None:
        """Return a vector as it was given; None if it is not there."""
        file = self.file(storage)
        return None if file is None else file.vector(number)

    def vectors(self, storage: SpaceStorage, numbers: Iterable[int]) -> dict[int, bytes]:
        """Return those of the vectors that there are."""
        found = ((number, self.vector(storage, number)) for number in numbers)
        return {number: vector for number, vector in found if vector is not None}
