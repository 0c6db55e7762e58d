"""The lexical index stays small and right, however its records were written and replaced."""

from __future__ import annotations

from pathlib import Path

from tabane.search.engine import LexicalQuery
from tabane.search.records import EVERYTHING, Contains, Record
from tests.engine.embedded.shapes import SHAPE
from tests.engine.team.postgres.collections import DatabaseCollection, opening, schema_of
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer


def parts(server: PostgresServer, home: Path, token: str) -> int:
    """Return the number of parts that the postings of a token have."""
    schema = schema_of(home)
    tables = " UNION ALL ".join(f"SELECT token FROM {schema}.posting_1_{level}" for level in range(3))
    return int(str(server.execute(f"SELECT count(*) FROM ({tables}) p WHERE token = '{token}'")[0][0]))


async def searched(collection: DatabaseCollection, text: str) -> set[str]:
    hits = await collection.search(LexicalQuery(text), EVERYTHING, 1000)
    return {hit.key for hit in hits.hits}


async def test_many_small_writes_are_joined_and_phrases_still_found(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    async with opening(postgres)(tmp_path, SHAPE) as collection:
        for number in range(100):
            text = f"apple pie {number}" if number % 2 else f"pie apple {number}"
            await collection.upsert([Record(key=f"k{number}", texts={"body": text})])
        assert await searched(collection, "apple") == {f"k{number}" for number in range(100)}
        phrase = LexicalQuery("", phrases=("apple pie",))
        hits = await collection.search(phrase, EVERYTHING, 1000)
        assert {hit.key for hit in hits.hits} == {f"k{number}" for number in range(1, 100, 2)}
    assert 1 < parts(postgres, tmp_path, "t_body appl") < 40


async def test_space_of_joined_parts_is_given_back(postgres: PostgresServer, tmp_path: Path) -> None:
    """The server itself looks once a minute, and here never."""
    table = f"{schema_of(tmp_path)}.posting_1_0"

    def size() -> int:
        return int(str(postgres.execute(f"SELECT pg_total_relation_size('{table}')")[0][0]))

    async with opening(postgres)(tmp_path, SHAPE) as collection:
        postgres.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")

        async def write(first: int) -> None:
            for number in range(first, first + 33):
                text = " ".join(f"word{number}x{place}" for place in range(400))
                await collection.upsert([Record(key=f"k{number}", texts={"body": text})])

        await write(0)
        filled = size()
        for turn in range(1, 6):
            await write(33 * turn)
            await until(lambda: size() < 2 * filled, "space is given back")
        assert await searched(collection, "word3x7") == {"k3"}


async def test_entries_of_replaced_records_are_removed(postgres: PostgresServer, tmp_path: Path) -> None:
    def records(word: str) -> list[Record]:
        return [Record(key=f"k{n}", texts={"body": f"{word} 東京 {n}"}) for n in range(400)]

    async with opening(postgres)(tmp_path, SHAPE) as collection:
        await collection.upsert([Record(key="other", texts={"body": "other 東京"})])
        for turn in range(4):
            await collection.upsert(records(f"word{turn}"))
        await until(lambda: parts(postgres, tmp_path, "t_body word0") == 0, "old entries are removed")
        assert await searched(collection, "word0") == set()
        assert await searched(collection, "word3") == {f"k{number}" for number in range(400)}
        assert len(await searched(collection, "東京")) == 401
        best = (await collection.search(LexicalQuery("other 東京"), EVERYTHING, 1)).hits[0]
        assert best.key == "other"


async def test_texts_that_an_earlier_version_analyzed_are_analyzed_again(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """The rows as version 0.13 wrote them: other spelling, other pairs, other words."""
    schema = schema_of(tmp_path)

    async def found(collection: DatabaseCollection, text: str) -> tuple[set[str], int]:
        return await searched(collection, text), await collection.count(Contains(text))

    texts = {"a": "葛\U000e0100城の駅", "b": "サ−バ−と9時〜17時", "c": "plain words"}
    async with opening(postgres)(tmp_path, SHAPE) as collection:
        await collection.upsert([Record(key=key, texts={"body": text}) for key, text in texts.items()])
    postgres.execute(f"UPDATE {schema}.record_1 SET s_body = 'old', marks = '{{}}'")
    postgres.execute(f"UPDATE {schema}.posting_1_0 SET token = 'old ' || token")
    postgres.execute(f"UPDATE {schema}.collection SET analysis = 1")
    for _ in range(2):
        async with opening(postgres)(tmp_path, SHAPE) as collection:
            assert await found(collection, "葛城") == ({"a"}, 1)
            assert await found(collection, "サーバー") == ({"b"}, 1)
            assert await found(collection, "words") == ({"c"}, 1)
            await collection.upsert([Record(key="d", texts={"body": "later"})])
            assert await found(collection, "later") == ({"d"}, 1)
    assert parts(postgres, tmp_path, "old t_body word") == 0


async def test_a_changed_shape_has_the_values_of_records_that_were_there(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """As after a version of Tabane that did not have the column yet."""
    schema = schema_of(tmp_path)

    async with opening(postgres)(tmp_path, SHAPE) as collection:
        await collection.upsert(
            [
                Record(
                    key="k",
                    texts={"body": "東京 text"},
                    fields={"likes": 3, "tags": ("a", "b"), "open": True},
                )
            ]
        )
    gone = ", ".join(f"DROP COLUMN {name}" for name in ("n_likes", "strings_tags", "boolean_open"))
    postgres.execute(f"ALTER TABLE {schema}.record_1 {gone}")
    async with opening(postgres)(tmp_path, SHAPE) as collection:
        assert await collection.facet("likes", EVERYTHING) == [(3, 1)]
        assert await collection.facet("tags", EVERYTHING) == [("a", 1), ("b", 1)]
        assert await collection.facet("open", EVERYTHING) == [(True, 1)]
