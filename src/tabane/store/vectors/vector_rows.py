"""Vectors by number, the rows of their records, and a file that keeps these rows until the next opening.

The database has the same information, vector by vector: reading it takes a second for a million. So the rows
in memory are written to a file when a collection is closed, with the number of its last write. The file is
used only if that is still the last write, for exactly these files of vectors.
"""

from __future__ import annotations

import contextlib
import os
import zlib

import msgspec
import numpy as np

from tabane.store.collection_state import SpaceStorage
from tabane.store.columns import Array, Mask
from tabane.store.vectors.binary_codes import Matrix, normalised
from tabane.store.vectors.vector_database import VectorDatabase

_STEP = 4096  # vectors


def read_vectors(file: VectorDatabase, storage: SpaceStorage, numbers: Array) -> tuple[Array, Matrix]:
    """Return those of the vectors that there are still, each of length 1; ``numbers`` are in order."""
    wanted = set(numbers.tolist())
    between = file.between(storage, int(numbers[0]), int(numbers[-1])) if wanted else ()
    found = [(number, vector) for number, vector in between if number in wanted]
    if not found:
        return np.empty(0, dtype=np.int64), np.empty((0, storage.space.dimension), dtype=np.float32)
    matrix = normalised(b"".join(vector for _, vector in found), storage.space.dimension)
    return np.array([number for number, _ in found], dtype=np.int64), matrix


def slots_of_numbers(numbers: Array, wanted: Array) -> tuple[Array, Mask]:
    """Return where each number is among those in order, and whether it is."""
    slots = np.searchsorted(numbers, wanted)
    there = slots < len(numbers)
    there[there] = numbers[slots[there]] == wanted[there]
    return slots, there


def rows_of(numbers: Array, known: Array) -> Array:
    """The rows of vectors by number, 0 for those that no record has. ``known``: number and row, in order."""
    rows = np.zeros(len(numbers), dtype=np.int64)
    slots, there = slots_of_numbers(known[:, 0], numbers)
    rows[there] = known[slots[there], 1]
    return rows


NAME = "rows"
FORMAT = 1


class OwnersStamp(msgspec.Struct, frozen=True):
    """What rows are of: the files of a space by birth, generation, count and CRC of their numbers, after
    write number ``changes`` of the collection.
    """

    birth: int
    generation: int
    count: int
    numbers: int
    changes: int
    format: int = FORMAT


class _OwnersHeader(msgspec.Struct, frozen=True):
    mark: OwnersStamp
    check: int


def write(folder: str, mark: OwnersStamp, rows: Array) -> None:
    """Put the file in place whole. Raises OSError."""
    raw = rows.astype(np.int64, copy=False).tobytes()
    partial = os.path.join(folder, NAME + ".part")
    with open(partial, "wb") as file:
        file.write(msgspec.json.encode(_OwnersHeader(mark, zlib.crc32(raw))) + b"\n")
        file.write(raw)
    os.replace(partial, os.path.join(folder, NAME))


def read(folder: str, mark: OwnersStamp) -> Array | None:
    """The rows of the vectors in order; None if they are another moment's or torn: these are deleted."""
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
