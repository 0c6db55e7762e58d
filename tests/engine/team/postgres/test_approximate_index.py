"""Large collections are searched by an approximate index, with the hits and scores of the exact search."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import psycopg
import pytest

from tabane.hub.stores.postgres_engine import PostgresEngine
from tabane.search.engine import EngineHits, VectorQuery
from tabane.search.records import EVERYTHING, EmbeddingSpace, Equal, Field, Filter, Kind, Range, Record, Shape
from tests.engine.team.postgres.collections import DatabaseCollection, opening, schema_of
from tests.harness.patience import until, wait_until
from tests.harness.postgres_server import PostgresServer, postgres_server

DIMENSION = 32
SHAPE = Shape(
    "notes",
    fields=(Field("author", Kind.STRING), Field("likes", Kind.NUMBER)),
    spaces=(EmbeddingSpace("text", DIMENSION),),
)
INDEX = "near_vector_1_1"


class Crowd:
    """Records whose vectors lie around centers, and questions about them."""

    def __init__(self, size: int) -> None:
        chance = np.random.default_rng(5)
        centers = chance.standard_normal((50, DIMENSION))
        places = chance.integers(0, 50, size)
        self.vectors = (centers[places] + 0.5 * chance.standard_normal((size, DIMENSION))).astype("<f4")
        asked = centers[:40] + 0.3 * chance.standard_normal((40, DIMENSION))
        self.questions = [each.astype("<f4").tobytes() for each in asked]

    def records(self) -> list[Record]:
        return [
            Record(
                key=f"k{number:05}",
                fields={"author": f"a{number % 4}", "likes": number},
                vectors={"text": vector.tobytes()},
            )
            for number, vector in enumerate(self.vectors)
        ]


def is_ready(server: PostgresServer, home: Path) -> bool:
    found = server.execute(
        f"SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{schema_of(home)}.{INDEX}')"
    )
    return bool(found and found[0][0])


def uses(server: PostgresServer, home: Path) -> int:
    """Return how many searches used the index. The server counts those of a connection when it has ended."""
    found = server.execute(
        "SELECT idx_scan FROM pg_stat_user_indexes "
        f"WHERE schemaname = '{schema_of(home)}' AND indexrelname = '{INDEX}'"
    )
    return int(str(found[0][0])) if found else 0


async def asked(collection: DatabaseCollection, vector: bytes, where: Filter) -> EngineHits:
    return await collection.nearest(VectorQuery({"text": vector}), where, 10)


FILTERS: dict[str, Filter] = {
    "all": EVERYTHING,
    "three quarters": Range("likes", 0, 4500),
    "half": Range("likes", 3000, None),
    "one in four": Equal("author", "a2"),
    "few": Range("likes", 100, 140),
    "none": Equal("author", "nobody"),
}


@pytest.mark.heavy("a real PostgreSQL")
@pytest.mark.parametrize("bare", [0, 1], ids=["all with vectors", "one without"])
async def test_hits_and_scores_are_those_of_the_exact_search_also_under_filters(
    postgres: PostgresServer, tmp_path: Path, bare: int
) -> None:
    crowd = Crowd(6000)
    exact: dict[str, list[EngineHits]] = {}

    async with opening(postgres, 100_000)(tmp_path, SHAPE) as collection:
        await collection.upsert(crowd.records())
        await collection.upsert([Record(key="bare", fields={"author": "a2", "likes": 7})] * bare)
        for name, where in FILTERS.items():
            exact[name] = [await asked(collection, each, where) for each in crowd.questions]
    assert not is_ready(postgres, tmp_path)
    async with opening(postgres, 1000)(tmp_path, SHAPE) as collection:
        await until(lambda: is_ready(postgres, tmp_path), "the index is built")
        for name, where in FILTERS.items():
            common = 0
            for question, known in zip(crowd.questions, exact[name], strict=True):
                found = await asked(collection, question, where)
                scores = {hit.key: hit.score for hit in known.hits}
                assert found.total == known.total
                assert len(found.hits) == len(known.hits)
                same = [hit for hit in found.hits if hit.key in scores]
                assert all(hit.score == scores[hit.key] for hit in same)
                common += len(same)
            assert common >= 0.99 * sum(len(known.hits) for known in exact[name]), name
    enough = 2 * len(crowd.questions)
    wait_until(lambda: uses(postgres, tmp_path) >= enough, "the server has counted uses of the index")


async def test_few_vectors_have_no_index_and_more_of_them_get_one(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    crowd = Crowd(600)
    async with opening(postgres, 500)(tmp_path, SHAPE) as collection:
        records = crowd.records()
        await collection.upsert(records[:400])
        await asked(collection, crowd.questions[0], EVERYTHING)
        assert not is_ready(postgres, tmp_path)
        await collection.upsert(records[400:])
        await until(lambda: is_ready(postgres, tmp_path), "the index is built")


@pytest.mark.heavy("a real PostgreSQL")
async def test_changes_are_found_and_deleted_records_are_not(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    crowd = Crowd(1500)
    async with opening(postgres, 500)(tmp_path, SHAPE) as collection:
        await collection.upsert(crowd.records())
        await until(lambda: is_ready(postgres, tmp_path), "the index is built")
        for question in crowd.questions[:10]:
            best = [hit.key for hit in (await asked(collection, question, EVERYTHING)).hits]
            await collection.delete(best[:5])
            await collection.upsert([Record(key=f"new{best[0]}", vectors={"text": question})])
            now = [hit.key for hit in (await asked(collection, question, EVERYTHING)).hits]
            assert now[:6] == [f"new{best[0]}", *best[5:]]


@pytest.mark.heavy("a real PostgreSQL")
async def test_an_invalid_or_lost_index_is_built_again_and_searches_are_right_meanwhile(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    crowd = Crowd(1500)
    async with opening(postgres, 500)(tmp_path, SHAPE) as collection:
        await collection.upsert(crowd.records())
        await until(lambda: is_ready(postgres, tmp_path), "the index is built")
        known = [await asked(collection, each, EVERYTHING) for each in crowd.questions]
        schema = schema_of(tmp_path)
        for damage in (
            f"DROP INDEX {schema}.{INDEX}",
            f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{schema}.{INDEX}'::regclass",
        ):
            postgres.execute(damage)
            for question, before in zip(crowd.questions, known, strict=True):
                assert await asked(collection, question, EVERYTHING) == before
            await until(lambda: is_ready(postgres, tmp_path), "the index is built again")


@pytest.mark.heavy("a real PostgreSQL")
async def test_a_dropped_space_takes_its_index_with_it(postgres: PostgresServer, tmp_path: Path) -> None:
    crowd = Crowd(1500)
    async with opening(postgres, 500)(tmp_path, SHAPE) as collection:
        await collection.upsert(crowd.records())
        await until(lambda: is_ready(postgres, tmp_path), "the index is built")
        await collection.drop_space("text")
        query = f"SELECT to_regclass('{schema_of(tmp_path)}.{INDEX}')"
        await until(lambda: postgres.execute(query) == [(None,)], "the index is gone")


@pytest.mark.heavy("a real PostgreSQL")
async def test_a_renamed_space_keeps_its_index(postgres: PostgresServer, tmp_path: Path) -> None:
    crowd = Crowd(1500)
    async with opening(postgres, 500)(tmp_path, SHAPE) as collection:
        await collection.upsert(crowd.records())
        await until(lambda: is_ready(postgres, tmp_path), "the index is built")
        known = await asked(collection, crowd.questions[0], EVERYTHING)
        await collection.succeed("other", by="text")
        found = await collection.nearest(VectorQuery({"other": crowd.questions[0]}), EVERYTHING, 10)
        assert found == known


async def test_equal_vectors_come_in_order_of_keys_also_with_the_index(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    vector = np.ones(DIMENSION, dtype="<f4").tobytes()
    async with opening(postgres, 500)(tmp_path, SHAPE) as collection:
        await collection.upsert([Record(key=f"k{n:04}", vectors={"text": vector}) for n in range(900)][::-1])
        await until(lambda: is_ready(postgres, tmp_path), "the index is built")
        query = VectorQuery({"text": vector})
        keys: list[str] = []
        for offset in range(0, 60, 20):
            keys += [hit.key for hit in (await collection.nearest(query, EVERYTHING, 20, offset)).hits]
        assert keys == [f"k{n:04}" for n in range(60)]


async def test_numbers_out_of_the_range_of_half_precision_are_indexed(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    crowd = Crowd(900)
    async with opening(postgres, 500)(tmp_path, SHAPE) as collection:
        scaled = [
            (each * scale).astype("<f4").tobytes()
            for each, scale in zip(crowd.vectors, [1e9, 1e-9, 1e20] * 300, strict=True)
        ]
        await collection.upsert(
            [Record(key=f"k{n}", vectors={"text": each}) for n, each in enumerate(scaled)]
        )
        await until(lambda: is_ready(postgres, tmp_path), "the index is built")
        for number in range(0, 900, 100):
            hits = (await asked(collection, scaled[number], EVERYTHING)).hits
            assert hits[0].key == f"k{number}"


@pytest.fixture
def mortal() -> Iterator[PostgresServer]:
    """A server of the test's own, which it may kill."""
    with postgres_server() as server:
        yield server


