"""What holds for every index outside of the database: recall, filters, changes, and a kill during writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from tabane.engine.candidate_index import CandidateIndex
from tabane.engine.team.postgres.outside_index import LinkState
from tabane.search.engine import EngineHits
from tabane.search.records import EVERYTHING, Range, Record
from tests.engine.team.postgres.collections import DatabaseCollection, opening
from tests.engine.team.postgres.outside import catch_up, linked
from tests.engine.team.postgres.test_approximate_index import FILTERS, SHAPE, Crowd, asked
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer


class CountsSearches:
    """Counts the searches that an index answered."""

    answered = 0

    def nearest(self, *arguments: Any, **options: Any) -> Any:
        found = super().nearest(*arguments, **options)  # type: ignore[misc]
        self.answered += 1
        return found


class ServerOfIndex(Protocol):
    def start(self) -> object: ...

    def kill(self) -> object: ...


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
    collection: DatabaseCollection, crowd: Crowd, exact: dict[str, list[EngineHits]]
) -> None:
    for name, where in FILTERED.items():
        found = [await asked(collection, each, where) for each in crowd.questions]
        assert [each.total for each in found] == [each.total for each in exact[name]]
        check_hits(found, exact[name])


def check_hits(found: list[EngineHits], exact: list[EngineHits]) -> None:
    """Check that scores are exact, and that one of 100 hits is missing at most."""
    common = 0
    for some, known in zip(found, exact, strict=True):
        scores = {hit.key: hit.score for hit in known.hits}
        assert len(some.hits) == len(known.hits)
        same = [hit for hit in some.hits if hit.key in scores]
        assert all(hit.score == scores[hit.key] for hit in same)
        common += len(same)
    assert common >= 0.99 * sum(len(known.hits) for known in exact)


async def check_changes(collection: DatabaseCollection, crowd: Crowd) -> None:
    for question in crowd.questions[:5]:
        best = [hit.key for hit in (await asked(collection, question, EVERYTHING)).hits]
        await collection.delete(best[:5])
        await collection.upsert([Record(key=f"new{best[0]}", vectors={"text": question})])
        now = [hit.key for hit in (await asked(collection, question, EVERYTHING)).hits]
        assert now[:6] == [f"new{best[0]}", *best[5:]]


def opposite(crowd: Crowd, number: int) -> bytes:
    """Return a vector that is far from all others."""
    return bytes((crowd.vectors[number % len(crowd.vectors)] * -1).tobytes())


async def write_during_kill(collection: DatabaseCollection, crowd: Crowd, kill: Callable[[], object]) -> int:
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
    await asyncio.to_thread(kill)
    killed.set()
    await writer
    return count


async def check_written(collection: DatabaseCollection, crowd: Crowd, numbers: Iterable[int]) -> None:
    for number in numbers:
        found = await asked(collection, opposite(crowd, number), EVERYTHING)
        assert f"killed{number}" in {hit.key for hit in found.hits}


async def wait_until_used(collection: DatabaseCollection, index: CountsSearches, question: bytes) -> None:
    async def is_used() -> bool:
        before = index.answered
        await asked(collection, question, EVERYTHING)
        return index.answered > before

    await until(is_used, "the index is used")


async def check_server(
    postgres: PostgresServer, server: ServerOfIndex, index: CandidateIndex, home: Path, crowd: Crowd
) -> None:
    """Check recall, changes, and a kill of the server during writes."""
    assert isinstance(index, CountsSearches)
    exact = await exact_hits(postgres, home, crowd)
    async with linked(postgres, index, home, SHAPE) as (collection, link):
        await catch_up(collection, link)
        await check_recall(collection, crowd, exact)
        assert index.answered >= 3 * len(crowd.questions)
        await check_changes(collection, crowd)
        await catch_up(collection, link)
        count = await write_during_kill(collection, crowd, server.kill)
        await check_written(collection, crowd, (0, 20, count - 1))
        assert link.state is LinkState.AWAY
        await asyncio.to_thread(server.start)
        await catch_up(collection, link)
        await wait_until_used(collection, index, crowd.questions[0])
        await check_written(collection, crowd, range(0, count, 7))
