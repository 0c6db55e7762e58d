"""Which records have a vector in a space: their number, and the records that lack one."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import numpy as np
from msgspec import structs

from tabane.engine.embedded import failures
from tabane.engine.embedded.collection_state import SpaceStorage
from tabane.engine.embedded.collection_table import CollectionTable
from tabane.engine.embedded.columns import Array, Mask
from tabane.engine.embedded.masks import Masks
from tabane.engine.embedded.read_thread import give_way
from tabane.engine.embedded.vectors.space_index import SpaceSnapshot
from tabane.engine.embedded.vectors.vector_index import Moment, VectorIndex
from tabane.search.filters import Filter
from tabane.search.records import StoredRecord

MOST_TRIES = 100
_LOOKED_UP = 4096  # rows that are read between two pauses for others


def at_one_moment(
    table: CollectionTable, index: VectorIndex, connection: sqlite3.Connection
) -> tuple[Masks, Moment]:
    """Return records, columns and vectors of one moment: that of the connection's transaction.

    The transaction is started again if so many writes came in between that the moment is not in memory
    any more. Raises StoreBusy if that happens again and again.
    """
    for _ in range(MOST_TRIES):
        masks = table.masks(connection)
        moment = index.moment(masks.snapshot.changes)
        if moment is not None:
            return masks, moment
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
    raise failures.busy(table.database.path)


@dataclass(frozen=True, slots=True)
class VectorCoverage:
    """Records without a vector. All arguments are checked already."""

    table: CollectionTable
    index: VectorIndex

    async def embedded(self, space: str, where: Filter) -> int:
        """Count the records that match and have a vector in ``space``."""
        return await self.table.read(
            lambda masks, connection: int(
                np.count_nonzero(masks.mask(where) & self._having(masks, connection, space))
            )
        )

    async def newest(
        self, space: str, where: Filter, field: str | None, skip: int, limit: int
    ) -> list[StoredRecord]:
        """Return records that match and lack a vector, newest first. ``skip`` of them are passed over."""

        def reading(masks: Masks, connection: sqlite3.Connection) -> list[StoredRecord]:
            lacking = masks.mask(where) & ~self._having(masks, connection, space)
            slots = _newest(np.flatnonzero(lacking), _times(masks, field), skip, limit)
            rows = masks.snapshot.rows(slots)
            epoch = self.table.truth.state(connection).epoch
            found = (self.table.truth.stored(connection, row) for row in rows)
            return [structs.replace(each, epoch=epoch) for each in found]

        return await self.table.read(reading, long=True)

    async def lacking(self, space: str, after: int, limit: int, where: Filter) -> list[StoredRecord]:
        def reading(connection: sqlite3.Connection) -> list[StoredRecord]:
            masks, moment = at_one_moment(self.table, self.index, connection)
            storage = self.index.truth.spaces(connection).named(space)
            view = moment.get(storage.space.name)
            meant = masks.mask(where)
            if view is not None and view.whole:
                rows = _without_slots(view, meant, masks.snapshot.origin, after, limit)
            else:
                rows = self._without_vectors(
                    connection, storage, after, limit, set(masks.snapshot.rows(np.flatnonzero(meant)))
                )
            epoch = self.table.truth.state(connection).epoch
            found = (self.table.truth.stored(connection, row) for row in rows)
            return [structs.replace(each, epoch=epoch) for each in found]

        return await self.table.database.read(reading, long=True)

    def _without_vectors(
        self, connection: sqlite3.Connection, storage: SpaceStorage, after: int, limit: int, meant: set[int]
    ) -> list[int]:
        """Return selected rows without a vector, from the truth: derived data is being made."""
        found: list[int] = []
        while len(found) < limit:
            rows = self.index.truth.lacking(connection, storage, after, _LOOKED_UP)
            found += [row for row in rows if row in meant]
            if len(rows) < _LOOKED_UP:
                break
            after = rows[-1]
            give_way(connection)
        return found[:limit]

    def _having(self, masks: Masks, connection: sqlite3.Connection, space: str) -> Mask:
        """Mark the slots of the columns whose records have a vector."""
        snapshot = masks.snapshot
        having = np.zeros(len(snapshot.alive), dtype=np.bool_)
        having[snapshot.slots_at(self._rows(connection, snapshot.changes, space))] = True
        return having

    def _rows(self, connection: sqlite3.Connection, changes: int, space: str) -> Array:
        """Return the rows with a vector: from memory if it holds all of them, else from the table."""
        moment = self.index.moment(changes)
        view = moment.get(space) if moment is not None else None
        if view is not None and view.whole:
            return view.rows
        storage = self.index.truth.spaces(connection).get(space)
        found = [] if storage is None else self.index.truth.places(connection, storage)
        return np.fromiter((row for _, row in found), np.int64, len(found))


def _times(masks: Masks, field: str | None) -> Array | None:
    return None if field is None else masks.snapshot.columns[field].values


def _newest(slots: Array, times: Array | None, skip: int, limit: int) -> Array:
    """Order slots by time, newest first and those without a time last, and return one part of them."""
    latest = slots[::-1]
    if times is not None:
        known = times[latest]
        ages = np.where(np.isnan(known), np.inf, -known)
        if len(ages) > skip + limit:  # sorting a few is cheaper than sorting all
            near = ages <= np.partition(ages, skip + limit)[skip + limit]
            latest, ages = latest[near], ages[near]
        latest = latest[np.argsort(ages, kind="stable")]
    return latest[skip : skip + limit]


def _without_slots(view: SpaceSnapshot, meant: Mask, origin: int, after: int, limit: int) -> list[int]:
    """Return selected rows without a vector, from the slots of a space with one slot for each vector."""
    left = meant.copy()
    places = view.rows - origin
    left[places[(places >= 0) & (places < len(left))]] = False
    left[: max(0, after + 1 - origin)] = False
    found: list[int] = (np.flatnonzero(left)[:limit] + origin).tolist()
    return found
