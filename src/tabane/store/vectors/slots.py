"""Vectors by their numbers: read from the truth, found among slots, given the rows of their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tabane.store.columns import Array, Mask
from tabane.store.vectors.binary_codes import Matrix, normalised
from tabane.store.vectors.vector_database import SpaceStorage, VectorDatabase

if TYPE_CHECKING:
    from tabane.store.vectors.space_index import SpaceSnapshot

_STEP = 4096  # vectors


def read(file: VectorDatabase, held: SpaceStorage, numbers: Array) -> tuple[Array, Matrix]:
    """Those of the vectors that there are still, each of length 1; ``numbers`` are in order."""
    wanted = set(numbers.tolist())
    between = file.between(held, int(numbers[0]), int(numbers[-1])) if wanted else ()
    found = [(number, vector) for number, vector in between if number in wanted]
    if not found:
        return np.empty(0, dtype=np.int64), np.empty((0, held.space.dimension), dtype=np.float32)
    matrix = normalised(b"".join(vector for _, vector in found), held.space.dimension)
    return np.array([number for number, _ in found], dtype=np.int64), matrix


def found(numbers: Array, wanted: Array) -> tuple[Array, Mask]:
    """Where each number is among those in order, and whether it is."""
    slots = np.searchsorted(numbers, wanted)
    there = slots < len(numbers)
    there[there] = numbers[slots[there]] == wanted[there]
    return slots, there


def rows_of(numbers: Array, known: Array) -> Array:
    """The rows of vectors by number, 0 for those that no record has. ``known``: number and row, in order."""
    rows = np.zeros(len(numbers), dtype=np.int64)
    slots, there = found(known[:, 0], numbers)
    rows[there] = known[slots[there], 1]
    return rows


def agree(
    view: SpaceSnapshot, numbers: Array, file: VectorDatabase, held: SpaceStorage, wanted: list[int]
) -> bool:
    """Whether a moment of a space holds these vectors as the truth has them. Reads all.

    ``numbers`` says which vector is in each slot; one that was deleted meanwhile does not matter.
    """
    for first in range(0, len(wanted), _STEP):
        some, expected = read(file, held, np.array(wanted[first : first + _STEP], dtype=np.int64))
        slots, there = found(numbers, some)
        if not there.all() or not np.array_equal(view.vectors(slots), expected):
            return False
    return True
