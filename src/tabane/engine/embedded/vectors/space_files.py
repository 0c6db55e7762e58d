"""Files derived from the vectors of one space: their binary codes, and the rows of their records.

Codes are appended. :class:`CodeState` is written after them, so it never claims more than the files hold.
Files that do not fit together, or to the vectors, are made again.

The rows of all vectors, in order of these, between two openings: the database has the same information, but
reading it takes a second for a million vectors. So the rows in memory are written to a file when a collection
is closed, with the number of its last write. The file is used only if that is still the last write.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import zlib

import msgspec
import numpy as np

from tabane.engine.embedded.columns import Array
from tabane.engine.embedded.vectors.vector_kernel import (
    BinaryCodes,
    are_units,
    encoded,
    mean_of,
    units_of,
    width,
)
from tabane.engine.vector_request import Matrix

NAME = "rows"
_ROWS_FORMAT = 2


class OwnersStamp(msgspec.Struct, frozen=True):
    """Identity of the vectors that rows belong to: birth and generation of their file, and their count.

    The rows are those after write number ``changes`` of the collection.
    """

    birth: int
    generation: int
    count: int
    changes: int
    format: int = _ROWS_FORMAT


class _OwnersHeader(msgspec.Struct, frozen=True):
    mark: OwnersStamp
    check: int


def write(folder: str, mark: OwnersStamp, rows: Array) -> None:
    """Write the file atomically. Raises OSError."""
    raw = rows.astype(np.int64, copy=False).tobytes()
    os.makedirs(folder, mode=0o700, exist_ok=True)
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


FORMAT = 3
CODED = 4096  # vectors from which on codes are worth it
_CODED_DIMENSION = 64  # and dimensions: too few bits tell too little
_STEP = 512
_LOOKED_AT = 32  # vectors at an end
_ALIGNED = 4096  # bytes of a page: what stands behind the mean begins at one


class CodeState(msgspec.Struct, frozen=True):
    """The first ``count`` vectors were looked at, of that generation of the space born as ``birth``.

    ``codes`` numbers the file of their codes, 0 for none; it has room for ``capacity`` vectors, and its mean
    was taken over ``meant`` of them. The last append began at slot ``last``: what was written before it was
    on the disk before it. ``units``: all vectors with codes have length 1.
    """

    birth: int
    dimension: int
    generation: int
    format: int = FORMAT
    count: int = 0
    codes: int = 0
    capacity: int = 0
    meant: int = 0
    last: int = 0
    units: bool = True


class CodeFiles:
    """The codes of one space, for one thread at a time; what is mapped may be read by any."""

    def __init__(self, folder: str, state: CodeState) -> None:
        self._folder = folder
        self.state = state

    @classmethod
    def open(cls, folder: str, afresh: CodeState, data: Matrix, *, after_crash: bool = False) -> CodeFiles:
        """Return the contents of the folder; nothing if damaged or not of these vectors. Raises OSError.

        ``after_crash``: the last process died, so everything that its last append wrote is checked.
        """
        state = _read(folder)
        found = cls(folder, afresh if state is None else state)
        if not found._fits(afresh, data, after_crash=after_crash):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(folder)
            return cls(folder, afresh)
        found.clear()
        return found

    def _fits(self, afresh: CodeState, data: Matrix, *, after_crash: bool) -> bool:
        """Return whether codes of the same vectors are theirs. Not all are looked at."""
        state = self.state
        same = ("birth", "dimension", "generation", "format")
        if any(getattr(state, name) != getattr(afresh, name) for name in same) or state.count > len(data):
            return False
        codes, places = self.codes(), some(state.count)
        if codes is None:
            return not state.capacity
        sample = np.array_equal(encoded(units_of(data[places]), codes.mean), codes.words[:, places])
        return sample and (not after_crash or self._agree(codes, data, state.last))

    def agree(self, data: Matrix) -> bool:
        """Return whether all codes are those of their vectors. Reads all."""
        codes = self.codes()
        return codes is None or self._agree(codes, data, 0)

    def _agree(self, codes: BinaryCodes, data: Matrix, first: int) -> bool:
        parts = (slice(at, min(at + _STEP, self.state.count)) for at in range(first, self.state.count, _STEP))
        return all(
            np.array_equal(encoded(units_of(data[part]), codes.mean), codes.words[:, part])
            and (not codes.units or are_units(data[part]))
            for part in parts
        )

    def _path(self, state: CodeState) -> str:
        return os.path.join(self._folder, f"codes-{state.generation}-{state.codes}")

    def codes(self) -> BinaryCodes | None:
        """Return the codes, mapped; None if there are none, or none that can be used."""
        state = self.state
        if not state.capacity:
            return None
        try:
            mean = np.fromfile(self._path(state), dtype=np.float32, count=state.dimension)
            words = np.asarray(self._words(state, "r")[:, : state.count])
            return BinaryCodes(mean, words, state.units)
        except (OSError, ValueError):
            return None

    def _words(self, state: CodeState, mode: str) -> np.memmap[tuple[int, int], np.dtype[np.uint64]]:
        shape = (width(state.dimension), state.capacity)
        return np.memmap(self._path(state), np.uint64, mode, _offset(state.dimension), shape)  # type: ignore[call-overload,no-any-return]

    def append(self, data: Matrix) -> None:
        """Take in the vectors behind those that were looked at. ``data`` has all. Raises OSError."""
        state, following = self.state, len(data)
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        if following < CODED or state.dimension < _CODED_DIMENSION:
            self.state = msgspec.structs.replace(state, count=following, last=state.count)
        elif following <= state.capacity and following < 4 * state.meant:
            mean = np.fromfile(self._path(state), dtype=np.float32, count=state.dimension)
            units = self._encode(state, mean, data, state.count)
            self.state = msgspec.structs.replace(
                state, count=following, last=state.count, units=state.units and units
            )
        else:
            self._recode(data)
        self.keep()

    def _recode(self, data: Matrix) -> None:
        """Codes in a file of their own, with room for more; with a new mean if there are many more."""
        old, codes = self.state, self.codes()
        kept = 0 if codes is None or len(data) >= 4 * old.meant else old.count
        mean = codes.mean if codes is not None and kept else mean_of(data)
        state = msgspec.structs.replace(
            old,
            count=len(data),
            codes=old.codes + 1,
            capacity=len(data) + len(data) // 4 + CODED,
            meant=old.meant if kept else len(data),
            last=old.count,
        )
        self._make(state, mean)
        if codes is not None and kept:
            self._words(state, "r+")[:, :kept] = codes.words
        units = self._encode(state, mean, data, kept)
        self.state = msgspec.structs.replace(state, units=units and (old.units or not kept))
        if old.codes:
            _gone(self._path(old))

    def _make(self, state: CodeState, mean: Matrix) -> None:
        with open(self._path(state), "wb") as file:
            file.write(mean.tobytes())
            file.truncate(_offset(state.dimension) + 8 * width(state.dimension) * state.capacity)

    def _encode(self, state: CodeState, mean: Matrix, data: Matrix, first: int) -> bool:
        """Write the codes from slot ``first`` on. Return whether these vectors have length 1."""
        words, units = self._words(state, "r+"), True
        for at in range(first, len(data), _STEP):
            part = data[at : at + _STEP]
            words[:, at : at + len(part)] = encoded(units_of(part), mean)
            units = units and are_units(part)
        words.flush()
        return units

    def dense(self, slots: Array, generation: int) -> CodeFiles:
        """Return the codes of some of the vectors, for a new generation. It is kept by :meth:`keep`.

        Raises OSError.
        """
        codes = self.codes()
        state = CodeState(self.state.birth, self.state.dimension, generation)
        count = int(np.searchsorted(slots, self.state.count))  # those behind are taken in later
        if codes is not None and count >= CODED:
            capacity = count + count // 4 + CODED
            state = msgspec.structs.replace(
                state, count=count, codes=1, capacity=capacity, meant=count, last=count, units=codes.units
            )
            self._make(state, codes.mean)
            words = self._words(state, "r+")
            for number in range(len(words)):
                words[number, :count] = codes.words[number][slots[:count]]
            words.flush()
        return CodeFiles(self._folder, state)

    def keep(self) -> None:
        """Be what the folder holds from now on. Raises OSError."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        partial = os.path.join(self._folder, "standing.part")
        with open(partial, "wb") as file:
            file.write(msgspec.json.encode(self.state))
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, os.path.join(self._folder, "standing.json"))

    def clear(self) -> None:
        """Remove other files. Raises OSError."""
        if os.path.isdir(self._folder):
            kept = {os.path.basename(self._path(self.state)), "standing.json", NAME}
            for name in set(os.listdir(self._folder)) - kept:
                _gone(os.path.join(self._folder, name))

    def remove(self) -> None:
        """Delete all of it. What is mapped stays readable. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._folder)

    def owners(self, count: int, changes: int) -> Array | None:
        """Return the rows of so many vectors, if they were kept after that very write."""
        return read(self._folder, OwnersStamp(self.state.birth, self.state.generation, count, changes))

    def keep_owners(self, rows: Array, changes: int) -> None:
        """Keep the rows of the vectors until the next opening. Raises OSError."""
        if len(rows):
            mark = OwnersStamp(self.state.birth, self.state.generation, len(rows), changes)
            write(self._folder, mark, rows)


def some(count: int) -> Array:
    """Return some places below ``count``: those at both ends, and some in between."""
    ends = [np.arange(min(_LOOKED_AT, count)), np.arange(max(0, count - _LOOKED_AT), count)]
    return np.unique(np.concatenate([*ends, np.arange(0, count, max(1, count // _LOOKED_AT))]))


def _offset(dimension: int) -> int:
    return -(-dimension * 4 // _ALIGNED) * _ALIGNED


def _gone(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _read(folder: str) -> CodeState | None:
    try:
        with open(os.path.join(folder, "standing.json"), "rb") as file:
            return msgspec.json.decode(file.read(), type=CodeState)
    except (OSError, msgspec.MsgspecError):
        return None
