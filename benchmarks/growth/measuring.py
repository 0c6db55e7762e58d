"""One step of one engine, in a process of its own.

    python -m benchmarks.growth.measuring STEP ENGINE TARGET SIZE

``fill`` stores all records, and waits until the indexes have them. ``ask`` opens what was filled, and asks.
The figures are printed as JSON. TARGET is a folder for ``files``, and a URL for ``postgresql``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from benchmarks.growth.corpus import SHAPE, TOGETHER, Corpus
from benchmarks.postgres.migration import DOMAIN, migrated
from benchmarks.report import quantile, timed
from benchmarks.search.engine_steps import memory
from msgspec import structs
from tests.harness.patience import until

from tabane.engine.embedded.lexical.lexical_index import open_lexical
from tabane.engine.embedded.store import Store
from tabane.engine.team.postgres.database import PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.store import PostgresStore
from tabane.search.engine import Collection, LexicalQuery, VectorQuery
from tabane.search.records import EVERYTHING, Filter, Range, Record

_TIMES = 100  # queries of a kind
_WARM = 5  # queries of a kind before them
_MORE = 5_000  # records that are upserted at the end
_INDEXED_FROM = 50_000  # the default of vector_index_from
_POLLED, _LONGEST = 0.5, 7200.0  # seconds


async def main(step: str, engine: str, target: str, size: int) -> None:
    corpus = Corpus(size)
    if step == "fill":
        filled = filled_files(target, corpus) if engine == "files" else filled_server(target, corpus)
        print(json.dumps(await filled))
        return
    async with on_files(target) if engine == "files" else on_server(target) as collection:
        print(json.dumps(await asked(collection, corpus)))


async def filled_files(folder: str, corpus: Corpus) -> dict[str, float]:
    """Store all records. The rate is that of the upserts: making the records is left out."""
    first, spent = time.perf_counter(), 0.0
    async with on_files(folder) as collection:
        for part in corpus.parts():
            began = time.perf_counter()
            await collection.upsert(part)
            spent += time.perf_counter() - began
        lasted = time.perf_counter() - first
    return {"ingested": corpus.size / spent, "built": time.perf_counter() - first - lasted}


async def filled_server(url: str, corpus: Corpus) -> dict[str, float]:
    """Migrate all records from files. The rate includes the keyword index."""
    with tempfile.TemporaryDirectory(prefix="tabane-growth-") as folder:
        rates = await migrated(Path(folder), url, SHAPE, corpus.rows())
    began = time.perf_counter()
    async with on_server(url):
        pass
    return {"ingested": rates.whole, "built": time.perf_counter() - began}


@contextlib.asynccontextmanager
async def on_files(folder: str) -> AsyncIterator[Collection]:
    """The embedded engine. It is closed once its indexes are complete."""
    store = await Store.open(folder, DOMAIN, lexical=open_lexical)
    try:
        collection = await store.collection(SHAPE)
        yield collection
        await collection.engine.settle()
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def on_server(url: str) -> AsyncIterator[Collection]:
    """PostgreSQL with pgvector. It is left once a large collection has its approximate index."""
    address = parsed(url)
    database = await PostgresDatabase.open(address)
    store = PostgresStore(database, DOMAIN, None, _INDEXED_FROM)
    try:
        collection = await store.collection(SHAPE)
        yield collection
        if await collection.count(EVERYTHING) >= _INDEXED_FROM:
            await _indexed(database, address.schema)
    finally:
        await store.close()
        await database.close()


async def _indexed(database: PostgresDatabase, schema: str) -> None:
    """Wait until the approximate index is there."""
    query = f"SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{schema}.near_vector_1_1')"

    async def there() -> bool:
        await asyncio.sleep(_POLLED)
        return await database.read(lambda connection: connection.execute(query).fetchone()) == (True,)

    await until(there, "the approximate index", _LONGEST)


async def asked(collection: Collection, corpus: Corpus) -> dict[str, object]:
    """Return the median and 95th percentile of each kind, in milliseconds, and the memory afterwards."""
    entries = corpus.entries(2 * TOGETHER)
    vectors = corpus.questions(_TIMES + _WARM)
    since, until = corpus.generator.days(0.1)
    kinds: dict[str, list[Callable[[], Awaitable[object]]]] = {
        "nearest": [_near(collection, each, EVERYTHING) for each in vectors],
        "nearest tenth": [_near(collection, each, Range("at", since, until)) for each in vectors],
        "get": [_got(collection, each.key) for each in entries[: _TIMES + _WARM]],
        "write": [_written(collection, number) for number in range(_TIMES + _WARM)],
    }
    for language in ("ja", "en"):
        words = corpus.generator.queries(entries, language, _TIMES + _WARM)
        kinds[f"words {language}"] = [_searched(collection, " ".join(each.words)) for each in words]
    times = {kind: (await timed(calls))[_WARM:] for kind, calls in kinds.items()}
    return {
        "median": {kind: statistics.median(each) for kind, each in times.items()},
        "p95": {kind: quantile(each, 0.95) for kind, each in times.items()},
        "memory": memory(),
        "ingested": await _ingested(collection),
    }


def _near(collection: Collection, vector: bytes, where: Filter) -> Callable[[], Awaitable[object]]:
    return lambda: collection.nearest(VectorQuery({"text": vector}), where, 10)


def _searched(collection: Collection, words: str) -> Callable[[], Awaitable[object]]:
    return lambda: collection.search(LexicalQuery(words), EVERYTHING, 10)


def _got(collection: Collection, key: str) -> Callable[[], Awaitable[object]]:
    return lambda: collection.get([key])


def _written(collection: Collection, number: int) -> Callable[[], Awaitable[object]]:
    record = Record(key=f"new{number}", texts={"text": "one more record 東京"}, payload=b"{}")
    return lambda: collection.upsert([record])


async def _ingested(collection: Collection) -> float:
    """Return the records a second of upserts on top of what is there."""
    began, more = time.perf_counter(), 0
    for part in Corpus(_MORE).parts():
        await collection.upsert([structs.replace(each, key=f"more-{each.key}") for each in part])
        more += len(part)
    return more / (time.perf_counter() - began)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4], int(sys.argv[4])))
