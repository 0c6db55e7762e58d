"""What columns tell of many records at once: see :class:`tabane.search.engine.Counts`."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence

import numpy as np

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search import filters
from tabane.search.engine import Listed, Order
from tabane.search.filters import Filter
from tabane.search.records import Kind, Scalar, Shape
from tabane.store.collection_table import CollectionTable
from tabane.store.columns import Array, Mask
from tabane.store.counts import MOST_BEST, CountCache
from tabane.store.masks import Masks, costly
from tabane.store.numbers import NumericKeys

MOST_BOUNDS = 100_000
LISTED = 20_000
"""Keys of a block."""


class CollectionCounts:
    """The counts of one table, for a collection to have."""

    def __init__(self, table: CollectionTable) -> None:
        self.table = table
        self._keys = NumericKeys(table.truth)
        self._tallies = CountCache()

    @property
    def shape(self) -> Shape:
        return self.table.shape

    @property
    def changes(self) -> int:
        return self.table.columns.snapshot().changes

    async def tally(self, field: str, where: Filter) -> dict[Scalar, int]:
        self._check(field, self.shape.field(field).kind.textual, "tally")
        meant = filters.checked(where, self.shape)
        return await self.table.read(lambda masks, _: self._tallies.tally(masks, field, meant), long=True)

    async def count(self, where: Filter) -> int:
        meant = filters.checked(where, self.shape)
        return await self.table.read(lambda masks, _: self._tallies.count(masks, meant), long=costly(meant))

    async def histogram(self, field: str, bounds: Sequence[float], where: Filter) -> list[int]:
        if not 2 <= len(bounds) <= MOST_BOUNDS:
            message = say("{field} is {least} to {most}", field="bounds", least=2, most=MOST_BOUNDS)
            raise BadArguments(message, "bounds")
        self._check(field, self.shape.field(field).kind.numeric, "histogram")
        meant = filters.checked(where, self.shape)
        return await self.table.read(lambda masks, _: masks.histogram(field, bounds, meant), long=True)

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]:
        self._check(field, self.shape.field(field).kind is Kind.STRING, "firsts")
        self._check(order.field, self.shape.field(order.field).kind.numeric, "order")
        meant = filters.checked(where, self.shape)

        def reading(masks: Masks, connection: sqlite3.Connection) -> dict[Scalar, str]:
            found = masks.firsts(field, order, meant)
            keys = self.table.truth.keys_at(connection, [row for rows in found.values() for row in rows])
            return {value: min(keys[row] for row in rows) for value, rows in found.items()}

        return await self.table.read(reading, long=True)

    async def listing(self, order: Order, where: Filter) -> AsyncIterator[Listed]:
        self._check(order.field, self.shape.field(order.field).kind.numeric, "order")
        meant = filters.checked(where, self.shape)

        def reading(masks: Masks, connection: sqlite3.Connection) -> Array:
            self._keys.read_on(connection, masks.snapshot.origin + len(masks.snapshot.alive))
            return masks.arranged(order, meant)

        rows = await self.table.read(reading, long=True)
        for first in range(0, len(rows), LISTED):
            yield Listed(await self._named(rows[first : first + LISTED]), len(rows))

    async def _named(self, rows: Array) -> list[str]:
        """The keys of rows; of those that are still there, where keys are no numbers."""
        keys = self._keys.of(rows)
        if keys is not None:
            return keys
        wanted = rows.tolist()
        found = await self.table.database.read(
            lambda connection: self.table.truth.keys_at(connection, wanted), long=True
        )
        return [found[row] for row in wanted if row in found]

    def _first(self, masks: Masks, where: Filter, order: tuple[Order, ...], most: int) -> Mask:
        """Which slots may be among the first ``most`` of what matches: by what is kept, where that tells."""
        if len(order) != 1 or most > MOST_BEST or not self.shape.field(order[0].field).kind.numeric:
            return masks.mask(where)
        bound = self._tallies.bound(masks, order[0], where, most)  # infinite where texts are asked too
        if bound == np.inf:
            return masks.mask(where)
        snapshot = masks.snapshot
        values = snapshot.columns[order[0].field].values
        mask = snapshot.alive & (values >= -bound if order[0].descending else values <= bound)
        near = np.flatnonzero(mask)
        mask[near] = masks.over(snapshot.only(near)).mask(where)
        return mask

    def _check(self, field: str, fits: bool, what: str) -> None:
        if not fits:
            kind = self.shape.field(field).kind.value
            message = say("{field} is of kind {kind}, which has no {what}", field=field, kind=kind, what=what)
            raise BadArguments(message, field)
