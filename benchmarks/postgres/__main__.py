"""The engine on PostgreSQL: ``python -m benchmarks.postgres [--sizes 10000 100000] [--write]``.

``--approximate`` measures only the approximate index against the exact search, ``--replica`` only the local
copy of a hub against the database.

A real server of its own is started for it, with fsync, on this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
from benchmarks.postgres.approximate import approximation_page, measured_approximation
from benchmarks.postgres.migration import measured_migration
from benchmarks.postgres.page import Measured, migration_page, page
from benchmarks.postgres.replica import measured_replica, replica_page
from benchmarks.report import publish, timed
from benchmarks.search.generator import Entry, Generator
from tests.harness.postgres_server import PostgresServer, postgres_server

from tabane.engine.team.postgres.database import PostgresDatabase, VectorDumper, WireVector
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.store import PostgresStore
from tabane.search.engine import Collection, LexicalQuery, VectorQuery
from tabane.search.records import (
    EVERYTHING,
    Contains,
    EmbeddingSpace,
    Equal,
    Field,
    Filter,
    Kind,
    Range,
    Record,
    Shape,
    TextField,
)

DIMENSION = 384
_TIMES = 40  # queries of a kind
_TOGETHER = 1000  # records of an upsert
_SHAPE = Shape(
    "records",
    (TextField("text"),),
    (Field("user", Kind.STRING), Field("at", Kind.DATE)),
    (EmbeddingSpace("text", DIMENSION),),
)
_BARE = "SELECT row, vec <=> %s::vector FROM bench_{size}.vector_1_1 ORDER BY 2 LIMIT 10"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.postgres")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--write", action="store_true", help="write the performance page")
    parser.add_argument("--migration", action="store_true", help="measure only the migration")
    parser.add_argument("--approximate", action="store_true", help="measure only the approximate index")
    parser.add_argument("--replica", action="store_true", help="measure only the local copy")
    options = parser.parse_args(arguments)
    with postgres_server() as server:
        server.stop()
        server.start(fsync="on", full_page_writes="on", shared_buffers="512MB")
        if options.approximate:
            several = [asyncio.run(measured_approximation(server, each, DIMENSION)) for each in options.sizes]
            publish("approximate", approximation_page(several, DIMENSION), write=options.write)
            return
        if options.replica:
            runs = [asyncio.run(measured_replica(server, each)) for each in options.sizes]
            publish("replica", replica_page(runs), write=options.write)
            return
        found = [asyncio.run(measured(server, size, alone=options.migration)) for size in options.sizes]
    if options.migration:
        publish("migration", migration_page(found), write=options.write)
        return
    publish("postgres", page(found, DIMENSION), write=options.write)


@dataclass
class _Corpus:
    """Records with vectors around 500 centers, and questions about them."""

    size: int
    generator: Generator = field(default_factory=Generator)
    chance: np.random.Generator = field(default_factory=lambda: np.random.default_rng(11))
    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.entries = list(self.generator.entries(self.size))
        centers = self.chance.standard_normal((500, DIMENSION))
        near = centers[self.chance.integers(0, 500, self.size)]
        self.vectors = (near + 0.6 * self.chance.standard_normal((self.size, DIMENSION))).astype("<f4")

    def records(self, first: int) -> list[Record]:
        return [
            Record(
                key=entry.key,
                texts={"text": entry.text},
                fields={"user": f"u{place % 100}", "at": entry.date},
                vectors={"text": self.vectors[place].tobytes()},
            )
            for place, entry in enumerate(self.entries[first : first + _TOGETHER], first)
        ]

    def questions(self) -> list[bytes]:
        chosen = self.vectors[self.chance.integers(0, self.size, _TIMES)]
        return [
            (each + 0.3 * self.chance.standard_normal(DIMENSION)).astype("<f4").tobytes() for each in chosen
        ]


async def measured(server: PostgresServer, size: int, *, alone: bool) -> Measured:
    """All figures for so many records; ``alone``: only those of a migration."""
    _say(f"making {size:,} records")
    corpus, found = _Corpus(size), Measured(size)
    _say("migration")
    records = [each for first in range(0, size, _TOGETHER) for each in corpus.records(first)]
    found.there, found.back = await measured_migration(server, _SHAPE, records)
    for name, rates in (("to the database", found.there), ("back", found.back)):
        _say(f"migration {name}: {rates}")
    if alone:
        return found
    database = await PostgresDatabase.open(parsed(server.url(f"bench_{size}")))
    store = PostgresStore(database, "bench", None)
    try:
        collection = await store.collection(_SHAPE)
        _say("ingest")
        began = time.perf_counter()
        for first in range(0, size, _TOGETHER):
            await collection.upsert(corpus.records(first))
        found.ingested = size / (time.perf_counter() - began)
        server.execute("VACUUM ANALYZE")
        found.disk = _disk(server, size)
        _say("queries")
        await _queries(server, collection, corpus, found)
        await _writes(collection, found)
    finally:
        await store.close()
        await database.close()
    return found


async def _queries(server: PostgresServer, collection: Collection, corpus: _Corpus, found: Measured) -> None:
    questions = corpus.questions()
    await _vectors(server, collection, corpus.size, questions, found)
    since, until = corpus.generator.days(0.1)
    filters: dict[str, Filter] = {"tenth": Range("at", since, until), "user": Equal("user", "u7")}
    for name, where in filters.items():
        found.queries[f"vector {name}"] = await timed(
            [
                lambda each=each, where=where: collection.nearest(VectorQuery({"text": each}), where, 10)
                for each in questions
            ]  # type: ignore[misc]
        )
    for language in ("ja", "en"):
        words = [" ".join(each.words) for each in corpus.generator.queries(corpus.entries, language, _TIMES)]
        found.queries[f"words {language}"] = await timed(
            [lambda each=each: collection.search(LexicalQuery(each), EVERYTHING, 10) for each in words]  # type: ignore[misc]
        )
    needles = [each.needle for each in corpus.generator.needles(corpus.entries, "ja", range(2, 5), _TIMES)]
    found.queries["contains"] = await timed(
        [lambda each=each: collection.select(Contains(each), limit=10) for each in needles]  # type: ignore[misc]
    )
    found.queries["count"] = await timed([lambda: collection.count(Equal("user", "u7"))] * _TIMES)
    found.queries["facet"] = await timed([lambda: collection.facet("user", EVERYTHING)] * 10)


async def _vectors(
    server: PostgresServer, collection: Collection, size: int, questions: list[bytes], found: Measured
) -> None:
    """Ask ours and a bare driver in turns, so that both have the same load of the machine."""
    with closing(server.connect()) as bare:
        bare.adapters.register_dumper(WireVector, VectorDumper)
        ours, theirs = [], []
        for each in questions:
            ours += await timed(
                [lambda each=each: collection.nearest(VectorQuery({"text": each}), EVERYTHING, 10)]
            )  # type: ignore[misc]
            began = time.perf_counter()
            bare.execute(_BARE.format(size=size), (WireVector(each),)).fetchall()
            theirs.append((time.perf_counter() - began) * 1000)
    found.queries["vector"], found.bare = ours, theirs


async def _writes(collection: Collection, found: Measured) -> None:
    """Write one record after the other, then by eight writers at once."""

    async def write(lane: int, number: int) -> None:
        await collection.upsert([Record(key=f"w{lane}-{number}", texts={"text": "one more record 東京"})])

    async def many(lane: int) -> None:
        for number in range(_TIMES):
            await write(lane, number)

    found.queries["write"] = await timed([lambda number=number: write(0, number) for number in range(_TIMES)])  # type: ignore[misc]
    began = time.perf_counter()
    await asyncio.gather(*(many(lane) for lane in range(1, 9)))
    found.writes = 8 * _TIMES / (time.perf_counter() - began)


def _disk(server: PostgresServer, size: int) -> float:
    query = (
        "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = relnamespace "
        f"WHERE nspname = 'bench_{size}' AND relkind = 'r'"
    )
    return float(str(server.execute(query)[0][0])) / 1e6


def _say(what: str) -> None:
    print(f"postgres: {time.strftime('%H:%M:%S')} {what}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
