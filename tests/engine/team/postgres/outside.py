"""Collections on a real PostgreSQL with an index outside of it, and such an index in memory, for tests."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tabane.engine.candidate_index import CandidateIndex, IndexedVector
from tabane.engine.team.postgres.database import IndexTurn, PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.index_follower import IndexFilling
from tabane.engine.team.postgres.outside_index import IndexLink
from tabane.engine.team.postgres.store import PostgresStore
from tabane.engine.vector_request import checked_request
from tabane.errors import StoreError
from tabane.messages import say
from tabane.search.engine import EngineHits, VectorQuery
from tabane.search.records import EVERYTHING, Filter, Record, Shape, matches
from tests.engine.team.postgres.collections import DatabaseCollection, OpenCollection, schema_of
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer


@dataclass
class MemorySet:
    """The vectors of a set, and its mark."""

    vectors: dict[int, IndexedVector] = field(default_factory=dict)
    mark: str | None = None


class MemoryIndex:
    """An index in memory. ``away``: it fails. ``blunt``: it does not look at filters."""

    place = "memory://index"
    slowest = 0.0
    most = 5000

    def __init__(self, *, blunt: bool = False) -> None:
        self.sets: dict[str, MemorySet] = {}
        self.away, self.blunt = False, blunt
        self.searches = 0
        self._gate = threading.Lock()

    def version(self) -> str:
        self._check()
        return "Memory 1"

    def mark(self, name: str, shape: Shape) -> str | None:
        self._check()
        return self.sets[name].mark if name in self.sets else None

    def reset(self, name: str, dimension: int, shape: Shape) -> None:
        self._check()
        self.sets[name] = MemorySet()

    def put(self, name: str, vectors: Sequence[IndexedVector], shape: Shape) -> None:
        self._check()
        with self._gate:
            self._set(name).vectors |= {each.row: each for each in vectors}

    def remove(self, name: str, rows: Sequence[int]) -> None:
        self._check()
        with self._gate:
            for row in rows:
                self._set(name).vectors.pop(row, None)

    def advance(self, name: str, mark: str, *, complete: bool) -> str:
        self._check()
        self._set(name).mark = mark
        return mark

    def narrows(self, where: Filter, shape: Shape) -> bool:
        return not self.blunt

    def nearest(
        self, name: str, vector: bytes, where: Filter, shape: Shape, most: int, note: str
    ) -> Sequence[int]:
        self._check()
        self.searches += 1
        with self._gate:
            found = list(self._set(name).vectors.values())
        if where != EVERYTHING and not self.blunt:
            found = [each for each in found if matches(where, Record(key="k", fields=dict(each.fields)))]
        return _nearest(vector, found)[:most]

    def drop(self, name: str) -> None:
        self._check()
        self.sets.pop(name, None)

    def close(self) -> None:
        pass

    def _set(self, name: str) -> MemorySet:
        if name not in self.sets:
            raise StoreError(say("{place} is away", place=name))
        return self.sets[name]

    def _check(self) -> None:
        if self.away:
            raise StoreError(say("{place} is away", place=self.place))


def _nearest(vector: bytes, found: Sequence[IndexedVector]) -> list[int]:
    """Return the rows, those with the largest product first."""
    asked = np.frombuffer(vector, "<f4").astype(np.float64)
    packed = b"".join(each.vector for each in found)
    products = (np.frombuffer(packed, "<f4").reshape(-1, len(asked)) * asked).sum(axis=1)
    return [found[place].row for place in np.argsort(-products, kind="stable").tolist()]


@asynccontextmanager
async def linked(
    server: PostgresServer, index: CandidateIndex, home: Path, shape: Shape, least: int = 1
) -> AsyncIterator[tuple[DatabaseCollection, IndexLink]]:
    """Yield a collection in the schema of a home, and the link to its index."""
    database = await PostgresDatabase.open(parsed(server.url(schema_of(home))))
    link = IndexLink(index, least)
    turn = IndexTurn(database, link.follower)
    store = PostgresStore(database, "test", None, filling=IndexFilling(link, turn))
    try:
        yield await store.collection(shape), link
    finally:
        await store.close()
        await turn.close()
        await link.close()
        await database.close()


class CaughtUpCollection(DatabaseCollection):
    """The same collection, whose index has everything before each search by vectors."""

    def __init__(self, of: DatabaseCollection, link: IndexLink) -> None:
        self.__dict__.update(of.__dict__)
        self._link = link

    async def nearest(self, query: VectorQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        checked_request(query, self.shape)
        await catch_up(self, self._link, every=0.1)
        return await super().nearest(query, where, limit, offset)


def opening_outside(server: PostgresServer) -> OpenCollection:
    """Return a function that opens a collection in the schema of a home, with an index in memory."""
    indexes: dict[Path, MemoryIndex] = {}

    @asynccontextmanager
    async def opened(home: Path, shape: Shape) -> AsyncIterator[DatabaseCollection]:
        index = indexes.setdefault(home, MemoryIndex())
        async with linked(server, index, home, shape) as (collection, _):
            yield collection

    return opened


async def catch_up(collection: DatabaseCollection, link: IndexLink, every: float = 0.01) -> None:
    await until(
        lambda: collection.engine.feed.is_current(link.follower), "the index has everything", every=every
    )
