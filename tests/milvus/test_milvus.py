"""A real Milvus beside a real PostgreSQL: recall, filters, changes, servers and hubs that are killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from pymilvus import MilvusClient

from tabane.engines.candidate_index import SparseVector
from tabane.milvus.index import MilvusIndex
from tabane.milvus.index_url import parsed
from tabane.postgres.collection import PostgresCollection
from tabane.postgres.index_link import IndexLink, LinkState
from tabane.search.filters import EVERYTHING, Filter
from tabane.search.records import Shape
from tests.harness.milvus_server import MilvusServer
from tests.harness.postgres_server import PostgresServer
from tests.postgres.collections import schema_of
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
from tests.postgres.writing import SHAPE as WRITTEN
from tests.postgres.writing import check_whole

Work = Callable[[PostgresCollection, IndexLink], Awaitable[None]]


def run(server: PostgresServer, index: MilvusIndex, home: Path, work: Work) -> None:
    async def inside() -> None:
        async with linked(server, index, home, SHAPE) as (collection, link):
            await work(collection, link)

    asyncio.run(inside())


class CountedIndex(MilvusIndex):
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


def test_recall_changes_and_a_kill_during_writes(
    postgres: PostgresServer, milvus: MilvusServer, tmp_path: Path
) -> None:
    """One collection for all of it, because it takes a server seconds to create one."""
    crowd, index = Crowd(6000), CountedIndex(parsed(milvus.url()))

    async def work(collection: PostgresCollection, link: IndexLink) -> None:
        await catch_up(collection, link)
        await check_recall(collection, crowd, exact)
        assert index.answered >= 3 * len(crowd.questions)
        await check_changes(collection, crowd)
        await catch_up(collection, link)
        count = await write_during_kill(collection, crowd, milvus.kill)
        await check_written(collection, crowd, (0, 20, count - 1))
        assert link.state is LinkState.AWAY
        await asyncio.to_thread(milvus.start)
        await catch_up(collection, link)
        await wait_until_used(collection, index, crowd.questions[0])
        await check_written(collection, crowd, range(0, count, 7))

    exact = asyncio.run(exact_hits(postgres, tmp_path, crowd))
    run(postgres, index, tmp_path, work)


async def test_what_a_killed_hub_had_acknowledged_is_found_and_indexed(
    postgres: PostgresServer, milvus: MilvusServer, tmp_path: Path
) -> None:
    url = postgres.url(schema_of(tmp_path))
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.milvus.child", url, milvus.url()], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    acknowledged = [child.stdout.readline().strip() for _ in range(150)]
    child.send_signal(signal.SIGKILL)
    rest, _ = child.communicate()
    acknowledged += [line.strip() for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    index = MilvusIndex(parsed(milvus.url()))
    async with linked(postgres, index, tmp_path, WRITTEN) as (collection, link):
        await check_whole(collection, acknowledged)
        await catch_up(collection, link)
        await check_whole(collection, acknowledged)


def test_a_set_that_was_dropped_is_filled_again(
    postgres: PostgresServer, milvus: MilvusServer, tmp_path: Path
) -> None:
    crowd, index = Crowd(300), CountedIndex(parsed(milvus.url()))

    async def fill(collection: PostgresCollection, link: IndexLink) -> None:
        await collection.upsert(crowd.records())
        await catch_up(collection, link)
        mark = (await collection.feed.join(link.follower)).mark
        client = MilvusClient(uri=f"http://127.0.0.1:{milvus.port}")
        [name] = [
            each
            for each in await asyncio.to_thread(client.list_collections)
            if index.mark(each.removeprefix("tabane_"), SHAPE) == mark
        ]
        await asyncio.to_thread(client.drop_collection, name)
        client.close()

    async def look(collection: PostgresCollection, link: IndexLink) -> None:
        await wait_until_used(collection, index, crowd.questions[0])
        assert (await asked(collection, crowd.questions[0], EVERYTHING)).total == 300

    run(postgres, index, tmp_path, fill)
    run(postgres, index, tmp_path, look)
