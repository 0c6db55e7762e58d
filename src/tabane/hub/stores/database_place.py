"""A database as the place of a migration. Imported when one is named: its driver is an extra."""

from __future__ import annotations

from collections.abc import Callable

from tabane.engine.collection_copying import CopySource, CopyTarget
from tabane.engine.team.postgres.collection_copies import (
    PostgresSource,
    PostgresTarget,
    begin_copies,
    forget_copies,
    has_copies,
)
from tabane.hub.stores.domain_stores import MARK
from tabane.hub.stores.postgres_engine import PostgresEngine
from tabane.search.engine import Collection
from tabane.search.records import Shape


class DatabasePlace:
    """A PostgreSQL database."""

    def __init__(self, name: str, engine: PostgresEngine) -> None:
        self.name = name
        self._engine = engine

    async def source(self, domain: str, shape: Shape) -> CopySource:
        """Return a collection to copy from. Raises StoreError."""
        store = await self._engine.store(domain)
        return PostgresSource(store, await store.tables(shape))

    async def target(self, domain: str, shape: Shape) -> CopyTarget:
        """Return a collection to copy to. Raises StoreError."""
        store = await self._engine.store(domain)
        return PostgresTarget(store, await store.tables(shape))

    async def is_begun(self) -> bool:
        """Return whether a migration to this database began and has not ended."""
        store = await self._engine.store(MARK)
        return await store.database.read(has_copies)

    async def begin(self) -> None:
        """Mark the database. It has no records."""
        store = await self._engine.store(MARK)
        await store.write(begin_copies)

    async def end(self) -> None:
        """Remove the mark: the migration is complete."""
        store = await self._engine.store(MARK)
        await store.write(forget_copies)

    async def collection(self, domain: str, shape: Shape, told: Callable[[int, int], None]) -> Collection:
        """Return a collection as the hub uses it."""
        return await (await self._engine.store(domain)).collection(shape)

    async def release(self) -> None:
        """Close the database. A second call does nothing."""
        await self._engine.close()
