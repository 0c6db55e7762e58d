"""The approximate index against the exact search: time, recall, and what it costs to build and to write."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from benchmarks.report import machine, table
from tests.harness.postgres_server import PostgresServer

from tabane.engine.team.postgres.database import PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.store import PostgresStore
from tabane.search.engine import Collection, EngineHits, VectorQuery
from tabane.search.records import EVERYTHING, EmbeddingSpace, Equal, Field, Filter, Kind, Range, Record, Shape

_TIMES = 60  # queries of a kind
_TOGETHER = 1000  # records of an upsert
_WRITTEN = 200  # records that are written with the index
_POLLED = 0.2  # seconds
_NAMES = {
    "all": "10 nearest of all",
    "half": "10 nearest, a filter that leaves half",
    "tenth": "10 nearest, a filter that leaves 10 %",
    "few": "10 nearest, a filter that leaves 1 %",
}


@dataclass(slots=True)
class Approximation:
    """``exact`` and ``near``: milliseconds by kind of query. ``index``: MB. Rates: records a second."""

    size: int
    exact: dict[str, list[float]] = field(default_factory=dict)
    near: dict[str, list[float]] = field(default_factory=dict)
    recall: dict[str, float] = field(default_factory=dict)
    built: float = 0.0
    index: float = 0.0
    written_before: float = 0.0
    written_after: float = 0.0


class ClusteredVectors:
    """Records with vectors around 500 centers, and questions about them."""

    def __init__(self, size: int, dimension: int) -> None:
        self._chance = np.random.default_rng(11)
        centers = self._chance.standard_normal((500, dimension))
        near = centers[self._chance.integers(0, 500, size)]
        self.vectors = (near + 0.6 * self._chance.standard_normal((size, dimension))).astype("<f4")

    def records(self, first: int, count: int, prefix: str = "k") -> list[Record]:
        return [
            Record(
                key=f"{prefix}{place}",
                fields={"user": f"u{place % 100}", "number": place},
                vectors={"text": self.vectors[place].tobytes()},
            )
            for place in range(first, min(first + count, len(self.vectors)))
        ]

    def questions(self) -> list[bytes]:
        size, dimension = self.vectors.shape
        chosen = self.vectors[self._chance.integers(0, size, _TIMES)]
        return [
            (each + 0.3 * self._chance.standard_normal(dimension)).astype("<f4").tobytes() for each in chosen
        ]


async def measured_approximation(server: PostgresServer, size: int, dimension: int) -> Approximation:
    """Fill a collection, ask it without an index, have it built, and ask again."""
    shape = Shape(
        "vectors",
        fields=(Field("user", Kind.STRING), Field("number", Kind.NUMBER)),
        spaces=(EmbeddingSpace("text", dimension),),
    )
    data, found, schema = ClusteredVectors(size, dimension), Approximation(size), f"near_{size}"
    database = await PostgresDatabase.open(parsed(server.url(schema)))
    store = PostgresStore(database, "bench", None)
    collection = await store.collection(shape)
    for first in range(0, size, _TOGETHER):
        await collection.upsert(data.records(first, _TOGETHER))
    server.execute("VACUUM ANALYZE")
    questions = data.questions()
    known = {kind: await _asked(collection, questions, where) for kind, where in _filters(size).items()}
    found.exact = {kind: times for kind, (times, _) in known.items()}
    found.written_before = await _written(collection, data, "before")
    await store.close()
    indexed = PostgresStore(database, "bench", None, 1000)
    began = time.perf_counter()
    collection = await indexed.collection(shape)
    await asyncio.to_thread(_wait, server, schema)
    found.built = time.perf_counter() - began
    found.index = (
        float(str(server.execute(f"SELECT pg_relation_size('{schema}.near_vector_1_1')")[0][0])) / 1e6
    )
    found.written_after = await _written(collection, data, "after")
    for kind, where in _filters(size).items():
        found.near[kind], hits = await _asked(collection, questions, where)
        found.recall[kind] = _recall(known[kind][1], hits)
    await indexed.close()
    await database.close()
    return found


def _filters(size: int) -> dict[str, Filter]:
    return {
        "all": EVERYTHING,
        "half": Range("number", size // 2, None),
        "tenth": Range("number", 0, size // 10),
        "few": Equal("user", "u7"),
    }


async def _asked(
    collection: Collection, questions: Sequence[bytes], where: Filter
) -> tuple[list[float], list[EngineHits]]:
    times, found = [], []
    for each in questions:
        began = time.perf_counter()
        found.append(await collection.nearest(VectorQuery({"text": each}), where, 10))
        times.append((time.perf_counter() - began) * 1000)
    return times, found


async def _written(collection: Collection, data: ClusteredVectors, prefix: str) -> float:
    """Return the rate of writes in parts of 100, and delete what was written."""
    records = data.records(0, _WRITTEN, prefix)
    began = time.perf_counter()
    await collection.upsert(records)
    rate = len(records) / (time.perf_counter() - began)
    await collection.delete([each.key for each in records])
    return rate


def _recall(exact: Sequence[EngineHits], found: Sequence[EngineHits]) -> float:
    pairs = zip(exact, found, strict=True)
    common = sum(len({hit.key for hit in a.hits} & {hit.key for hit in b.hits}) for a, b in pairs)
    return common / sum(len(each.hits) for each in exact)


def _wait(server: PostgresServer, schema: str) -> None:
    query = f"SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{schema}.near_vector_1_1')"
    while server.execute(query) != [(True,)]:
        time.sleep(_POLLED)


def approximation_page(several: Sequence[Approximation], dimension: int) -> list[str]:
    """Return the section."""
    head = (
        f"p50 in ms, {dimension} numbers a vector",
        *(f"{each.size:,} {way}" for each in several for way in ("exact", "index", "recall@10")),
    )
    rows = [
        (name, *(cell for each in several for cell in _cells(each, kind))) for kind, name in _NAMES.items()
    ]
    costs = table(
        ("vectors", "build, s", "index, MB", "records a second before", "with the index"),
        [
            (
                f"{each.size:,}",
                f"{each.built:.0f}",
                f"{each.index:.0f}",
                f"{each.written_before:,.0f}",
                f"{each.written_after:,.0f}",
            )
            for each in several
        ],
    )
    return [
        "## The approximate index of PostgreSQL",
        machine("python -m benchmarks.postgres --approximate"),
        table(head, rows),
        costs,
    ]


def _cells(found: Approximation, kind: str) -> tuple[str, str, str]:
    def middle(times: Mapping[str, list[float]]) -> str:
        return f"{statistics.median(times[kind]):.1f}"

    return middle(found.exact), middle(found.near), f"{found.recall[kind]:.4f}"
