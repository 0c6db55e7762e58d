"""`tabane migrate`: from a home to PostgreSQL and back, interrupted, refused."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from msgspec import structs

from tabane.documents import document
from tabane.engine.embedded.lexical.lexical_index import open_lexical
from tabane.engine.embedded.store import Store
from tabane.engine.team.postgres.database import PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.store import PostgresStore
from tabane.search.engine import Collection, LexicalQuery, VectorQuery
from tabane.search.pipeline import hybrid
from tabane.search.records import EVERYTHING, EmbeddingSpace, Record
from tests.harness.home import Home
from tests.harness.home import hub as running
from tests.harness.patience import wait_until
from tests.harness.postgres_server import PostgresServer, postgres_server
from tests.harness.stored_collections import DOCUMENTS, POSTS, contents, documents, fill, posts

pytestmark = pytest.mark.heavy("moves archives between real engines")

ROUNDS = int(os.environ.get("TABANE_TEST_KILLS", "3"))
QUALITY = Path(__file__).parents[1] / "search" / "quality"
MANY = 14_000  # records: several batches


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as found:
        yield found


@pytest.fixture
def schema(tmp_path: Path) -> str:
    return f"t{abs(hash(str(tmp_path)))}"


@pytest.fixture
def url(server: PostgresServer, schema: str) -> str:
    return server.url(schema)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def interrupted(home: Home, source: str, target: str, far_enough: Callable[[], bool]) -> None:
    """Start a migration, and kill it with -9 when it is far enough."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tabane", "migrate", "--from", source, "--to", target],
        env=home.environment,
        cwd=home.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: far_enough() or process.poll() is not None, "the migration is far enough")
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the migration ended before it was killed"


def test_everything_moves_to_a_database_and_back(home: Home, url: str) -> None:
    """Deleted records, null characters, tiny vectors, absent fields and vectors included."""
    fill(home.tabane, "documents", DOCUMENTS, documents(700), gone=["d000003", "d000500"])
    fill(home.tabane, "posts", POSTS, posts(120))
    there = home.json("migrate", "--from", str(home.tabane), "--to", url)
    counts = {each["name"]: (each["records"], each["vectors"]) for each in there["collections"]}
    assert counts["documents"] == (698, {"text": 629})
    assert counts["posts"] == (120, {"content": 120, "summary": 80})
    assert all(each["queries"] > 40 for each in there["collections"] if each["records"])
    back = home.folder / "back"
    home.json("migrate", "--from", url, "--to", str(back))
    for domain, shape in (("documents", DOCUMENTS), ("posts", POSTS)):
        assert contents(back, domain, shape) == contents(home.tabane, domain, shape)


ARCHIVE = replace(document.SHAPE, spaces=(EmbeddingSpace("text", 16, "pairs of letters"),))
FIRST = 10  # hits of each query that are compared
ROUNDING = 3e-5  # of a score, as a part of it: the engines add in another order, and in 32 bits


def archive() -> tuple[list[Record], list[str]]:
    """Return records in Japanese and English, short and long, and more than 200 queries in both languages."""
    corpora = [json.loads((QUALITY / name).read_text("utf-8")) for name in ("corpus.json", "notes.json")]
    texts = {each["key"]: each["text"] for corpus in corpora for each in corpus["docs"]}
    texts |= {f"long/{place}": " ".join(list(texts.values())[place::9]) for place in range(9)}
    queries = [each["q"] for corpus in corpora for each in corpus["queries"]]
    queries += [text[:40] for text in list(texts.values())[::3]]
    assert len(queries) > 200
    assert 40 < sum(query.isascii() for query in queries) < 160
    return [
        Record(key=key, texts={"text": text}, fields={"part": "chunk"}, vectors={"text": pairs_vector(text)})
        for key, text in texts.items()
    ], queries


def pairs_vector(text: str) -> bytes:
    """Return a vector of a text that has pairs of letters in common with others."""
    sums = [0.1] * 16
    for pair in itertools.pairwise(text):
        sums[zlib.crc32("".join(pair).encode()) % 16] += 1.0
    return struct.pack("<16f", *sums)


Answers = list[list[tuple[str, float]]]


