"""Vectors by number, the rows of their records, and a file that keeps these rows between two openings.

The database has the same information, but reading it takes a second for a million vectors. So the rows in
memory are written to a file when a collection is closed, with the number of its last write. The file is used
only if that is still the last write, and if the files of vectors are the same.
"""

from __future__ import annotations

import contextlib
import os
import zlib

import msgspec
import numpy as np

from tabane.engine.embedded.collection_state import SpaceStorage
from tabane.engine.embedded.columns import Array, Mask
from tabane.engine.embedded.vectors.vector_database import VectorDatabase
from tabane.engine.unit_vectors import Matrix, normalised

_STEP = 4096  # vectors


def read_vectors(file: VectorDatabase, storage: SpaceStorage, numbers: Array) -> tuple[Array, Matrix]:
    """Return the vectors that still exist, normalized, and their numbers. ``numbers`` are in order."""
    wanted = set(numbers.tolist())
    between = file.between(storage, int(numbers[0]), int(numbers[-1])) if wanted else ()
    found = [(number, vector) for number, vector in between if number in wanted]
    if not found:
        return np.empty(0, dtype=np.int64), np.empty((0, storage.space.dimension), dtype=np.float32)
    matrix = normalised(b"".join(vector for _, vector in found), storage.space.dimension)
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
FORMAT = 1


class OwnersStamp(msgspec.Struct, frozen=True):
    """Identity of the vectors that rows belong to: birth, generation, count, and CRC of their numbers.

    The rows are those after write number ``changes`` of the collection.
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
