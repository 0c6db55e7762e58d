"""Collections on a real PostgreSQL whose vectors are in a real Milvus, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tabane.engine.team.milvus_index import MilvusIndex, parse_milvus_url
from tabane.search.records import Shape
from tests.engine.team.postgres.collections import DatabaseCollection, OpenCollection
from tests.engine.team.postgres.outside import CaughtUpCollection, linked
from tests.harness.milvus_server import MilvusServer
from tests.harness.postgres_server import PostgresServer


def opening(server: PostgresServer, milvus: MilvusServer) -> OpenCollection:
    """Return a function that opens a collection in the schema of a home.

    Its index has everything before each search, and its sets are dropped at the end.
    """

    @asynccontextmanager
    async def opened(home: Path, shape: Shape) -> AsyncIterator[DatabaseCollection]:
        index = MilvusIndex(parse_milvus_url(milvus.url("timeout=1&shards=1")))
        async with linked(server, index, home, shape) as (collection, link):
            yield CaughtUpCollection(collection, link)

    return opened
