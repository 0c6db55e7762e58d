"""A real Chroma beside a real PostgreSQL: recall, filters, changes, kills, and files that were lost."""

from __future__ import annotations

import asyncio
import http.client
import json
import struct
from pathlib import Path

import pytest

from tabane.engine.candidate_index import IndexedVector
from tabane.engine.team.chroma.folder import ChromaFolder
from tabane.engine.team.chroma.index import ChromaIndex
from tabane.engine.team.chroma.server import ChromaServer
from tabane.engine.team.chroma.service import ChromaService, parsed
from tabane.search.records import EVERYTHING, Shape
from tests.engine.team.postgres.outside import catch_up, linked
from tests.engine.team.postgres.outside_checks import CountsSearches, check_server, wait_until_used
from tests.engine.team.postgres.test_approximate_index import SHAPE, Crowd, asked
from tests.harness.chroma_server import ChromaProcess
from tests.harness.postgres_server import PostgresServer

pytestmark = pytest.mark.heavy("a real Chroma")


class CountedIndex(CountsSearches, ChromaIndex):
    pass


def counted(url: str, python: str = "") -> CountedIndex:
    address = parsed(url)
    service: ChromaService = ChromaFolder(address, python) if address.folder else ChromaServer(address)
    return CountedIndex(address, service)


async def test_recall_changes_and_a_kill_during_writes(
    postgres: PostgresServer, chroma: ChromaProcess, tmp_path: Path
) -> None:
    crowd, index = Crowd(3000), counted(chroma.url())
    await check_server(postgres, chroma, index, tmp_path, crowd)


async def test_a_server_that_was_emptied_is_filled_again(
    postgres: PostgresServer, chroma: ChromaProcess, tmp_path: Path
) -> None:
    crowd, index = Crowd(300), counted(chroma.url())
    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        await collection.upsert(crowd.records())
        await catch_up(collection, link)
        await asyncio.to_thread(drop_all, chroma)
        assert (await asked(collection, crowd.questions[0], EVERYTHING)).total == 300
        await wait_until_used(collection, index, crowd.questions[0])


def drop_all(chroma: ChromaProcess) -> None:
    collections = "/api/v2/tenants/default_tenant/databases/default_database/collections"
    connection = http.client.HTTPConnection("127.0.0.1", chroma.port, timeout=60)
    connection.request("GET", collections)
    for each in json.load(connection.getresponse()):
        connection.request("DELETE", f"{collections}/{each['name']}")
        connection.getresponse().read()
    connection.close()


def test_a_set_whose_files_are_damaged_has_no_mark(chroma: ChromaProcess) -> None:
    """Chroma can leave such files if it is killed while it writes them."""
    index, shape = counted(chroma.url()), Shape("posts")
    index.version()
    index.reset("damaged_1_0", 1, shape)
    vectors = [IndexedVector(row, struct.pack("<f", row)) for row in range(10_500)]  # more than one writing
    index.put("damaged_1_0", vectors, shape)
    index.advance("damaged_1_0", "mark")
    assert index.mark("damaged_1_0", shape) == "mark"
    chroma.kill()
    max(chroma.folder.glob("data/*/header.bin"), key=lambda path: path.stat().st_mtime).unlink()
    chroma.start()
    assert index.mark("damaged_1_0", shape) is None
    index.reset("damaged_1_0", 1, shape)
    index.put("damaged_1_0", vectors[:10], shape)
    note = index.advance("damaged_1_0", "again")
    assert index.mark("damaged_1_0", shape) == "again"
    assert index.nearest("damaged_1_0", struct.pack("<f", 1), EVERYTHING, shape, 2, note) == [9, 8]
    index.drop("damaged_1_0")
    index.close()
