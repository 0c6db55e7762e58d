"""All similarities in order: the first block is there before the rest is sorted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tabane.store.columns import Array


class SortedSimilarities:
    """Rows by their similarities, highest first, equal ones in order of rows. For one thread at a time."""

    def __init__(self, rows: Array, similarities: Sequence[Array]) -> None:
        self._rows = rows
        self._similarities = np.concatenate(similarities)
        self._rest: Array | None = None

    def block(self, first: int, size: int) -> tuple[Array, Array]:
        """The rows of a block and their similarities. Blocks are asked for in order, the first one at 0."""
        if first == 0:
            places = self._nearest(size)
        else:
            if self._rest is None:
                self._rest = np.argsort(-self._similarities, kind="stable")
            places = self._rest[first : first + size]
        return self._rows[places], self._similarities[places]

    def _nearest(self, size: int) -> Array:
        """The first places, without sorting what is behind them."""
        distances = -self._similarities
        near = np.arange(len(distances))
        if len(distances) > size:
            near = np.flatnonzero(distances <= np.partition(distances, size - 1)[size - 1])
        return near[np.argsort(distances[near], kind="stable")][:size]
