"""Keywords that are searched with an index outside of the database are found as if they were not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabane.search.engine import LexicalQuery
from tabane.search.records import EVERYTHING, Record
from tests.engine.team.postgres.collections import DatabaseCollection
from tests.engine.team.postgres.outside import MemoryIndex, catch_up, linked
from tests.engine.team.postgres.outside_keyword_checks import (
    FILTERS,
    SHAPE,
    Library,
    check_keywords,
    exact_hits,
)
from tests.harness.postgres_server import PostgresServer


async def keys(collection: DatabaseCollection, text: str) -> set[str]:
    found = await collection.search(LexicalQuery(text), EVERYTHING, 50)
    return {hit.key for hit in found.hits}


@pytest.mark.heavy("a real PostgreSQL")
async def test_hits_and_scores_are_those_of_the_database_alone(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    library, index = Library(1500), MemoryIndex(sparse=True)
    exact = await exact_hits(postgres, tmp_path, library)
    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        await catch_up(collection, link)
        await check_keywords(collection, library, exact)
    assert index.searches >= len(FILTERS) * len(library.queries)


async def test_what_is_acknowledged_is_found_and_what_is_deleted_is_not(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    index = MemoryIndex(sparse=True)
    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        await collection.upsert([Record(key=f"k{n}", texts={"body": "rain in Kyoto"}) for n in range(9)])
        await catch_up(collection, link)
        for number in range(9):
            await collection.upsert([Record(key=f"new{number}", texts={"title": "more rain"})])
            await collection.delete([f"k{number}"])
            expected = {f"k{n}" for n in range(number + 1, 9)} | {f"new{n}" for n in range(number + 1)}
            assert await keys(collection, "rain") == expected
        await catch_up(collection, link)
        assert await keys(collection, "rain") == {f"new{n}" for n in range(9)}
    assert index.searches > 0


async def test_texts_that_were_there_before_are_found_when_the_index_takes_them(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    index = MemoryIndex()

    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        await collection.upsert([Record(key="k", texts={"body": "rain"})])
        await catch_up(collection, link)
    index.sparse = True
    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        await catch_up(collection, link)
        await collection.upsert([Record(key="new", texts={"body": "rain"})])
        await catch_up(collection, link)
        assert await keys(collection, "rain") == {"k", "new"}
    assert index.searches > 0
