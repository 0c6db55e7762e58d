"""Collections on a real PostgreSQL whose vectors are in a real Milvus, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tabane.milvus.index import MilvusIndex
from tabane.milvus.index_url import parsed
from tabane.postgres.collection import PostgresCollection
from tabane.search.records import Shape
from tests.harness.milvus_server import MilvusServer
from tests.harness.postgres_server import PostgresServer
from tests.postgres.collections import OpenCollection
from tests.postgres.outside import linked


def opening(server: PostgresServer, milvus: MilvusServer) -> OpenCollection:
    """Return a function that opens a collection in the schema of a home."""

    @asynccontextmanager
    async def opened(home: Path, shape: Shape) -> AsyncIterator[PostgresCollection]:
        index = MilvusIndex(parsed(milvus.url()))
        async with linked(server, index, home, shape) as (collection, _):
            yield collection

    return opened