@contextmanager
def held_builds(server: PostgresServer) -> Iterator[None]:
    """Keep builds from ending: they wait for transactions that are older."""
    with server.connect() as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")
        yield
        if not connection.closed:
            connection.execute("COMMIT")


def is_begun(server: PostgresServer, home: Path) -> bool:
    """Return whether the index is there, but not complete."""
    there = server.execute(f"SELECT to_regclass('{schema_of(home)}.{INDEX}')") != [(None,)]
    return there and not is_ready(server, home)


@pytest.mark.heavy("a real PostgreSQL")
async def test_writes_and_searches_go_on_while_an_index_is_built(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    crowd = Crowd(1500)
    async with opening(postgres, 500)(tmp_path, SHAPE) as collection:
        records = crowd.records()
        with held_builds(postgres):
            await collection.upsert(records[:1000])
            await until(lambda: is_begun(postgres, tmp_path), "the build has begun")
            await collection.upsert(records[1000:])
            known = [await asked(collection, each, EVERYTHING) for each in crowd.questions]
            assert known[0].total == 1500
            assert is_begun(postgres, tmp_path)
        await until(lambda: is_ready(postgres, tmp_path), "the index is built")
        assert [await asked(collection, each, EVERYTHING) for each in crowd.questions] == known


async def test_closing_does_not_wait_for_a_build_and_the_next_opening_repeats_it(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    crowd = Crowd(1000)

    with held_builds(postgres):
        async with opening(postgres, 500)(tmp_path, SHAPE) as collection:
            await collection.upsert(crowd.records())
            await until(lambda: is_begun(postgres, tmp_path), "the build has begun")
        assert not is_ready(postgres, tmp_path)
    async with opening(postgres, 500)(tmp_path, SHAPE):
        await until(lambda: is_ready(postgres, tmp_path), "the index is built")


async def test_a_build_whose_connection_ends_is_repeated(postgres: PostgresServer, tmp_path: Path) -> None:
    crowd = Crowd(1000)
    async with opening(postgres, 500)(tmp_path, SHAPE) as collection:
        with held_builds(postgres):
            await collection.upsert(crowd.records())
            await until(lambda: is_begun(postgres, tmp_path), "the build has begun")
            await asyncio.to_thread(postgres.end_connections)

        async def built() -> bool:
            await asked(collection, crowd.questions[0], EVERYTHING)
            return is_ready(postgres, tmp_path)

        await until(built, "the index is built again")


@pytest.mark.heavy("a real PostgreSQL")
async def test_an_index_whose_server_is_killed_during_the_build_is_built_again(
    mortal: PostgresServer, tmp_path: Path
) -> None:
    crowd = Crowd(1500)
    known: list[EngineHits] = []

    with suppress(psycopg.OperationalError), held_builds(mortal):
        async with opening(mortal, 500)(tmp_path, SHAPE) as collection:
            await collection.upsert(crowd.records())
            known.extend([await asked(collection, each, EVERYTHING) for each in crowd.questions])
            await until(lambda: is_begun(mortal, tmp_path), "the build has begun")
            await asyncio.to_thread(mortal.kill)
    mortal.start()
    assert is_begun(mortal, tmp_path)
    async with opening(mortal, 500)(tmp_path, SHAPE) as collection:
        for _ in range(2):
            assert [await asked(collection, each, EVERYTHING) for each in crowd.questions] == known
            await until(lambda: is_ready(mortal, tmp_path), "the index is built again")
    wait_until(lambda: uses(mortal, tmp_path) > 0, "the server has counted uses of the index")


async def test_several_hubs_build_one_index(postgres: PostgresServer, tmp_path: Path) -> None:
    crowd = Crowd(1500)
    engine = opening(postgres, 500)
    async with engine(tmp_path, SHAPE) as one, engine(tmp_path, SHAPE) as other:
        records = crowd.records()
        await asyncio.gather(one.upsert(records[:750]), other.upsert(records[750:]))
        await until(lambda: is_ready(postgres, tmp_path), "the index is built")
        for question in crowd.questions:
            assert await asked(one, question, EVERYTHING) == await asked(other, question, EVERYTHING)


async def test_the_report_says_which_index_is_there(postgres: PostgresServer, tmp_path: Path) -> None:
    crowd = Crowd(1000)
    url = postgres.url(schema_of(tmp_path))
    async with opening(postgres, 500)(tmp_path, SHAPE) as collection:
        engine = PostgresEngine(url, 500)

        async def state() -> list[str]:
            found = await engine.report()
            return [f"{each['collection']} {each['vectors']} {each['state']}" for each in found["indexes"]]

        assert await state() == []
        with held_builds(postgres):
            await collection.upsert(crowd.records())
            await until(lambda: is_begun(postgres, tmp_path), "the build has begun")
            assert await state() == ["notes 1000 building"]
        await until(lambda: is_ready(postgres, tmp_path), "the index is built")
        assert await state() == ["notes 1000 ready"]
        postgres.execute(f"DROP INDEX {schema_of(tmp_path)}.{INDEX}")
        assert await state() == ["notes 1000 missing"]
        await engine.close()
