"""A database read through the local copy of a hub, against the same questions to the database itself."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.growth.corpus import DIMENSION, SHAPE, Corpus
from benchmarks.postgres.migration import DOMAIN, migrated
from benchmarks.report import machine, quantile, table
from benchmarks.search.sizes import sizes
from benchmarks.sections.blocks import Block
from msgspec import structs
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer

from tabane.engine.collection_replica import Replicas
from tabane.engine.team.postgres.change_feed import ChangeProbe
from tabane.engine.team.postgres.database import PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.store import PostgresStore
from tabane.search.engine import Collection, LexicalQuery, VectorQuery
from tabane.search.records import EVERYTHING, Equal, Range

_TIMES, _WARM = 100, 5
_ROUNDS, _MORE = 5, 1_000  # of upserts, without a copy and with one in turns, and the records of each
_INDEXED_FROM = 50_000  # the default of vector_index_from
_POLLED, _LONGEST = 0.2, 7200.0  # seconds
_METHOD = f"""
- PostgreSQL 18 with pgvector on the same cores, with fsync, and its approximate index from {_INDEXED_FROM:,}
  vectors on. The copy is the one that a hub makes by default. Each question to it begins with the question to
  the database for the last change.
- Each question is asked of the database and of the copy in turns, in one process. So the last column of each
  size holds on a busy machine, too: how many times as long the database takes, median against median.
- Texts of 120 characters on average, half Japanese, half English; vectors of {DIMENSION} numbers; two fields.
  A hybrid search asks for 50 hits by words and 50 by meaning at the same time.
