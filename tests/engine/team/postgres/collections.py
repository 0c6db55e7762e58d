"""Collections on a real PostgreSQL, for tests: each home is a schema of its own."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from tabane.engine.checked_collection import CheckedCollection
from tabane.engine.team.postgres.collection import PostgresCollection
from tabane.engine.team.postgres.database import PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.store import PostgresStore
from tabane.search.records import Shape
from tests.harness.postgres_server import PostgresServer

DatabaseCollection = CheckedCollection[PostgresCollection]
OpenCollection = Callable[[Path, Shape], AbstractAsyncContextManager[DatabaseCollection]]


def schema_of(home: Path) -> str:
    return f"t{hashlib.sha256(str(home).encode()).hexdigest()[:16]}"


def opening(server: PostgresServer, indexed_from: int | None = None) -> OpenCollection:
    """Return a function that opens a collection in the schema of a home."""

    @asynccontextmanager
    async def opened(home: Path, shape: Shape) -> AsyncIterator[DatabaseCollection]:
        database = await PostgresDatabase.open(parsed(server.url(schema_of(home))))
        store = PostgresStore(database, "test", None, indexed_from)
        try:
            yield await store.collection(shape)
        finally:
            await store.close()
            await database.close()

    return opened