async def answers(collection: Collection, queries: Sequence[str]) -> Answers:
    """Return keys and scores of the first hits of each query: by words, by vectors, by both."""
    found: Answers = []
    for query in queries:
        words, meaning = LexicalQuery(query), VectorQuery({"text": pairs_vector(query)})
        for ranking in (
            (await collection.search(words, EVERYTHING, FIRST)).hits,
            (await collection.nearest(meaning, EVERYTHING, FIRST)).hits,
            (await hybrid(collection, words, meaning, EVERYTHING, FIRST)).hits,
        ):
            found.append([(hit.key, hit.score) for hit in ranking])
    return found


async def answers_of_home(home: Path, queries: Sequence[str]) -> Answers:
    store = await Store.open(str(home / "store"), "documents", lexical=open_lexical)
    try:
        return await answers(await store.collection(ARCHIVE), queries)
    finally:
        await store.close()


async def answers_of_database(url: str, queries: Sequence[str], indexed_from: int | None = None) -> Answers:
    database = await PostgresDatabase.open(parsed(url))
    store = PostgresStore(database, "documents", None, indexed_from)
    try:
        return await answers(await store.collection(ARCHIVE), queries)
    finally:
        await store.close()
        await database.close()


def check_equal(found: Answers, expected: Answers) -> None:
    """Check that the same hits come in the same order, with scores that differ by rounding alone.

    Hits whose scores are that close may change places.
    """
    for ours, theirs in zip(found, expected, strict=True):
        known = dict(theirs)
        assert [score for _, score in ours] == pytest.approx([score for _, score in theirs], rel=ROUNDING)
        for (key, score), (other, last) in zip(ours, theirs, strict=True):
            assert key == other or known.get(key, last) == pytest.approx(score, rel=ROUNDING)


def test_a_japanese_and_english_archive_answers_as_before_there_and_back(home: Home, url: str) -> None:
    records, queries = archive()
    fill(home.tabane, "documents", ARCHIVE, records)
    before = asyncio.run(answers_of_home(home.tabane, queries))
    home.json("migrate", "--from", str(home.tabane), "--to", url)
    check_equal(asyncio.run(answers_of_database(url, queries)), before)
    back = home.folder / "back"
    home.json("migrate", "--from", url, "--to", str(back))
    check_equal(asyncio.run(answers_of_home(back, queries)), before)
    indexed = asyncio.run(answers_of_database(url, queries, 1))
    same = [len(dict(one).keys() & dict(other).keys()) for one, other in zip(indexed, before, strict=True)]
    assert sum(same) >= 0.99 * sum(map(len, before))


def test_an_archive_whose_texts_were_changed_often_moves(home: Home, url: str) -> None:
    """The index of the source still counts the versions that were replaced, and that of the copy does not."""
    records, _ = archive()
    fill(home.tabane, "documents", ARCHIVE, records)
    for turn in range(2):
        changed = [structs.replace(each, texts={"text": f"{each.texts['text']} {turn}"}) for each in records]
        fill(home.tabane, "documents", ARCHIVE, changed[turn::2])
    home.json("migrate", "--from", str(home.tabane), "--to", url)


def test_a_database_whose_lengths_lack_texts_in_ascii_is_put_right(
    home: Home, server: PostgresServer, schema: str, url: str
) -> None:
    records, queries = archive()
    fill(home.tabane, "documents", ARCHIVE, records)
    home.json("migrate", "--from", str(home.tabane), "--to", url)
    expected = asyncio.run(answers_of_database(url, queries))
    server.execute(f"UPDATE {schema}.collection SET lexical = jsonb_set(lexical, '{{lengths,s_text}}', '1')")
    assert asyncio.run(answers_of_database(url, queries)) != expected
    server.execute(f"ALTER TABLE {schema}.collection DROP COLUMN analysis")
    server.execute(f"UPDATE {schema}.format SET version = 2")  # as 0.14 has left it
    assert asyncio.run(answers_of_database(url, queries)) == expected


def test_a_hub_finds_in_the_database_what_its_home_had(home: Home, url: str) -> None:
    (home.folder / "note.md").write_text("# Cats\n\nThe cat sleeps. 猫は寝ている。\n")
    with running(home):
        assert home.run("docs", "add", str(home.folder / "note.md")).status == 0
    shown = home.run("migrate", "--from", str(home.tabane), "--to", url).succeeded.out
    assert f'engine = "{url}"' in shown
    home.environment["TABANE_ENGINE"] = url
    with running(home):
        for words in ("sleeping cat", "猫"):
            assert "note.md" in str(home.json("docs", "search", words))


