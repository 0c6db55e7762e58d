"""A real Chroma beside a real PostgreSQL: recall, filters, changes, kills, and files that were lost."""

from __future__ import annotations

import asyncio
import http.client
import json
import struct
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tabane.chroma.folder import ChromaFolder
from tabane.chroma.index import ChromaIndex
from tabane.chroma.index_url import parsed
from tabane.chroma.server import ChromaServer
from tabane.chroma.service import ChromaService
from tabane.engines.candidate_index import IndexedVector, SparseVector
from tabane.postgres.collection import PostgresCollection
from tabane.postgres.index_link import IndexLink, LinkState
from tabane.search.filters import EVERYTHING, Filter
from tabane.search.records import Shape
from tests.harness.chroma_server import ChromaProcess
from tests.harness.postgres_server import PostgresServer
from tests.postgres.outside import catch_up, linked
from tests.postgres.outside_checks import (
    check_changes,
    check_recall,
    check_written,
    exact_hits,
    wait_until_used,
    write_during_kill,
)
from tests.postgres.test_approximate_index import SHAPE, Crowd, asked

Work = Callable[[PostgresCollection, IndexLink], Awaitable[None]]


class CountedIndex(ChromaIndex):
    """Counts the searches that were answered."""

    answered = 0

    def nearest(
        self,
        name: str,
        vector: bytes | SparseVector,
        where: Filter,
        shape: Shape,
        most: int,
        note: str,
    ) -> Sequence[int]:
        found = super().nearest(name, vector, where, shape, most, note)
        self.answered += 1
        return found


def counted(url: str, python: str = "") -> CountedIndex:
    address = parsed(url)
    service: ChromaService = ChromaFolder(address, python) if address.folder else ChromaServer(address)
    return CountedIndex(address, service)


def run(server: PostgresServer, index: ChromaIndex, home: Path, work: Work) -> None:
    async def inside() -> None:
        async with linked(server, index, home, SHAPE) as (collection, link):
            await work(collection, link)

    asyncio.run(inside())


def test_recall_changes_and_a_kill_during_writes(
    postgres: PostgresServer, chroma: ChromaProcess, tmp_path: Path
) -> None:
    crowd, index = Crowd(3000), counted(chroma.url())

    async def work(collection: PostgresCollection, link: IndexLink) -> None:
        await catch_up(collection, link)
        await check_recall(collection, crowd, exact)
        assert index.answered >= 3 * len(crowd.questions)
        await check_changes(collection, crowd)
        await catch_up(collection, link)
        count = await write_during_kill(collection, crowd, chroma.kill)
        await check_written(collection, crowd, (0, 20, count - 1))
        assert link.state is LinkState.AWAY
        await asyncio.to_thread(chroma.start)
        await catch_up(collection, link)
        await wait_until_used(collection, index, crowd.questions[0])
        await check_written(collection, crowd, range(0, count, 7))

    exact = asyncio.run(exact_hits(postgres, tmp_path, crowd))
    run(postgres, index, tmp_path, work)


def test_a_server_that_was_emptied_is_filled_again(
    postgres: PostgresServer, chroma: ChromaProcess, tmp_path: Path
) -> None:
    crowd, index = Crowd(300), counted(chroma.url())

    async def work(collection: PostgresCollection, link: IndexLink) -> None:
        await collection.upsert(crowd.records())
        await catch_up(collection, link)
        await asyncio.to_thread(drop_all, chroma)
        assert (await asked(collection, crowd.questions[0], EVERYTHING)).total == 300
        await wait_until_used(collection, index, crowd.questions[0])

    run(postgres, index, tmp_path, work)


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
