"""An index on Chroma against PostgreSQL: ``python -m benchmarks.chroma [--sizes 20000] [--write]``.

A real server is started for it (``make chroma``), and a folder is opened, on this machine. Queries without
and with each index alternate, so that the load of the machine changes all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from benchmarks.postgres.approximate import ClusteredVectors
from benchmarks.report import machine, publish, table
from tests.harness.chroma_server import PYTHON, ChromaProcess, chroma_server
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer, postgres_server

from tabane.engine.team.chroma.folder import ChromaFolder
from tabane.engine.team.chroma.index import ChromaIndex
from tabane.engine.team.chroma.server import ChromaServer
from tabane.engine.team.chroma.service import parsed as parsed_index
from tabane.engine.team.postgres.collection import PostgresCollection
from tabane.engine.team.postgres.database import IndexTurn, PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.outside_index import IndexFilling, IndexLink
from tabane.engine.team.postgres.store import PostgresStore
from tabane.search.engine import EngineHits, VectorQuery
from tabane.search.records import EVERYTHING, EmbeddingSpace, Field, Filter, Kind, Range, Shape

DIMENSION = 384
SHAPE = Shape(
    "vectors",
    fields=(Field("user", Kind.STRING), Field("number", Kind.NUMBER)),
    spaces=(EmbeddingSpace("text", DIMENSION),),
)
_TOGETHER = 1000  # records of an upsert
_WAYS = ("PostgreSQL alone", "Chroma server", "folder of Chroma")


@dataclass(slots=True)
class ChromaMeasured:
    """Milliseconds of queries by way and filter, recall by the same, and vectors filled a second by way."""

    size: int
    times: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    recall: dict[tuple[str, str], float] = field(default_factory=dict)
    filled: dict[str, float] = field(default_factory=dict)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chroma")
    parser.add_argument("--sizes", type=int, nargs="+", default=[20_000])
    parser.add_argument("--write", action="store_true", help="write the performance page")
    options = parser.parse_args(arguments)
    with postgres_server() as postgres, chroma_server() as chroma, tempfile.TemporaryDirectory() as folder:
        found = [asyncio.run(measured(postgres, chroma, folder, size)) for size in options.sizes]
    publish("chroma", chroma_page(found), write=options.write)


async def measured(postgres: PostgresServer, chroma: ChromaProcess, folder: str, size: int) -> ChromaMeasured:
    data, found = ClusteredVectors(size, DIMENSION), ChromaMeasured(size)
    database = await PostgresDatabase.open(parsed(postgres.url(f"chroma_{size}")))
    served, local = parsed_index(chroma.url()), parsed_index(f"chroma:{folder}/{size}?timeout=10")
    indexes = {
        "Chroma server": ChromaIndex(served, ChromaServer(served)),
        "folder of Chroma": ChromaIndex(local, ChromaFolder(local, PYTHON)),
    }
    async with AsyncExitStack() as opened:
        plain = await PostgresStore(database, "bench", None).collection(SHAPE)
        for first in range(0, size, _TOGETHER):
            await plain.upsert(data.records(first, _TOGETHER))
        postgres.execute("VACUUM ANALYZE")
        collections = {"PostgreSQL alone": plain}
        for way, index in indexes.items():
            began = time.perf_counter()
            collections[way] = await opened.enter_async_context(_filled(database, index))
            found.filled[way] = size / (time.perf_counter() - began)
        await _compare(collections, data.questions(), found)
    await database.close()
    return found


@asynccontextmanager
async def _filled(database: PostgresDatabase, index: ChromaIndex) -> AsyncIterator[PostgresCollection]:
    link = IndexLink(index, 1)
    turn = IndexTurn(database, link.follower)
    store = PostgresStore(database, "bench", None, filling=IndexFilling(link, turn))
    collection = await store.collection(SHAPE)
    await until(lambda: collection.feed.is_current(link.follower), "the index has everything", 900)
    yield collection
    await store.close()
    await turn.close()
    await link.close()


async def _compare(
    collections: dict[str, PostgresCollection], questions: Sequence[bytes], found: ChromaMeasured
) -> None:
    filters: dict[str, Filter] = {
        "10 nearest of all": EVERYTHING,
        "10 nearest, a filter that leaves half": Range("number", found.size // 2, None),
        "10 nearest, a filter that leaves 10 %": Range("number", 0, found.size // 10),
    }
    for kind, where in filters.items():
        hits: dict[str, list[EngineHits]] = {way: [] for way in _WAYS}
        for question in questions:
            for way in _WAYS:
                began = time.perf_counter()
                hits[way].append(await collections[way].nearest(VectorQuery({"text": question}), where, 10))
                found.times.setdefault((way, kind), []).append((time.perf_counter() - began) * 1000)
        for way in _WAYS:
            found.recall[way, kind] = _recall(hits["PostgreSQL alone"], hits[way])


def _recall(exact: Sequence[EngineHits], found: Sequence[EngineHits]) -> float:
    pairs = zip(exact, found, strict=True)
    common = sum(len({hit.key for hit in a.hits} & {hit.key for hit in b.hits}) for a, b in pairs)
    return common / sum(len(each.hits) for each in exact)


def chroma_page(several: Sequence[ChromaMeasured]) -> list[str]:
    """Return the section."""
    rows = [
        (
            kind,
            f"{each.size:,}",
            *(f"{statistics.median(each.times[way, kind]):.1f}" for way in _WAYS),
            *(f"{each.recall[way, kind]:.4f}" for way in _WAYS[1:]),
        )
        for each in several
        for kind in dict.fromkeys(kind for _, kind in each.times)
    ]
    head = ("p50 in ms", "vectors", *_WAYS, "recall@10, server", "recall@10, folder")
    filled = [(f"{each.size:,}", *(f"{each.filled[way]:,.0f}" for way in _WAYS[1:])) for each in several]
    costs = table(("vectors", *(f"filled a second, {way}" for way in _WAYS[1:])), filled)
    return ["## An index on Chroma", machine("python -m benchmarks.chroma"), table(head, rows), costs]


if __name__ == "__main__":
    main(sys.argv[1:])
