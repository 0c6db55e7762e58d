"""Mapped files derived from the vectors of one space: numbers, unit vectors, binary codes.

Vectors are appended. :class:`SpaceFilesState` is written after them, so it never claims more than the
files hold. Files that do not fit together are made again from the vector database.

Vectors by number, the rows of their records, and a file that keeps these rows between two openings. The
database has the same information, but reading it takes a second for a million vectors. So the rows in
memory are written to a file when a collection is closed, with the number of its last write. The file is
used only if that is still the last write, and if the files of vectors are the same.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import zlib
from collections.abc import Iterator

import msgspec
import numpy as np

from tabane.engine.embedded.collection_state import SpaceStorage
from tabane.engine.embedded.columns import Array, Mask
from tabane.engine.embedded.vectors.vector_database import VectorDatabase
from tabane.engine.embedded.vectors.vector_kernel import BinaryCodes, encoded, mean_of, width
from tabane.engine.vector_request import Matrix, normalized

_ROWS_STEP = 4096  # vectors


def read_vectors(file: VectorDatabase, storage: SpaceStorage, numbers: Array) -> tuple[Array, Matrix]:
    """Return the vectors that still exist, normalized, and their numbers. ``numbers`` are in order."""
    wanted = set(numbers.tolist())
    between = file.between(storage, int(numbers[0]), int(numbers[-1])) if wanted else ()
    found = [(number, vector) for number, vector in between if number in wanted]
    if not found:
        return np.empty(0, dtype=np.int64), np.empty((0, storage.space.dimension), dtype=np.float32)
    matrix = normalized(b"".join(vector for _, vector in found), storage.space.dimension)
    return np.array([number for number, _ in found], dtype=np.int64), matrix


def slots_of_numbers(numbers: Array, wanted: Array) -> tuple[Array, Mask]:
    """Return the slot of each wanted number among sorted numbers, and whether it exists."""
    slots = np.searchsorted(numbers, wanted)
    exists = slots < len(numbers)
    exists[exists] = numbers[slots[exists]] == wanted[exists]
    return slots, exists


def rows_of(numbers: Array, known: Array) -> Array:
    """Return the rows of vectors by number, 0 if no record has the vector.

    ``known``: sorted numbers and rows.
    """
    rows = np.zeros(len(numbers), dtype=np.int64)
    slots, exists = slots_of_numbers(known[:, 0], numbers)
    rows[exists] = known[slots[exists], 1]
    return rows


NAME = "rows"
_ROWS_FORMAT = 1


class OwnersStamp(msgspec.Struct, frozen=True):
    """Identity of the vectors that rows belong to: birth, generation, count, and CRC of their numbers.

    The rows are those after write number ``changes`` of the collection.
    """

    birth: int
    generation: int
    count: int
    numbers: int
    changes: int
    format: int = _ROWS_FORMAT


class _OwnersHeader(msgspec.Struct, frozen=True):
    mark: OwnersStamp
    check: int


def write(folder: str, mark: OwnersStamp, rows: Array) -> None:
    """Write the file atomically. Raises OSError."""
    raw = rows.astype(np.int64, copy=False).tobytes()
    partial = os.path.join(folder, NAME + ".part")
    with open(partial, "wb") as file:
        file.write(msgspec.json.encode(_OwnersHeader(mark, zlib.crc32(raw))) + b"\n")
        file.write(raw)
    os.replace(partial, os.path.join(folder, NAME))


def read(folder: str, mark: OwnersStamp) -> Array | None:
    """Return the rows of the vectors in order. A file that is outdated or damaged is deleted: None."""
    path = os.path.join(folder, NAME)
    try:
        with open(path, "rb") as file:
            kept = msgspec.json.decode(file.readline(), type=_OwnersHeader)
            raw = file.read()
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError):
        kept, raw = None, b""
    if kept is None or kept.mark != mark or len(raw) != 8 * mark.count or zlib.crc32(raw) != kept.check:
        with contextlib.suppress(OSError):
            os.unlink(path)
        return None
    return np.frombuffer(raw, dtype=np.int64)


FORMAT = 1
CODED = 4096  # vectors from which on codes are worth it
_CODED_DIMENSION = 64  # and dimensions: too few bits tell too little
_STEP = 8192
_LOOKED_AT = 32  # vectors at an end
_CLOSE = 1e-4  # to 1: the length of a unit vector in float32, squared
_ALIGNED = 4096  # bytes of a page: what stands behind the mean begins at one


class SpaceFilesState(msgspec.Struct, frozen=True):
    """``count`` vectors of the space that was born as ``birth``; ``check`` is the CRC of their numbers.

    ``codes`` numbers the file of codes, 0 for none; it has room for ``capacity`` vectors, and its mean
    was taken over ``meant`` of them. The last append began at slot ``last`` (-1: not known), and the unit
    vectors of it have the CRC ``last_check``: what was written before it was on the disk before it.
    """

    birth: int
    dimension: int
    format: int = FORMAT
    generation: int = 1
    count: int = 0
    check: int = 0
    codes: int = 0
    capacity: int = 0
    meant: int = 0
    last: int = -1
    last_check: int = 0


class VectorSpaceFiles:
    """The files of one space, for one thread at a time; what is mapped may be read by any."""

    def __init__(self, folder: str, state: SpaceFilesState) -> None:
        self._folder = folder
        self.state = state

    @classmethod
    def open(cls, folder: str, birth: int, dimension: int, *, after_crash: bool = False) -> VectorSpaceFiles:
        """Return the contents of the folder; nothing if damaged or of another space. Raises OSError.

        ``after_crash``: the last process died, so everything that its last append wrote is checked.
        """
        afresh = SpaceFilesState(birth=birth, dimension=dimension)
        found = cls(folder, _read(folder) or afresh)
        if not found._fits(afresh) or (after_crash and not found._last_fits()):
            found.remove()
            return cls(folder, afresh)
        if not found._codes_fit() or (after_crash and not found._last_codes_fit()):
            found.state = msgspec.structs.replace(found.state, capacity=0)
        found._clear()
        return found

    @classmethod
    def fresh(cls, folder: str, birth: int, dimension: int) -> VectorSpaceFiles:
        """No vectors yet, and nothing on the disk."""
        return cls(folder, SpaceFilesState(birth=birth, dimension=dimension))

    def remove(self) -> None:
        """Delete all of it. What is mapped stays readable. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._folder)

    def _fits(self, afresh: SpaceFilesState) -> bool:
        state = self.state
        if (state.format, state.birth, state.dimension) != (FORMAT, afresh.birth, afresh.dimension):
            return False
        try:
            whole = os.path.getsize(self._path("unit")) >= state.count * state.dimension * 4
            return whole and zlib.crc32(self.numbers().tobytes()) == state.check and self._units_fit()
        except (OSError, ValueError):
            return state.count == 0

    def _units_fit(self) -> bool:
        """Whether vectors at both ends and some in between are of length 1: not all of them are looked at."""
        near = self.data()[some(self.state.count)].astype(np.float64)
        return bool((np.abs((near * near).sum(axis=1) - 1) < _CLOSE).all())

    def _last_fits(self) -> bool:
        """Return whether the unit vectors of the last append are unchanged."""
        last = self.state.last
        return last < 0 or zlib.crc32(self.data()[last:].data) == self.state.last_check

    def _last_codes_fit(self) -> bool:
        """Return whether the codes of the last append match its vectors."""
        codes, last = self.codes(), max(0, self.state.last)
        return codes is None or np.array_equal(encoded(self.data()[last:], codes.mean), codes.words[:, last:])

    def _codes_fit(self) -> bool:
        """Return whether the codes of the same vectors are theirs; if there are none, too."""
        codes, places = self.codes(), some(self.state.count)
        return codes is None or np.array_equal(
            encoded(self.data()[places], codes.mean), codes.words[:, places]
        )

    def codes_agree(self, count: int) -> bool:
        """Return whether all codes of the first vectors are theirs. Reads all."""
        codes, data = self.codes(), self.data()
        parts = (slice(first, min(first + _STEP, count)) for first in range(0, count, _STEP))
        return codes is not None and all(
            np.array_equal(encoded(data[part], codes.mean), codes.words[:, part]) for part in parts
        )

    def mark(self, changes: int) -> OwnersStamp:
        """Return what the rows of these vectors are of, after that write of the collection."""
        state = self.state
        return OwnersStamp(state.birth, state.generation, state.count, state.check, changes)

    def owners(self, changes: int) -> Array | None:
        """Return the rows of the vectors, where they were kept after that very write."""
        return read(self._folder, self.mark(changes))

    def keep_owners(self, rows: Array, changes: int) -> None:
        """Keep the rows of the vectors until the next opening. Raises OSError."""
        if self.state.count:
            write(self._folder, self.mark(changes), rows)

    def _path(self, name: str) -> str:
        number = self.state.codes if name == "codes" else self.state.generation
        return os.path.join(self._folder, f"{name}-{number}")

    def numbers(self) -> Array:
        """Return the numbers of the vectors. Raises ValueError if there are fewer."""
        if not self.state.count:
            return np.empty(0, dtype=np.int64)
        found = np.fromfile(self._path("numbers"), dtype=np.int64, count=self.state.count)
        if len(found) < self.state.count:
            raise ValueError("numbers are missing")
        return found

    def data(self) -> Matrix:
        """Return the unit vectors, mapped."""
        shape = (self.state.count, self.state.dimension)
        if not self.state.count:
            return np.empty(shape, dtype=np.float32)
        return np.asarray(np.memmap(self._path("unit"), dtype=np.float32, mode="r", shape=shape))

    def codes(self) -> BinaryCodes | None:
        """Return the codes, mapped; None if there are none, or none that can be used."""
        if not self.state.capacity:
            return None
        try:
            mean = np.fromfile(self._path("codes"), dtype=np.float32, count=self.state.dimension)
            return BinaryCodes(mean, np.asarray(self._words("r")[:, : self.state.count]))
        except (OSError, ValueError):
            return None

    def _words(self, mode: str) -> np.memmap[tuple[int, int], np.dtype[np.uint64]]:
        state = self.state
        shape = (width(state.dimension), state.capacity)
        offset = _offset(state.dimension)
        return np.memmap(self._path("codes"), np.uint64, mode, offset, shape)  # type: ignore[call-overload,no-any-return]

    def append(self, numbers: Array, matrix: Matrix) -> None:
        """Append vectors, durably. Raises OSError."""
        state = self.state
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        _put(self._path("unit"), state.count * state.dimension * 4, matrix.tobytes())
        _put(self._path("numbers"), state.count * 8, numbers.tobytes())
        following = state.count + len(numbers)
        check = zlib.crc32(numbers.tobytes(), state.check)
        last_check = zlib.crc32(np.ascontiguousarray(matrix).data)
        moved = msgspec.structs.replace(
            state, count=following, check=check, last=state.count, last_check=last_check
        )
        if following <= state.capacity and following < 4 * state.meant:
            codes, words = self.codes(), self._words("r+")
            if codes is not None:
                words[:, state.count : following] = encoded(matrix, codes.mean)
                words.flush()
        self.state = moved
        if self._codable and (following > moved.capacity or following >= 4 * moved.meant):
            self._recode()
        self._write()

    def recode(self) -> None:
        """Rebuild the codes. Raises OSError."""
        if self._codable:
            self._recode()
            self._write()

    @property
    def _codable(self) -> bool:
        return self.state.count >= CODED and self.state.dimension >= _CODED_DIMENSION

    def _recode(self) -> None:
        """Codes in a file of their own, with room for more."""
        state, data = self.state, self.data()
        old = self._path("codes") if state.codes else None
        again = state.count >= 4 * state.meant or self.codes() is None
        mean = (
            mean_of(data)
            if again
            else np.fromfile(self._path("codes"), dtype=np.float32, count=self.state.dimension)
        )
        self.state = state = msgspec.structs.replace(
            state,
            codes=state.codes + 1,
            capacity=state.count + state.count // 4 + CODED,
            meant=state.count if again else state.meant,
        )
        with open(self._path("codes"), "wb") as file:
            file.write(mean.tobytes())
            file.truncate(_offset(state.dimension) + 8 * width(state.dimension) * state.capacity)
        words = self._words("r+")
        for first in range(0, state.count, _STEP):
            part = data[first : first + _STEP]
            words[:, first : first + len(part)] = encoded(part, mean)
        words.flush()
        if old is not None:
            _gone(old)

    def dense(self, slots: Array) -> VectorSpaceFiles:
        """The same space with these vectors alone, in files of another generation: to be adopted or not."""
        state = self.state
        other = VectorSpaceFiles(
            self._folder,
            SpaceFilesState(
                birth=state.birth,
                dimension=state.dimension,
                generation=state.generation + 1,
                codes=state.codes,
            ),
        )
        other._unwritten = True
        numbers, data = self.numbers(), self.data()
        for first in range(0, len(slots), _STEP):
            part = slots[first : first + _STEP]
            other.append(numbers[part], data[part])
        return other

    _unwritten = False  # whether the state is kept back until :meth:`adopt`

    def adopt(self) -> None:
        """Be what the folder holds from now on."""
        self._unwritten = False
        self._write()
        self._clear()

    def _write(self) -> None:
        if self._unwritten:
            return
        partial = os.path.join(self._folder, "standing.part")
        with open(partial, "wb") as file:
            file.write(msgspec.json.encode(self.state))
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, os.path.join(self._folder, "standing.json"))

    def _clear(self) -> None:
        """Remove files of other generations."""
        if not os.path.isdir(self._folder):
            return
        kept = {os.path.basename(self._path(name)) for name in ("unit", "numbers", "codes")}
        for name in os.listdir(self._folder):
            if name not in (*kept, "standing.json", NAME):
                _gone(os.path.join(self._folder, name))


def some(count: int) -> Array:
    """Return some places below ``count``: those at both ends, and some in between."""
    ends = [np.arange(min(_LOOKED_AT, count)), np.arange(max(0, count - _LOOKED_AT), count)]
    return np.unique(np.concatenate([*ends, np.arange(0, count, max(1, count // _LOOKED_AT))]))


def _offset(dimension: int) -> int:
    return -(-dimension * 4 // _ALIGNED) * _ALIGNED


def _put(path: str, offset: int, data: bytes) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for first in _pieces(len(data)):
            os.pwrite(fd, data[first : first + (1 << 24)], offset + first)
        os.fsync(fd)
    finally:
        os.close(fd)


def _pieces(length: int) -> Iterator[int]:
    yield from range(0, length, 1 << 24)


def _gone(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _read(folder: str) -> SpaceFilesState | None:
    try:
        with open(os.path.join(folder, "standing.json"), "rb") as file:
            return msgspec.json.decode(file.read(), type=SpaceFilesState)
    except (OSError, msgspec.MsgspecError):
        return None
