"""Keywords by sparse vectors on Milvus Lite against the postings in PostgreSQL.

Milvus Lite is written in Python, so its times say nothing of a Milvus of several machines. What Tabane adds
to them is the same: statements in PostgreSQL, and the analysis of the candidates.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.report import table
from tests.engine.team.postgres.outside_keyword_checks import SHAPE, Library
from tests.harness.milvus_lite_server import MilvusLiteServer
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer

from tabane.engine.team.milvus.index import MilvusIndex
from tabane.engine.team.milvus.index_url import parsed as parsed_index
from tabane.engine.team.postgres.collection import PostgresCollection
from tabane.engine.team.postgres.database import IndexTurn, PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.outside_index import IndexFilling, IndexLink
from tabane.engine.team.postgres.store import PostgresStore
from tabane.search.engine import EngineHits, LexicalQuery
from tabane.search.records import EVERYTHING

_TOGETHER = 1000  # records of an upsert


@dataclass(slots=True)
class KeywordsMeasured:
    """Milliseconds of each query: in PostgreSQL, with the index, and in the index alone."""

    size: int
    postgres: list[float] = field(default_factory=list)
    index: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    filled: float = 0.0
    recall: float = 0.0


class _TimedIndex(MilvusIndex):
    """Notes how long each search takes."""

    def __init__(self, url: str) -> None:
        super().__init__(parsed_index(url))
        self.took: list[float] = []

    def nearest(self, *asked: Any) -> Sequence[int]:
        began = time.perf_counter()
        found = super().nearest(*asked)
        self.took.append((time.perf_counter() - began) * 1000)
        return found


async def measured_keywords(postgres: PostgresServer, lite: MilvusLiteServer, size: int) -> KeywordsMeasured:
    library, found = Library(size), KeywordsMeasured(size)
    database = await PostgresDatabase.open(parsed(postgres.url(f"keywords_{size}")))
    plain = PostgresStore(database, "bench", None)
    collection = await plain.collection(SHAPE)
    for first in range(0, size, _TOGETHER):
        await collection.upsert(library.records[first : first + _TOGETHER])
    postgres.execute("VACUUM ANALYZE")
    index = _TimedIndex(lite.url())
    link = IndexLink(index, 1)
    turn = IndexTurn(database, link.follower)
    store = PostgresStore(database, "bench", None, filling=IndexFilling(link, turn))
    began = time.perf_counter()
    indexed = await store.collection(SHAPE)
    await until(lambda: indexed.feed.is_current(link.follower), "the index has everything", 900)
    found.filled = size / (time.perf_counter() - began)
    common = known = 0
    for query in library.queries:
        exact, took = await _timed(_asking(collection, query))
        found.postgres.append(took)
        near, took = await _timed(_asking(indexed, query))
        found.index.append(took)
        common += len({hit.key for hit in exact.hits} & {hit.key for hit in near.hits})
        known += len(exact.hits)
    found.recall, found.alone = common / known, index.took
    await store.close()
    await plain.close()
    await turn.close()
    await link.close()
    await database.close()
    return found


def _asking(collection: PostgresCollection, query: LexicalQuery) -> Callable[[], Awaitable[EngineHits]]:
    return lambda: collection.search(query, EVERYTHING, 10)


async def _timed(asking: Callable[[], Awaitable[EngineHits]]) -> tuple[EngineHits, float]:
    began = time.perf_counter()
    found = await asking()
    return found, (time.perf_counter() - began) * 1000


def keyword_table(several: Sequence[KeywordsMeasured]) -> str:
    """Return the table."""
    head = (
        "p50 in ms",
        "PostgreSQL",
        "with Milvus Lite",
        "Milvus Lite alone",
        "recall@10",
        "filled a second",
    )
    rows = [
        (
            f"10 best of {each.size:,} for three words",
            f"{statistics.median(each.postgres):.1f}",
            f"{statistics.median(each.index):.1f}",
            f"{statistics.median(each.alone):.1f}",
            f"{each.recall:.4f}",
            f"{each.filled:,.0f}",
        )
        for each in several
    ]
    return table(head, rows)
