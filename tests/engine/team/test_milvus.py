"""A real Milvus beside a real PostgreSQL: recall, filters, changes, servers and hubs that are killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pymilvus import MilvusClient

from tabane.engine.candidate_index import IndexedVector
from tabane.engine.team.milvus_index import MilvusIndex, parse_milvus_url
from tabane.search.records import EVERYTHING, EmbeddingSpace, Shape
from tests.engine.team.postgres.collections import schema_of
from tests.engine.team.postgres.outside import catch_up, linked
from tests.engine.team.postgres.outside_checks import CountsSearches, check_server, wait_until_used
from tests.engine.team.postgres.test_approximate_index import SHAPE, Crowd, asked
from tests.engine.team.postgres.writing import SHAPE as WRITTEN
from tests.engine.team.postgres.writing import check_whole
from tests.harness.milvus_server import MilvusServer
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer

pytestmark = pytest.mark.heavy("a real Milvus")


class CountedIndex(CountsSearches, MilvusIndex):
    pass


async def test_recall_changes_and_a_kill_during_writes(
    postgres: PostgresServer, milvus: MilvusServer, tmp_path: Path
) -> None:
    """One collection for all of it, because it takes a server seconds to create one."""
    crowd, index = Crowd(6000), CountedIndex(parse_milvus_url(milvus.url()))
    await check_server(postgres, milvus, index, tmp_path, crowd)


async def test_what_a_killed_hub_had_acknowledged_is_found_and_indexed(
    postgres: PostgresServer, milvus: MilvusServer, tmp_path: Path
) -> None:
    url = postgres.url(schema_of(tmp_path))
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.team.milvus_child", url, milvus.url()],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    acknowledged = [child.stdout.readline().strip() for _ in range(150)]
    child.send_signal(signal.SIGKILL)
    rest, _ = child.communicate()
    acknowledged += [line.strip() for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    index = MilvusIndex(parse_milvus_url(milvus.url()))
    async with linked(postgres, index, tmp_path, WRITTEN) as (collection, link):
        await check_whole(collection, acknowledged)
        await catch_up(collection, link)
        await check_whole(collection, acknowledged)


async def test_a_set_that_was_dropped_is_filled_again(
    postgres: PostgresServer, milvus: MilvusServer, tmp_path: Path
) -> None:
    crowd, index = Crowd(300), CountedIndex(parse_milvus_url(milvus.url()))

    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        await collection.upsert(crowd.records())
        await catch_up(collection, link)
        mark = (await collection.engine.feed.join(link.follower)).mark
        client = MilvusClient(uri=f"http://127.0.0.1:{milvus.port}")
        [name] = [
            each
            for each in await asyncio.to_thread(client.list_collections)
            if index.mark(each.removeprefix("tabane_"), SHAPE) == mark
        ]
        await asyncio.to_thread(client.drop_collection, name)
        client.close()
    async with linked(postgres, index, tmp_path, SHAPE) as (collection, _):
        await wait_until_used(collection, index, crowd.questions[0])
        assert (await asked(collection, crowd.questions[0], EVERYTHING)).total == 300


async def test_the_nearest_of_many_vectors_are_proposed_when_all_were_put(milvus: MilvusServer) -> None:
    """Vectors as models make them: of 64 independent directions, and a little of others."""
    count, dimension, chance = 12_000, 128, np.random.default_rng(5)
    vectors = chance.standard_normal((count + 50, 64)) @ chance.standard_normal((64, dimension))
    vectors += 0.3 * chance.standard_normal(vectors.shape)
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("<f4")
    questions, vectors = vectors[count:], vectors[:count]
    nearest = [set(order[:10].tolist()) for order in np.argsort(-questions @ vectors.T, axis=1)]
    shape = Shape("vectors", spaces=(EmbeddingSpace("text", dimension),))
    index = MilvusIndex(parse_milvus_url(milvus.url("timeout=20&shards=1")))
    index.reset("near", dimension, shape)
    index.put("near", [IndexedVector(row, vector.tobytes()) for row, vector in enumerate(vectors)], shape)
    note = index.advance("near", "mark", complete=True)

    def recall() -> float:
        proposed = [
            set(index.nearest("near", each.tobytes(), EVERYTHING, shape, 40, note)) for each in questions
        ]
        return sum(len(one & other) for one, other in zip(proposed, nearest, strict=True)) / 500

    await until(lambda: recall() >= 0.99, "Milvus has built its index", 120, every=1.0)
    index.drop("near")
    index.close()