""".strip()

Ask = Callable[[Collection], Awaitable[object]]


@dataclass(slots=True)
class ReplicaRun:
    """One size. ``times``: kind → milliseconds from the database, and from the copy.

    ``copied``: records a second of the first copy. ``alone`` and ``followed``: records a second of each round
    without a copy, and with one. ``lags``: seconds from the last acknowledgment of a round until the copy has
    it. ``database`` and ``copy`` are bytes.
    """

    size: int
    times: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    copied: float = 0.0
    alone: list[float] = field(default_factory=list)
    followed: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    database: int = 0
    copy: int = 0


def replica_page(several: Sequence[ReplicaRun]) -> list[Block | str]:
    """Return the section."""
    head = ["p50 (p95) in ms"]
    for each in several:
        head += [f"PostgreSQL, {each.size:,}", f"copy, {each.size:,}", "×"]
    rows = [
        [kind, *(cell for each in several for cell in _cells(*each.times[kind]))] for kind in several[0].times
    ]
    more = table(
        (
            "records",
            "first copy, records a second",
            "upserts, records a second, without a copy",
            "with one",
            "until the copy has them, s",
            "database, MB",
            "copy, MB",
        ),
        (
            (
                f"{each.size:,}",
                f"{each.copied:,.0f}",
                f"{statistics.median(each.alone):,.0f}",
                f"{statistics.median(each.followed):,.0f}",
                f"{statistics.median(each.lags):.2f}",
                f"{each.database / 1e6:,.0f}",
                f"{each.copy / 1e6:,.0f}",
            )
            for each in several
        ),
    )
    command = "python -m benchmarks.postgres --replica"
    return ["## A database read through the local copy", machine(command), _METHOD, table(head, rows), more]


def _cells(database: Sequence[float], copy: Sequence[float]) -> tuple[str, str, str]:
    middles = statistics.median(database), statistics.median(copy)
    shown = (
        f"{middle:.1f} ({quantile(each, 0.95):.1f})"
        for middle, each in zip(middles, (database, copy), strict=True)
    )
    return (*shown, f"{middles[0] / middles[1]:.1f}")  # type: ignore[return-value]


async def measured_replica(server: PostgresServer, size: int) -> ReplicaRun:
    """Fill a schema, copy it, and ask both."""
    found, corpus, url = ReplicaRun(size), Corpus(size), server.url(f"replica_{size}")
    with tempfile.TemporaryDirectory(prefix="tabane-replica-") as folder:
        _say(f"{size:,}: fill")
        await migrated(Path(folder, "home"), url, SHAPE, corpus.rows())
        database = await PostgresDatabase.open(parsed(url))
        store, replicas = (
            PostgresStore(database, DOMAIN, None, _INDEXED_FROM),
            Replicas(Path(folder, "replica")),
        )
        probe = ChangeProbe(database)
        try:
            truth = await store.collection(SHAPE)
            if size >= _INDEXED_FROM:
                await _indexed(database)
            server.execute("VACUUM ANALYZE")
            found.database = await truth.engine.feed.size()
            _say(f"{size:,}: copy")
            began = time.perf_counter()
            copy = await replicas.replicated(DOMAIN, truth.engine, truth.engine.feed, probe, url)
            await _current(replicas)
            found.copied = size / (time.perf_counter() - began)
            _say(f"{size:,}: ask")
            for kind, questions in _kinds(corpus).items():
                found.times[kind] = await _asked_in_turns(truth, copy, questions)
            found.copy = sum(sizes(Path(folder, "replica")).values())
            _say(f"{size:,}: ingest")
            for number in range(_ROUNDS):
                await replicas.close()
                found.alone.append((await _ingested(truth, f"alone-{number}"))[0])
                copy = await replicas.replicated(DOMAIN, truth.engine, truth.engine.feed, probe, url)
                await _current(replicas)
                rate, ended = await _ingested(copy, f"followed-{number}")
                await _current(replicas)
                found.followed.append(rate)
                found.lags.append(time.perf_counter() - ended)
        finally:
            await replicas.close()
            await probe.close()
            await store.close()
            await database.close()
    return found


async def _indexed(database: PostgresDatabase) -> None:
    query = (
        f"SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{database.schema}.near_vector_1_1')"
    )

    async def there() -> bool:
        await asyncio.sleep(_POLLED)
        return await database.read(lambda connection: connection.execute(query).fetchone()) == (True,)

    await until(there, "the approximate index", _LONGEST)


async def _current(replicas: Replicas) -> None:
    async def there() -> bool:
        await asyncio.sleep(_POLLED / 20)
        return bool(replicas.report()[0]["state"] == "current")

    await until(there, "the copy", _LONGEST)


def _kinds(corpus: Corpus) -> dict[str, list[Ask]]:
    count = _TIMES + _WARM
    entries, vectors = corpus.entries(2000), [VectorQuery({"text": each}) for each in corpus.questions(count)]
    since, before = corpus.generator.days(0.1)
    words = {
        language: [
            LexicalQuery(" ".join(each.words)) for each in corpus.generator.queries(entries, language, count)
        ]
        for language in ("ja", "en")
    }

    def hybrid(query: LexicalQuery, vector: VectorQuery) -> Ask:
        return lambda asked: asyncio.gather(
            asked.search(query, EVERYTHING, 50), asked.nearest(vector, EVERYTHING, 50)
        )

    return {
        "keywords, Japanese": [_searched(each) for each in words["ja"]],
        "keywords, English": [_searched(each) for each in words["en"]],
        "10 nearest": [lambda asked, each=each: asked.nearest(each, EVERYTHING, 10) for each in vectors],  # type: ignore[misc]
        "10 nearest in 10 % of the dates": [
            lambda asked, each=each: asked.nearest(each, Range("at", since, before), 10)  # type: ignore[misc]
            for each in vectors
        ],
        "hybrid": [hybrid(*each) for each in zip(words["ja"], vectors, strict=True)],
        "a record by key": [lambda asked, each=each: asked.get([each.key]) for each in entries[:count]],  # type: ignore[misc]
        "50 records by key": [
            lambda asked, first=first: asked.get([each.key for each in entries[first : first + 50]])  # type: ignore[misc]
            for first in range(count)
        ],
        "count of a user's records": [
            lambda asked, each=each: asked.count(Equal("user", str(each.user)))  # type: ignore[misc]
            for each in entries[:count]
        ],
    }


def _searched(query: LexicalQuery) -> Ask:
    return lambda asked: asked.search(query, EVERYTHING, 10)


async def _asked_in_turns(
    database: Collection, copy: Collection, questions: Sequence[Ask]
) -> tuple[list[float], list[float]]:
    """Return the milliseconds of each question to both, each first in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for number, ask in enumerate(questions):
        for side in ((0, 1), (1, 0))[number % 2]:
            began = time.perf_counter()
            await ask((database, copy)[side])
            times[side].append(1000 * (time.perf_counter() - began))
    return times[0][_WARM:], times[1][_WARM:]


async def _ingested(collection: Collection, name: str) -> tuple[float, float]:
    """Return the records a second of upserts on top of what is there, and when they ended."""
    parts = [
        [structs.replace(each, key=f"{name}-{each.key}") for each in part] for part in Corpus(_MORE).parts()
    ]
    began = time.perf_counter()
    for part in parts:
        await collection.upsert(part)
    ended = time.perf_counter()
    return sum(map(len, parts)) / (ended - began), ended


def _say(what: str) -> None:
    print(f"replica: {time.strftime('%H:%M:%S')} {what}", file=sys.stderr)
