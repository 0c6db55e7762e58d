"""`tabane migrate`: from a home to PostgreSQL and back, interrupted, refused."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.harness.home import Home
from tests.harness.home import hub as running
from tests.harness.patience import wait_until
from tests.harness.postgres_server import PostgresServer, postgres_server
from tests.harness.stored_collections import DOCUMENTS, POSTS, contents, documents, fill, posts

pytestmark = pytest.mark.heavy("moves archives between real engines")

ROUNDS = int(os.environ.get("TABANE_TEST_KILLS", "3"))
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