def test_a_migration_to_a_database_that_is_killed_continues(
    home: Home, server: PostgresServer, schema: str, url: str
) -> None:
    records = documents(MANY)
    fill(home.tabane, "documents", DOCUMENTS, records)

    def copied() -> int:
        try:
            return int(str(server.execute(f"SELECT coalesce(sum(records), 0) FROM {schema}.copying")[0][0]))
        except psycopg.Error:
            return 0

    reached = 0
    for _ in range(min(ROUNDS, 3)):
        before = copied()
        interrupted(home, str(home.tabane), url, lambda before=before: copied() > before)  # type: ignore[misc]
        reached = copied()
    assert reached > 0
    done = home.json("migrate", "--from", str(home.tabane), "--to", url)
    found = next(each for each in done["collections"] if each["name"] == "documents")
    assert found["records"] == MANY
    assert found["copied"] <= MANY - reached
    back = home.folder / "back"
    home.json("migrate", "--from", url, "--to", str(back))
    assert contents(back, "documents", DOCUMENTS) == records


def test_a_migration_to_files_that_is_killed_continues(home: Home, url: str) -> None:
    records, back = documents(MANY), home.folder / "back"
    fill(home.tabane, "documents", DOCUMENTS, records)
    home.json("migrate", "--from", str(home.tabane), "--to", url)

    def copied() -> int:
        path = back / "store" / "documents.db"
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                return int(connection.execute("SELECT sum(records) FROM copying").fetchone()[0])
        except (sqlite3.Error, TypeError):
            return 0

    interrupted(home, url, str(back), lambda: copied() > 0)
    assert (back / "store" / "copying").exists()
    check_refused(Home(home.folder, "back", made=False), str(back / "store"))
    home.json("migrate", "--from", url, "--to", str(back))
    assert not (back / "store" / "copying").exists()
    assert contents(back, "documents", DOCUMENTS) == records


def test_a_target_with_records_is_refused_and_stays_as_it_is(home: Home, url: str) -> None:
    fill(home.tabane, "documents", DOCUMENTS, documents(20))
    other = home.folder / "other"
    fill(other, "posts", POSTS, posts(5))
    refused = home.run("migrate", "--from", str(home.tabane), "--to", str(other))
    assert refused.status == 1
    assert "already contains posts" in refused.err
    assert contents(other, "posts", POSTS) == posts(5)
    home.json("migrate", "--from", str(home.tabane), "--to", url)
    refused = home.run("migrate", "--from", str(home.tabane), "--to", url)
    assert refused.status == 1
    assert "already contains documents" in refused.err


def test_a_source_that_changed_after_an_interruption_is_refused(
    home: Home, server: PostgresServer, schema: str, url: str
) -> None:
    fill(home.tabane, "documents", DOCUMENTS, documents(MANY))

    def begun() -> bool:
        try:
            return bool(server.execute(f"SELECT 1 FROM {schema}.copying WHERE records > 0"))
        except psycopg.Error:
            return False

    interrupted(home, str(home.tabane), url, begun)
    fill(home.tabane, "documents", DOCUMENTS, documents(MANY + 1)[-1:])
    refused = home.run("migrate", "--from", str(home.tabane), "--to", url)
    assert refused.status == 1
    assert "was changed after the migration began" in refused.err
    back = home.run("migrate", "--from", url, "--to", str(home.folder / "back"))
    assert back.status == 1
    assert f"schema={schema} is incomplete" in back.err
    home.environment["TABANE_ENGINE"] = url
    check_refused(home, f"DROP SCHEMA {schema} CASCADE")


def check_refused(home: Home, advice: str) -> None:
    """Check that a hub does not open the target of a migration that has not ended, and says what to do."""
    with running(home):
        found = home.run("docs", "search", "text")
        assert found.status == 1
        for told in (found.err, home.run("doctor").out):
            assert "is incomplete: a migration to it has not ended" in told
            assert advice in told


def test_a_home_whose_hub_runs_is_refused(home: Home, url: str) -> None:
    with running(home):
        refused = home.run("migrate", "--from", str(home.tabane), "--to", url)
    assert refused.status == 1
    assert "tabane stop" in refused.err


@pytest.mark.parametrize("place", ["mysql://host/db", "postgresql://me:hunter2@host/db"])
def test_a_place_that_cannot_be_used_is_refused_without_its_password(home: Home, place: str) -> None:
    refused = home.run("migrate", "--from", str(home.tabane), "--to", place)
    assert refused.status != 0
    assert "hunter2" not in refused.err
