"""A real Milvus beside a real PostgreSQL: recall, filters, changes, servers and hubs that are killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from pymilvus import MilvusClient

from tabane.milvus.index import MilvusIndex
from tabane.milvus.index_url import parsed
from tabane.postgres.collection import PostgresCollection
from tabane.postgres.index_link import IndexLink, LinkState
from tabane.search.engine import EngineHits
from tabane.search.filters import EVERYTHING, Filter, Range
from tabane.search.records import Record, Shape
from tests.harness.milvus_server import MilvusServer
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer
from tests.postgres.collections import opening, schema_of
from tests.postgres.outside import catch_up, linked
from tests.postgres.test_approximate_index import FILTERS, SHAPE, Crowd, asked
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
        self, name: str, vector: bytes, where: Filter, shape: Shape, most: int, note: str
    ) -> Sequence[int]:
        found = super().nearest(name, vector, where, shape, most, note)
        self.answered += 1
        return found


FILTERED = {**FILTERS, "most": Range("likes", 900, None)}


async def exact_hits(server: PostgresServer, home: Path, crowd: Crowd) -> dict[str, list[EngineHits]]:
    """Store the crowd, and return the hits of each question under each filter, without an index."""
    async with opening(server)(home, SHAPE) as collection:
        await collection.upsert(crowd.records())
        return {
            name: [await asked(collection, each, where) for each in crowd.questions]
            for name, where in FILTERED.items()
        }


async def check_recall(
    collection: PostgresCollection, crowd: Crowd, exact: dict[str, list[EngineHits]]
) -> None:
    for name, where in FILTERED.items():
        common = 0
        for question, known in zip(crowd.questions, exact[name], strict=True):
            found = await asked(collection, question, where)
            scores = {hit.key: hit.score for hit in known.hits}
            assert (found.total, len(found.hits)) == (known.total, len(known.hits))
            same = [hit for hit in found.hits if hit.key in scores]
            assert all(hit.score == scores[hit.key] for hit in same)
            common += len(same)
        assert common >= 0.99 * sum(len(known.hits) for known in exact[name]), name


async def check_changes(collection: PostgresCollection, crowd: Crowd) -> None:
    for question in crowd.questions[:5]:
        best = [hit.key for hit in (await asked(collection, question, EVERYTHING)).hits]
        await collection.delete(best[:5])
        await collection.upsert([Record(key=f"new{best[0]}", vectors={"text": question})])
        now = [hit.key for hit in (await asked(collection, question, EVERYTHING)).hits]
        assert now[:6] == [f"new{best[0]}", *best[5:]]


def opposite(crowd: Crowd, number: int) -> bytes:
    """Return a vector that is far from all others."""
    return bytes((crowd.vectors[number % len(crowd.vectors)] * -1).tobytes())


async def write_during_kill(collection: PostgresCollection, crowd: Crowd, milvus: MilvusServer) -> int:
    """Write while the server is killed. Return how many records were acknowledged."""
    killed, count = asyncio.Event(), 0

    async def writing() -> None:
        nonlocal count
        while not killed.is_set() or count < 50:
            vectors = {"text": opposite(crowd, count)}
            await collection.upsert([Record(key=f"killed{count}", vectors=vectors)])
            count += 1

    writer = asyncio.create_task(writing())
    await until(lambda: count > 20, "something is written")
    await asyncio.to_thread(milvus.kill)
    killed.set()
    await writer
    return count


async def check_written(collection: PostgresCollection, crowd: Crowd, numbers: Iterable[int]) -> None:
    for number in numbers:
        found = await asked(collection, opposite(crowd, number), EVERYTHING)
        assert f"killed{number}" in {hit.key for hit in found.hits}


async def wait_until_used(collection: PostgresCollection, index: CountedIndex, question: bytes) -> None:
    async def is_used() -> bool:
        before = index.answered
        await asked(collection, question, EVERYTHING)
        return index.answered > before

    await until(is_used, "the index is used")


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
        count = await write_during_kill(collection, crowd, milvus)
        await check_written(collection, crowd, (0, 20, count - 1))
        assert link.state is LinkState.AWAY
        await asyncio.to_thread(milvus.start)
        await catch_up(collection, link)
        await wait_until_used(collection, index, crowd.questions[0])
        await check_written(collection, crowd, range(0, count, 7))

    exact = asyncio.run(exact_hits(postgres, tmp_path, crowd))
    run(postgres, index, tmp_path, work)


def test_what_a_killed_hub_had_acknowledged_is_found_and_indexed(
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

    async def look() -> None:
        index = MilvusIndex(parsed(milvus.url()))
        async with linked(postgres, index, tmp_path, WRITTEN) as (collection, link):
            await check_whole(collection, acknowledged)
            await catch_up(collection, link)
            await check_whole(collection, acknowledged)

    asyncio.run(look())


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
