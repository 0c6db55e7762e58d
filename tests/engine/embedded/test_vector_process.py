"""Searches in the second process: equal answers, no stale ones, and none lost when it dies."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from tabane.engine.embedded.columns import ColumnSnapshot
from tabane.engine.embedded.vector_process import ForeseenMatches, VectorSearchProcess
from tabane.engine.embedded.vectors.space_index import Moment
from tabane.engine.vector_request import VectorRequest
from tabane.search.engine import EngineHits, JoinedRecords, NearestRequest, VectorQuery
from tabane.search.records import (
    EVERYTHING,
    And,
    EmbeddingSpace,
    Equal,
    Field,
    Kind,
    Record,
    Shape,
    TextField,
)
from tests.engine.embedded.opening import EmbeddedCollection, embedded

COUNT, DIMENSION = 5000, 64  # enough vectors and dimensions for codes
SHAPE = Shape(
    "notes", (TextField("body"),), (Field("tag", Kind.STRING),), (EmbeddingSpace("one", DIMENSION),)
)
VECTORS = np.random.default_rng(5).standard_normal((COUNT, DIMENSION), dtype=np.float32)
QUERIES = np.random.default_rng(6).standard_normal((12, DIMENSION), dtype=np.float32)
FAR = -QUERIES[0]

Process = VectorSearchProcess


def record(key: str, vector: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> Record:
    packed = vector.astype("<f4").tobytes()
    return Record(key=key, texts={"body": key}, fields={"tag": "t"}, vectors={"one": packed})


def request(number: int = 0, limit: int = 10) -> NearestRequest:
    return NearestRequest(VectorQuery({"one": QUERIES[number].astype("<f4").tobytes()}), EVERYTHING, limit)


async def hits(collection: EmbeddedCollection, asked: NearestRequest) -> EngineHits:
    async def asking(posts: JoinedRecords) -> EngineHits:
        return await posts.nearest(asked.query, asked.where, asked.limit)

    return await collection.together(asking, first=asked)


@asynccontextmanager
async def open_collection(process: Process, count: int = COUNT) -> AsyncIterator[EmbeddedCollection]:
    async with embedded(shape=SHAPE, searching=lambda: process) as collection:
        await collection.upsert([record(f"k{n}", VECTORS[n]) for n in range(count)])
        assert collection.engine.table.vectors is not None
        await asyncio.to_thread(collection.engine.table.vectors.settle)
        await collection.upsert([record("last", FAR)])  # shows what is in the files by now
        yield collection
    assert process.pid is None


def eager(between: float = 0.0) -> Process:
    """A process that takes every question."""
    return VectorSearchProcess(many=1, crowded=1, smallest=1, between=between, rest=0.0)


async def test_the_process_answers_as_the_hub_does() -> None:
    process = eager()
    async with open_collection(process) as collection:
        expected = [await hits(collection, request(number)) for number in range(12)]
        assert process.answered == 0
        await process.start()
        found = await asyncio.gather(*(hits(collection, request(number)) for number in range(12)))
        assert found == expected
        assert process.answered == 12


@pytest.mark.heavy("thousands of records")
async def test_every_write_is_seen_by_the_next_question() -> None:
    """The process is sent each moment at once here; below, the hub searches until the next one is sent."""

    for between in (0.0, 3600.0):
        process = eager(between)
        async with open_collection(process) as collection:
            await process.start()
            for number in range(3):
                await collection.upsert([record(f"new{number}", QUERIES[number])])
                assert (await hits(collection, request(number))).hits[0].key == f"new{number}"
                await collection.upsert([record(f"new{number}", FAR)])
                assert (await hits(collection, request(number))).hits[0].key != f"new{number}"
                best = (await hits(collection, request(number))).hits[0].key
                await collection.delete([best])
                assert best not in {hit.key for hit in (await hits(collection, request(number))).hits}
            assert (process.answered == 12) is (between == 0.0)
        assert process.answered > 0


async def test_a_record_that_is_deleted_after_it_was_found_is_not_a_hit() -> None:
    class Late(VectorSearchProcess):
        """Loses the best record after the process has answered."""

        async def search(
            self, snapshot: ColumnSnapshot, moment: Moment, request: VectorRequest, wanted: int
        ) -> ForeseenMatches | None:
            found = await super().search(snapshot, moment, request, wanted)
            await there[0].delete([best[0]])
            return found

    there: list[EmbeddedCollection] = []
    best: list[str] = []
    process = Late(many=1, crowded=1, smallest=1)
    async with open_collection(process) as collection:
        there.append(collection)
        expected = (await collection.nearest(request().query, EVERYTHING, 11)).hits
        best.append(expected[0].key)
        await process.start()
        assert (await hits(collection, request())).hits == expected[1:]
        assert process.answered == 1


@pytest.mark.heavy("thousands of records")
async def test_questions_outlive_the_process_and_another_one_is_started() -> None:
    process = eager()
    async with open_collection(process) as collection:
        expected = [await hits(collection, request(number)) for number in range(12)]
        await process.start()
        for _ in range(3):
            before = process.pid
            assert before is not None
            asked = [asyncio.create_task(hits(collection, request(number))) for number in range(12)]
            await asyncio.sleep(0)
            os.kill(before, signal.SIGKILL)
            assert await asyncio.gather(*asked) == expected
            await process.start()
            assert process.pid not in (None, before)
        answered = process.answered
        assert [await hits(collection, request(number)) for number in range(12)] == expected
        assert process.answered == answered + 12


async def test_what_the_process_cannot_search_is_searched_by_the_hub() -> None:
    process = eager()
    async with open_collection(process) as collection:
        await process.start()
        asked = NearestRequest(request().query, And((Equal("tag", "t"), EVERYTHING)), 10)
        assert await hits(collection, asked) == await hits(collection, request())
        assert process.answered == 1
        index = collection.engine.table.vectors
        assert index is not None
        # Files that are gone cannot be mapped by a process that starts later.
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        view = index.moment(collection.changes)
        assert view is not None
        folder = f"{collection.engine.table.vector_folder}"
        os.rename(folder, folder + ".gone")
        try:
            await process.start()
            assert (await hits(collection, request())).hits == (await hits(collection, asked)).hits
            assert process.answered == 1
        finally:
            os.rename(folder + ".gone", folder)


async def test_few_questions_and_small_collections_start_no_process() -> None:
    process = VectorSearchProcess(smallest=1)
    async with open_collection(process) as collection:
        for _ in range(40):
            await hits(collection, request())
        assert process.crowds == 0
    process = VectorSearchProcess(smallest=COUNT + 1)
    async with open_collection(process) as collection:
        await asyncio.gather(*(hits(collection, request()) for _ in range(60)))
    assert process.crowds == 0


@pytest.mark.heavy("thousands of records")
async def test_a_crowd_starts_the_process() -> None:
    process = VectorSearchProcess(smallest=1)
    async with open_collection(process) as collection:
        await asyncio.gather(*(hits(collection, request()) for _ in range(60)))
        assert process.crowds == 1
        await process.start()
        assert process.answered == 0
        await asyncio.gather(*(hits(collection, request()) for _ in range(60)))
        assert process.answered > 0
