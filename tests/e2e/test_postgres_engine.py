"""A hub whose setting engine names a PostgreSQL database: documents, status, doctor and backup."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conftest import absent
from tests.harness.home import Home
from tests.harness.home import hub as running
from tests.harness.milvus_server import is_installed, milvus_server
from tests.harness.network_proxy import network_proxy
from tests.harness.patience import LONG, wait_until
from tests.harness.ports import reserved_port
from tests.harness.postgres_server import PostgresServer, postgres_server


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as found:
        found.execute("CREATE ROLE tabane LOGIN SUPERUSER PASSWORD 'a/secret@word'")
        found.demand_passwords()
        yield found


@pytest.fixture
def home(tmp_path: Path, server: PostgresServer) -> Home:
    found = Home(tmp_path)
    schema = f"t{abs(hash(str(tmp_path)))}"
    url = f"postgresql://tabane:${{PG_SECRET}}@/postgres?host={server.folder}&schema={schema}"
    found.environment["TABANE_ENGINE"] = url
    (found.tabane / "secrets.env").write_text("PG_SECRET=a/secret@word\n")
    (found.tabane / "secrets.env").chmod(0o600)
    return found


@pytest.mark.heavy("a real PostgreSQL")
def test_documents_are_kept_and_found_in_the_database(home: Home) -> None:
    (home.folder / "note.md").write_text("# Cats\n\nThe cat sleeps. 猫は寝ている。\n")
    for turn in range(2):
        with running(home):
            if turn == 0:
                assert home.run("docs", "add", str(home.folder / "note.md")).status == 0
            for words in ("sleeping cat", "猫"):
                found = home.json("docs", "search", words)
                assert "note.md" in str(found)
            status = home.json("status")
            assert status["engine"]["state"] == "ok"
            assert status["engine"]["server"].startswith("PostgreSQL")
            assert "secret@word" not in str(status)
            shown = home.run("status").succeeded.out
            assert "pgvector" in shown
            assert "pgvector" in home.run("doctor").out
    assert not (home.tabane / "store" / "documents.db").exists()


@pytest.mark.heavy("a real PostgreSQL")
def test_a_hub_reads_its_own_copy_while_the_database_is_away_and_says_so(tmp_path: Path) -> None:
    home = Home(tmp_path)
    port = reserved_port(home)
    home.environment |= {"TABANE_HTTP": "true", "TABANE_PORT": str(port)}
    (home.folder / "note.md").write_text("# Cats\n\nThe cat sleeps. 猫は寝ている。\n")
    metrics = f"http://127.0.0.1:{port}/metrics"
    with postgres_server() as server:
        home.environment["TABANE_ENGINE"] = server.url()
        with running(home):
            assert home.run("docs", "add", str(home.folder / "note.md")).status == 0
            wait_until(lambda: _replica(home)["state"] == "current")
            assert "cannot be reached" not in str(home.json("docs", "search", "猫"))
            shown = home.run("status").succeeded.out
            assert "\tlocal copy of documents: up to date\n" in shown
            assert "answers in" in shown
            page = httpx2.get(metrics).text
            assert "\ntabane_database_up 1\n" in page
            assert '\ntabane_replica_state{collection="documents",state="current"} 1\n' in page
            server.kill()
            _check_alone(home)
            wait_until(lambda: "\ntabane_database_up 0\n" in httpx2.get(metrics).text)
        with running(home):  # a hub that starts without the database
            _check_alone(home)
            server.start()
            assert home.run("docs", "add", str(home.folder / "note.md")).status == 0
            wait_until(lambda: _replica(home)["state"] == "current")
            assert "cannot be reached" not in str(home.json("docs", "search", "猫"))
            assert home.json("status")["engine"]["state"] == "ok"


def _check_alone(home: Home) -> None:
    """Check what a user sees while the database is away."""
    for words in ("猫", "sleeping cat"):
        found = home.json("docs", "search", words)
        assert "note.md" in str(found)
        assert "cannot be reached" in found["warning"]
    key = found["results"][0]["filepath"]
    assert "The cat sleeps." in home.run("docs", "get", key).succeeded.out
    refused = home.run("docs", "put", str(home.folder / "note.md"))
    assert refused.status == 1
    assert "be reached" in refused.err
    assert home.json("status")["engine"]["state"] == "unreadable"
    shown = home.run("status").succeeded.out
    assert "cannot be reached" in shown
    assert "local copy of documents: answers alone" in shown
    home.environment["LANG"] = "ja_JP.UTF-8"
    assert "ローカルコピー" in home.run("status").succeeded.out
    del home.environment["LANG"]
    checked = home.run("doctor", "--quick")
    assert checked.status == 1
    assert "cannot be reached" in checked.out


def _replica(home: Home) -> dict[str, Any]:
    found: dict[str, Any] = next(
        each for each in home.json("status")["engine"]["replicas"] if each["domain"] == "documents"
    )
    return found


def test_status_lists_the_hubs_of_the_group(home: Home) -> None:
    port = reserved_port(home)
    address = f"http://127.0.0.1:{port}"
    home.environment |= {
        "TABANE_ADVERTISE": address,
        "TABANE_HTTP": "true",
        "TABANE_PORT": str(port),
        "TABANE_DRAIN_NOTICE": "0",
    }
    with running(home):
        wait_until(lambda: home.json("status")["group"]["hubs"], "the hub joins")
        [row] = home.json("status")["group"]["hubs"]
        assert (row["address"], row["state"], row["this"]) == (address, "ready", True)
        assert f"{address} ({row['version']}, ready), this hub" in home.run("status").succeeded.out


def test_status_and_doctor_show_an_approximate_index_that_is_missing(
    home: Home, server: PostgresServer
) -> None:
    (home.folder / "note.md").write_text("# Cats\n\nThe cat sleeps.\n")
    schema = home.environment["TABANE_ENGINE"].rpartition("schema=")[2]
    space = '[{"name": "text", "dimension": 8, "model": "", "number": 1, "vectors": 60000}]'
    with running(home):
        assert home.run("docs", "add", str(home.folder / "note.md")).status == 0
        assert home.json("status")["engine"]["indexes"] == []
        server.execute(f"UPDATE {schema}.collection SET spaces = '{space}' WHERE domain = 'documents'")
        (index,) = home.json("status")["engine"]["indexes"]
        assert (index["domain"], index["vectors"], index["state"]) == ("documents", 60_000, "missing")
        assert "no approximate index yet" in home.run("status").succeeded.out
        assert "no approximate index" in home.run("doctor").out


def test_a_backup_says_that_the_database_is_not_in_it(home: Home) -> None:
    done = home.run("backup", str(home.folder / "backup.tar.gz")).succeeded
    assert "pg_dump" in done.err


def test_a_database_that_is_away_is_named_and_the_rest_of_the_hub_works(home: Home, tmp_path: Path) -> None:
    home.environment["TABANE_ENGINE"] = f"postgresql://tabane:${{PG_SECRET}}@/postgres?host={tmp_path}"
    with running(home):
        failed = home.run("docs", "search", "cat")
        assert failed.status == 1
        assert "cannot be reached" in failed.err
        assert "secret@word" not in failed.err
        assert "cannot be reached" in home.json("status")["engine"]["error"]
        assert home.run("servers", "list").status == 0


def test_a_database_that_is_silent_is_given_up_and_the_rest_of_the_hub_works(
    home: Home, server: PostgresServer
) -> None:
    (home.folder / "note.md").write_text("# Cats\n\nThe cat sleeps.\n")
    schema = home.environment["TABANE_ENGINE"].rpartition("schema=")[2]
    with network_proxy(server.socket) as network, ThreadPoolExecutor() as threads:
        address = f"postgresql://tabane:${{PG_SECRET}}@127.0.0.1:{network.port}/postgres"
        home.environment["TABANE_ENGINE"] = f"{address}?schema={schema}&timeout=3&connect_timeout=2"
        with running(home):
            assert home.run("docs", "add", str(home.folder / "note.md")).status == 0
            network.silent = True
            searching = threads.submit(home.run, "docs", "search", "cat")
            assert home.run("servers", "list").status == 0
            assert home.run("tools", "list").status == 0
            failed = searching.result()
            assert "cannot be reached" in failed.err
            assert "secret@word" not in failed.err
            network.silent = False
            assert "note.md" in str(home.json("docs", "search", "cat"))


@pytest.mark.heavy("a real PostgreSQL")
def test_an_index_that_is_away_is_named_and_searches_go_on(home: Home) -> None:
    (home.folder / "note.md").write_text("# Cats\n\nThe cat sleeps.\n")
    home.environment["TABANE_VECTOR_INDEX"] = "milvus://me:${PG_SECRET}@127.0.0.1:1/archive"
    with running(home):
        assert home.run("docs", "add", str(home.folder / "note.md")).status == 0
        assert "note.md" in str(home.json("docs", "search", "sleeping cat"))
        index = home.json("status")["engine"]["vector_index"]
        assert index["path"] == "milvus://127.0.0.1:1/archive"
        assert index["state"] in ("connecting", "away")
        assert "secret@word" not in str(index)
        found = home.run("doctor").out
        assert "milvus://127.0.0.1:1/archive cannot be used" in found
        assert "Searches go on in PostgreSQL" in home.run("status").succeeded.out


@pytest.mark.heavy("a real PostgreSQL")
@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            "chroma+http://me:${CHROMA_PASSWORD}@host:8000",
            'vector_index = "chroma+http://…" is no longer supported since 0.18: PostgreSQL',
        ),
        ("chroma:/srv/chroma", 'vector_index = "chroma:…" is no longer supported since 0.18: PostgreSQL'),
        ("milvus://127.0.0.1:1?keywords=milvus", "keywords=milvus in vector_index is no longer supported"),
        ("${WHERE}", ""),
    ],
)
def test_a_hub_with_an_index_that_is_no_longer_supported_says_so_and_searches_in_postgresql(
    home: Home, address: str, said: str
) -> None:
    (home.folder / "note.md").write_text("# Cats\n\nThe cat sleeps.\n")
    home.environment |= {"TABANE_VECTOR_INDEX": address, "WHERE": "chroma+http://host:8000"}
    with running(home):
        assert home.run("docs", "add", str(home.folder / "note.md")).status == 0
        assert "note.md" in str(home.json("docs", "search", "sleeping cat"))
        assert said in home.run("doctor").out
        assert ("vector_index" in home.json("status")["engine"]) == address.startswith("milvus")
    assert (said or "is no longer supported") in (home.tabane / "logs" / "hub.log").read_text()


@pytest.mark.heavy("a real PostgreSQL")
def test_an_index_on_milvus_follows_the_database(home: Home) -> None:
    if not is_installed():
        absent("Milvus (make milvus)")
    with milvus_server() as milvus:
        check_followed(home, milvus.url(), "Milvus 2", f"milvus://127.0.0.1:{milvus.port}")


def check_followed(home: Home, url: str, server: str, place: str) -> None:
    (home.folder / "note.md").write_text("# Cats\n\nThe cat sleeps.\n")

    def state() -> str:
        followed = home.json("status")["engine"]["vector_index"]["followed"]
        (each,) = [each for each in followed if each["domain"] == "documents"] or [None]
        return "" if each is None else f"{each['row']} of {each['rows']}"

    home.environment["TABANE_VECTOR_INDEX"] = url
    with running(home):
        assert home.run("docs", "add", str(home.folder / "note.md")).status == 0
        wait_until(lambda: state() == "1 of 1", "the index has the document", 4 * LONG)
        assert server in home.run("status").succeeded.out
        assert f"{place} answers" in home.run("doctor").out


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("milvus://me:plain@host", "must be a variable"),
        ("chroma+x://host", "vector_index must be empty"),
        ("milvus://host?token=plain", "must be a variable"),
        ("chroma+http://host?token=plain", "must be a variable"),
    ],
)
def test_an_index_that_cannot_be_used_is_refused_without_naming_a_password(
    home: Home, address: str, named: str
) -> None:
    home.environment["TABANE_VECTOR_INDEX"] = address
    refused = home.run("start")
    assert refused.status != 0
    assert named in refused.err
    assert "plain" not in refused.err


@pytest.mark.parametrize("address", ["chroma:/srv/chroma", "milvus://host"])
def test_an_index_without_a_database_is_refused(tmp_path: Path, address: str) -> None:
    home = Home(tmp_path)
    home.environment["TABANE_VECTOR_INDEX"] = address
    refused = home.run("start")
    assert refused.status != 0
    assert "vector_index needs a database in the setting engine" in refused.err


@pytest.mark.parametrize(
    "address", ["postgresql://me:plain@host/db", "mysql://host/db", "postgresql://host/db?password=plain"]
)
def test_an_address_that_cannot_be_used_is_refused_without_naming_a_password(
    tmp_path: Path, address: str
) -> None:
    home = Home(tmp_path)
    home.environment["TABANE_ENGINE"] = address
    refused = home.run("start")
    assert refused.status != 0
    assert "engine" in refused.err
    assert "plain" not in refused.err
