"""An index on Milvus against PostgreSQL and the bare client: ``python -m benchmarks.milvus [--sizes 20000]``.

Real servers of its own are started for it (``make milvus``), on this machine. Queries of both ways alternate,
so that the load of the machine changes both.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from benchmarks.postgres.approximate import ClusteredVectors
from benchmarks.report import machine, publish, table, timed
from pymilvus import MilvusClient
from tests.engine.team.postgres.collections import DatabaseCollection
from tests.harness.milvus_server import MilvusServer, milvus_server
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer, postgres_server

from tabane.engine.team.milvus_index import MilvusIndex, parse_milvus_url
from tabane.engine.team.postgres.database import IndexTurn, PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.index_follower import IndexFilling
from tabane.engine.team.postgres.outside_index import IndexLink
from tabane.engine.team.postgres.store import PostgresStore
from tabane.search.engine import EngineHits, VectorQuery
from tabane.search.records import EVERYTHING, EmbeddingSpace, Equal, Field, Filter, Kind, Range, Shape

DIMENSION = 384
_TOGETHER = 1000  # records of an upsert
_ROUNDS = 3  # of all questions
_NAMES = {
    "all": "10 nearest of all",
    "half": "10 nearest, a filter that leaves half",
    "tenth": "10 nearest, a filter that leaves 10 %",
}


@dataclass(slots=True)
class IndexMeasured:
    """Milliseconds by kind of query: without an index, with it, and of the bare client. Rates a second."""

    size: int
    exact: dict[str, list[float]] = field(default_factory=dict)
    near: dict[str, list[float]] = field(default_factory=dict)
    bare: dict[str, list[float]] = field(default_factory=dict)
    recall: dict[str, float] = field(default_factory=dict)
    filled: float = 0.0
    lag: float = 0.0
    written_before: float = 0.0
    written_after: float = 0.0


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.milvus")
    parser.add_argument("--sizes", type=int, nargs="+", default=[20_000])
    parser.add_argument("--write", action="store_true", help="write the performance page")
    options = parser.parse_args(arguments)
    with postgres_server() as postgres, milvus_server() as milvus:
        postgres.stop()
        postgres.start(fsync="on", full_page_writes="on", shared_buffers="512MB")
        found = [asyncio.run(measured(postgres, milvus, size)) for size in options.sizes]
    publish("milvus", index_page(found), write=options.write)


async def measured(postgres: PostgresServer, milvus: MilvusServer, size: int) -> IndexMeasured:
    shape = Shape(
        "vectors",
        fields=(Field("user", Kind.STRING), Field("number", Kind.NUMBER)),
        spaces=(EmbeddingSpace("text", DIMENSION),),
    )
    data, found = ClusteredVectors(size, DIMENSION), IndexMeasured(size)
    database = await PostgresDatabase.open(parsed(postgres.url(f"milvus_{size}")))
    plain = PostgresStore(database, "bench", None)
    collection = await plain.collection(shape)
    for first in range(0, size, _TOGETHER):
        await collection.upsert(data.records(first, _TOGETHER))
    postgres.execute("VACUUM ANALYZE")
    questions, filters = data.questions(), _filters(size)
    known: dict[str, list[EngineHits]] = {}
    for kind, where in filters.items():
        known[kind] = [await _nearest(collection, each, where) for each in questions]
        found.exact[kind] = await timed([_asking(collection, each, where) for each in questions])
    found.written_before = await _written(collection, data, "before")
    await plain.close()

    link = IndexLink(MilvusIndex(parse_milvus_url(milvus.url("timeout=5"))), 1)
    turn = IndexTurn(database, link.follower)
    store = PostgresStore(database, "bench", None, filling=IndexFilling(link, turn))
    began = time.perf_counter()
    collection = await store.collection(shape)
    await _caught_up(collection, link)
    found.filled = size / (time.perf_counter() - began)
    await _compare(collection, milvus, questions, filters, found)
    for kind, where in filters.items():
        hits = [await _nearest(collection, each, where) for each in questions]
        found.recall[kind] = _recall(known[kind], hits)
    found.written_after = await _written(collection, data, "after")
    began = time.perf_counter()
    await _caught_up(collection, link)
    found.lag = time.perf_counter() - began
    await store.close()
    await turn.close()
    await link.close()
    await database.close()
    return found


def _filters(size: int) -> dict[str, Filter]:
    return {
        "all": EVERYTHING,
        "half": Range("number", size // 2, None),
        "tenth": Range("number", 0, size // 10),
        "few": Equal("user", "u7"),
    }


async def _compare(
    collection: DatabaseCollection,
    milvus: MilvusServer,
    questions: Sequence[bytes],
    filters: dict[str, Filter],
    found: IndexMeasured,
) -> None:
    """Ask with Tabane and with the bare client by turns: the same candidates of the same set."""
    client = MilvusClient(uri=f"http://127.0.0.1:{milvus.port}")
    [name] = [each for each in client.list_collections() if _count(client, each) == found.size]
    said = {"all": "", "half": f"n_number >= {found.size // 2}", "tenth": f"n_number <= {found.size // 10}"}
    for _ in range(_ROUNDS):
        for each in questions:
            for kind, text in said.items():
                near, bare = found.near.setdefault(kind, []), found.bare.setdefault(kind, [])
                near += await timed([_asking(collection, each, filters[kind])])
                bare += await timed([_bare(client, name, each, text)])
    client.close()


def _count(client: MilvusClient, name: str) -> int:
    [found] = client.query(name, output_fields=["count(*)"], consistency_level="Strong")
    return int(found["count(*)"])


def _asking(
    collection: DatabaseCollection, question: bytes, where: Filter
) -> Callable[[], Awaitable[EngineHits]]:
    return lambda: _nearest(collection, question, where)


async def _nearest(collection: DatabaseCollection, question: bytes, where: Filter) -> EngineHits:
    return await collection.nearest(VectorQuery({"text": question}), where, 10)


def _bare(client: MilvusClient, name: str, question: bytes, text: str) -> Callable[[], Awaitable[Any]]:
    vector = np.frombuffer(question, dtype="<f4")
    unit = (vector / np.linalg.norm(vector)).astype("<f4")

    def searching() -> Any:
        parameters = {"metric_type": "IP", "params": {"ef": 800}}
        return client.search(
            name,
            [unit],
            filter=text,
            limit=100 if text else 40,
            search_params=parameters,
            consistency_level="Bounded",
        )

    return lambda: asyncio.to_thread(searching)


async def _written(collection: DatabaseCollection, data: ClusteredVectors, prefix: str) -> float:
    """Return the rate of writes in parts of 100, and delete what was written."""
    records = data.records(0, 2000, prefix)
    began = time.perf_counter()
    await collection.upsert(records)
    rate = len(records) / (time.perf_counter() - began)
    await collection.delete([each.key for each in records])
    return rate


async def _caught_up(collection: DatabaseCollection, link: IndexLink) -> None:
    await until(lambda: collection.engine.feed.is_current(link.follower), "the index has everything", 900)


def _recall(exact: Sequence[EngineHits], found: Sequence[EngineHits]) -> float:
    pairs = zip(exact, found, strict=True)
    common = sum(len({hit.key for hit in a.hits} & {hit.key for hit in b.hits}) for a, b in pairs)
    return common / sum(len(each.hits) for each in exact)


def index_page(several: Sequence[IndexMeasured]) -> list[str]:
    """Return the section."""
    head = ("p50 in ms", "vectors", "PostgreSQL alone", "with Milvus", "bare client", "ratio", "recall@10")
    rows = [
        (
            name,
            f"{each.size:,}",
            f"{statistics.median(each.exact[kind]):.1f}",
            f"{statistics.median(each.near[kind]):.1f}",
            f"{statistics.median(each.bare[kind]):.1f}",
            f"{statistics.median(each.near[kind]) / statistics.median(each.bare[kind]):.2f}",
            f"{each.recall[kind]:.4f}",
        )
        for each in several
        for kind, name in _NAMES.items()
    ]
    costs = table(
        ("vectors", "filled, records a second", "records a second without", "with the index", "lag, s"),
        [
            (
                f"{each.size:,}",
                f"{each.filled:,.0f}",
                f"{each.written_before:,.0f}",
                f"{each.written_after:,.0f}",
                f"{each.lag:.1f}",
            )
            for each in several
        ],
    )
    return ["## An index on Milvus", machine("python -m benchmarks.milvus"), table(head, rows), costs]


if __name__ == "__main__":
    main(sys.argv[1:])
