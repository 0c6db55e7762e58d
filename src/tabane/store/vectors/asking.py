"""What is asked of a collection's vectors: the nearest, all similarities, the vectors themselves."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabane.errors import BadArguments, StoreError
from tabane.messages import say
from tabane.search.engine import Combination, Hit, Hits, Similarities, VectorQuery
from tabane.search.filters import Filter
from tabane.search.records import Shape, Stored, checked_vector
from tabane.store import failures
from tabane.store.columns import Array
from tabane.store.masks import Masks
from tabane.store.vectors.codes import normalised
from tabane.store.vectors.searching import Found, Question, Search

if TYPE_CHECKING:
    from tabane.store.table import Table
    from tabane.store.truth import Truth
    from tabane.store.vectors.vectors import Moment, VectorIndex

BLOCK = 20_000  # records of a scan at a time
_MOST_TRIES = 100


def checked(query: VectorQuery, shape: Shape) -> Question:
    """The query, ready to be asked. Raises :class:`BadArguments`."""
    if not query.vectors:
        raise BadArguments(say("a query of vectors has at least one"), "vectors")
    vectors = {}
    for name, vector in query.vectors.items():
        space = shape.space(name)
        vectors[name] = normalised(checked_vector(vector, space), space.dimension)[0]
    weights = {name: float(query.weights.get(name, 1.0)) for name in vectors}
    unknown = query.weights.keys() - vectors.keys()
    average = query.combination is Combination.AVERAGE
    if unknown or not all(map(math.isfinite, weights.values())):
        raise BadArguments(say("weights are finite numbers, for spaces of the query"), "weights")
    if average and (min(weights.values()) < 0 or not sum(weights.values())):
        raise BadArguments(say("weights of an average are at least 0, and not all 0"), "weights")
    return Question(vectors, query.combination, weights, query.threshold)


@dataclass(frozen=True, slots=True)
class _Scan:
    """All that can be compared, as of one moment."""

    search: Search
    rows: Array
    slots: list[Array]


class Asking:
    """The vectors of one table, for readers. Everything asked is checked already."""

    def __init__(self, table: Table, index: VectorIndex) -> None:
        self._table = table
        self._index = index

    @property
    def _truth(self) -> Truth:
        return self._table.truth

    async def nearest(self, asked: Question, where: Filter, limit: int, offset: int) -> Hits:
        def reading(connection: sqlite3.Connection) -> Hits:
            masks, search = self._search(connection, asked, where)
            found = search.best(limit + offset)
            hits = self._hits(connection, found, masks.snapshot.origin)
            exact = found.whole or asked.threshold is None
            return Hits(tuple(hits[offset : offset + limit]), found.compared, exact)

        return await self._table.database.read(reading)

    def _search(self, connection: sqlite3.Connection, asked: Question, where: Filter) -> tuple[Masks, Search]:
        masks, moment = self._moment(connection)
        return masks, Search(asked, moment, masks.mask(where), masks.snapshot.origin)

    def _moment(self, connection: sqlite3.Connection) -> tuple[Masks, Moment]:
        """Records, columns and vectors of one moment: that of the connection's transaction."""
        for _ in range(_MOST_TRIES):
            masks = self._table.masks(connection)
            moment = self._index.moment(masks.snapshot.changes)
            if moment is not None:
                return masks, moment
            # So many writes came in between that it is remembered no more: look again.
            connection.execute("ROLLBACK")
            connection.execute("BEGIN")
        raise failures.busy(self._table.database.path)

    def _hits(self, connection: sqlite3.Connection, found: Found, origin: int) -> list[Hit]:
        rows = (found.places + origin).tolist()
        keys = self._truth.keys_at(connection, rows)
        scored = zip(rows, found.scores.tolist(), strict=True)
        return sorted(
            (Hit(keys[row], row, score) for row, score in scored), key=lambda hit: (-hit.score, hit.key)
        )

    async def scan(self, asked: Question, where: Filter) -> AsyncIterator[Similarities]:
        def begin(connection: sqlite3.Connection) -> _Scan:
            masks, search = self._search(connection, asked, where)
            places, slots = search.places()
            return _Scan(search, places + masks.snapshot.origin, slots)

        scan = await self._table.database.read(begin)
        for first in range(0, len(scan.rows), BLOCK):
            yield await self._table.database.read(
                lambda connection, first=first: self._block(connection, scan, first)  # type: ignore[misc]
            )

    def _block(self, connection: sqlite3.Connection, scan: _Scan, first: int) -> Similarities:
        part = slice(first, first + BLOCK)
        similarities = scan.search.similarities([each[part] for each in scan.slots]).tolist()
        rows = scan.rows[part].tolist()
        keys = self._truth.keys_between(connection, rows[0], rows[-1])
        if any(row not in keys for row in rows):
            there = [(row, score) for row, score in zip(rows, similarities, strict=True) if row in keys]
            rows, similarities = [row for row, _ in there], [score for _, score in there]
        return Similarities([keys[row] for row in rows], rows, similarities)

    async def vectors(self, keys: Sequence[str], space: str) -> list[bytes | None]:
        held = self._index.truth.spaces[space]

        def reading(connection: sqlite3.Connection) -> list[bytes | None]:
            rows = self._truth.rows_of(connection, keys)
            numbers = self._index.truth.numbers(connection, held, rows)
            found = self._index.truth.file.vectors(held, [number for number in numbers if number])
            return [found.get(number) for number in numbers]

        return await self._table.database.read(reading)

    async def lacking(self, space: str, after: int, limit: int) -> list[Stored]:
        held = self._index.truth.spaces[space]

        def reading(connection: sqlite3.Connection) -> list[Stored]:
            rows = self._index.truth.lacking(connection, held, after, limit)
            return [self._truth.stored(connection, row) for row in rows]

        return await self._table.database.read(reading)


def unspaced(shape: Shape) -> StoreError:
    return StoreError(say("{collection} has no vectors", collection=shape.name))
