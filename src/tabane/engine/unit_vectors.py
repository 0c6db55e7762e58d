"""Vectors of length 1, whose products are cosines; pure."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Matrix = NDArray[np.float32]


def normalised(vectors: bytes, dimension: int) -> Matrix:
    """Return the vectors of records, given one after the other, as a matrix of unit vectors."""
    given = np.frombuffer(vectors, dtype="<f4").reshape(-1, dimension).astype(np.float64)
    given /= np.abs(given).max(axis=1, keepdims=True)  # the squares of very small numbers would be 0
    return np.asarray(given / np.sqrt((given * given).sum(axis=1, keepdims=True)), dtype=np.float32)
