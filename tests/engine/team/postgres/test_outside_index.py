"""A collection whose vectors are also in an index outside of the database is searched as if they were not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest

from tabane.engine.team.postgres.outside_index import LinkState
from tabane.search.engine import EngineHits, VectorQuery
from tabane.search.records import EVERYTHING, EmbeddingSpace, Range, Record
from tests.engine.team.postgres.collections import opening, schema_of
from tests.engine.team.postgres.outside import MemoryIndex, catch_up, linked
from tests.engine.team.postgres.test_approximate_index import DIMENSION, FILTERS, SHAPE, Crowd, asked
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer


@pytest.mark.parametrize("blunt", [False, True], ids=["filters applied", "filters ignored"])
async def test_hits_and_scores_are_those_of_the_exact_search_also_under_filters(
    postgres: PostgresServer, tmp_path: Path, blunt: bool
) -> None:
    crowd, index, exact = Crowd(3000), MemoryIndex(blunt=blunt), dict[str, list[EngineHits]]()
    questions, filters = crowd.questions[:3], {**FILTERS, "most": Range("likes", 900, None)}

    async with opening(postgres)(tmp_path, SHAPE) as collection:
        await collection.upsert(crowd.records())
        for name, where in filters.items():
            exact[name] = [await asked(collection, each, where) for each in questions]
    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        await catch_up(collection, link)
        for name, where in filters.items():
            assert [await asked(collection, each, where) for each in questions] == exact[name], name
    assert index.searches >= 3 * len(questions)


async def test_what_is_acknowledged_is_found_while_the_index_lags(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    crowd, index = Crowd(1500), MemoryIndex()
    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        await collection.upsert(crowd.records())
        await catch_up(collection, link)
        before = index.searches
        for question in crowd.questions[:5]:
            best = [hit.key for hit in (await asked(collection, question, EVERYTHING)).hits]
            await collection.delete(best[:5])
            await collection.upsert([Record(key=f"new{best[0]}", vectors={"text": question})])
            now = [hit.key for hit in (await asked(collection, question, EVERYTHING)).hits]
            assert now[:6] == [f"new{best[0]}", *best[5:]]
            last = (await collection.select(EVERYTHING, limit=1)).records[0]
            await collection.attach({last.row: {"text": question}})
            now = [hit.key for hit in (await asked(collection, question, EVERYTHING)).hits]
            assert set(now[:2]) == {f"new{best[0]}", last.record.key}
        assert index.searches > before


async def test_a_set_of_keywords_that_version_0_17_made_is_dropped(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    crowd, index, schema = Crowd(50), MemoryIndex(), schema_of(tmp_path)
    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        await collection.upsert(crowd.records())
        await catch_up(collection, link)
    [name] = index.sets
    keywords = f"{name.rpartition('_')[0]}_0"
    index.sets[keywords] = deepcopy(index.sets[name])
    postgres.execute(f"""UPDATE {schema}.follower SET note = note::jsonb || '{{"0": "1"}}'""")
    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        await collection.upsert([Record(key="new", vectors={"text": crowd.questions[0]})])
        await catch_up(collection, link)
        best = (await asked(collection, crowd.questions[0], EVERYTHING)).hits[0]
        assert best.key == "new"
    assert index.sets.keys() == {name}


async def test_a_record_that_is_replaced_again_and_again_is_always_found(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    crowd, index = Crowd(600), MemoryIndex()
    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        await collection.upsert(crowd.records())
        await catch_up(collection, link)
        question, done = crowd.questions[0], asyncio.Event()

        async def replacing() -> None:
            for number in range(60):
                await collection.upsert(
                    [Record(key="it", fields={"likes": number}, vectors={"text": question})]
                )
            done.set()

        await collection.upsert([Record(key="it", vectors={"text": question})])
        writer = asyncio.create_task(replacing())
        while not done.is_set():
            hits = (await asked(collection, question, EVERYTHING)).hits
            assert hits[0].key == "it"
        await writer


async def test_without_the_index_searches_go_on_and_it_catches_up_when_it_is_back(
    postgres: PostgresServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    crowd, index = Crowd(900), MemoryIndex()
    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        records = crowd.records()
        await collection.upsert(records[:600])
        await catch_up(collection, link)
        index.away = True
        with caplog.at_level(logging.INFO):
            for question in crowd.questions[:5]:
                assert (await asked(collection, question, EVERYTHING)).total == 600
            assert link.state is LinkState.AWAY
            await collection.upsert(records[600:])
            found = await asked(collection, records[700].vectors["text"], EVERYTHING)
            assert found.hits[0].key == records[700].key
            index.away = False
            await catch_up(collection, link)
            await until(lambda: link.state is LinkState.READY, "the index is used again")
        said = [each.message for each in caplog.records if "vector index" in each.message]
        assert len([text for text in said if "without the vector index" in text]) == 1
        assert len([text for text in said if "again" in text]) == 1
        before = index.searches
        assert (await asked(collection, crowd.questions[0], EVERYTHING)).total == 900
        assert index.searches > before


def _wipe(index: MemoryIndex, _: MemoryIndex) -> None:
    index.sets.clear()


def _restore(index: MemoryIndex, older: MemoryIndex) -> None:
    index.sets = older.sets


@pytest.mark.parametrize("harm", [_wipe, _restore])
async def test_an_index_that_was_emptied_or_restored_is_filled_again(
    postgres: PostgresServer, tmp_path: Path, harm: Callable[[MemoryIndex, MemoryIndex], None]
) -> None:
    crowd, index, older = Crowd(900), MemoryIndex(), MemoryIndex()

    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        records = crowd.records()
        await collection.upsert(records[:300])
        await catch_up(collection, link)
        older.sets = deepcopy(index.sets)
        await collection.upsert(records[300:])
        await catch_up(collection, link)
    harm(index, older)
    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):

        def is_filled() -> bool:
            return [len(each.vectors) for each in index.sets.values()] == [900]

        await until(is_filled, "the index is filled again")
        await catch_up(collection, link)
        assert (await asked(collection, crowd.questions[0], EVERYTHING)).total == 900


async def test_spaces_that_are_dropped_added_and_renamed_are_followed(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    crowd, index = Crowd(300), MemoryIndex()
    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        await collection.upsert(crowd.records())
        await catch_up(collection, link)
        await collection.add_space(EmbeddingSpace("other", DIMENSION))
        rows = [stored.row for stored in (await collection.select(EVERYTHING, limit=1000)).records]
        await collection.attach({row: {"other": crowd.vectors[0].tobytes()} for row in rows[:50]})
        await catch_up(collection, link)
        assert sorted(len(each.vectors) for each in index.sets.values()) == [50, 300]
        await collection.succeed("text", by="other")
        await catch_up(collection, link)
        assert [len(each.vectors) for each in index.sets.values()] == [50]
        found = await collection.nearest(VectorQuery({"text": crowd.questions[0]}), EVERYTHING, 10)
        assert found.total == 50


async def test_one_of_two_hubs_fills_the_index_and_the_other_goes_on_when_it_ends(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    crowd, index = Crowd(600), MemoryIndex()
    records = crowd.records()
    async with linked(postgres, index, tmp_path, SHAPE) as (second, there):
        async with linked(postgres, index, tmp_path, SHAPE) as (first, here):
            await first.upsert(records[:300])
            await catch_up(first, here)
            assert (await asked(second, crowd.questions[0], EVERYTHING)).total == 300
        await second.upsert(records[300:])
        await catch_up(second, there)
    assert [len(each.vectors) for each in index.sets.values()] == [600]


async def test_few_vectors_and_filters_that_leave_few_are_searched_without_it(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    crowd, index = Crowd(600), MemoryIndex()
    async with linked(postgres, index, tmp_path, SHAPE, 601) as (collection, link):
        await collection.upsert(crowd.records())
        await catch_up(collection, link)
        for where in (EVERYTHING, FILTERS["few"]):
            await asked(collection, crowd.questions[0], where)
        assert index.searches == 0
