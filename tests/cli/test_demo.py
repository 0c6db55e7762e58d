"""The demo prints as done only what was done, and finds every process that it started."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabane.cli.bench.temporary_hub import MARK, Assistant, NoAnswer, kill, marked, wait_until_gone
from tabane.cli.demo.source_steps import (
    GUIDE,
    MEANING,
    VARIABLE,
    DemoDatabase,
    DemoSite,
    DocumentsChapter,
    PagesChapter,
    PostsChapter,
)
from tabane.cli.demo.steps import DemoPage, ToolsChapter
from tabane.hub.stores.postgres_engine import TemporarySchema
from tabane.settings import load_settings
from tests.harness.home import Home, hub
from tests.harness.patience import LONG
from tests.harness.postgres_server import PostgresServer

SERVERS = ["filesystem", "time", "git", "memory", "everything"]

LIAR = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = {"content": [{"type": "text", "text": "Done, all of it."}], "tools": []}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""

QUESTIONER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "method" in message:
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message"}))
        print(json.dumps({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}), flush=True)
        asked = message["id"]
    else:
        result = {"content": [{"type": "text", "text": str(message["error"]["code"])}]}
        print(json.dumps({"jsonrpc": "2.0", "id": asked, "result": result}), flush=True)
"""


@pytest.fixture
def assistant(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Assistant]:
    """An assistant in front of the child program that the test names."""
    child = Assistant([sys.executable, "-c", request.param], os.environ, str(tmp_path / "log"))
    yield child
    child.close()


@pytest.mark.parametrize("assistant", [LIAR], indirect=True, ids=["liar"])
def test_where_a_hub_says_yes_and_does_nothing_no_step_is_printed_as_done(
    assistant: Assistant, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = DemoPage("en")
    chapter = ToolsChapter(page, assistant, SERVERS, tmp_path)
    chapter.searches()
    chapter.schema()
    chapter.calls()
    assert {step["outcome"] for step in page.steps} == {"failed"}
    assert len(page.steps) >= 16
    assert "✓" not in capsys.readouterr().out


@pytest.mark.parametrize("assistant", [LIAR], indirect=True, ids=["liar"])
def test_an_archive_that_is_not_there_or_not_asked_is_no_step_that_was_done(assistant: Assistant) -> None:
    def run(*command: str) -> Any:
        return {
            "posts import": {"new": 298, "bad": 0},
            "posts stats": {"total_posts": 0, "total_users": 0},
            "models show": {"state": "here"},
        }[" ".join(command[:2])]

    page = DemoPage("en", silent=True)
    PostsChapter(page, assistant, run, patience=0).tell()
    assert [step["outcome"] for step in page.steps] == ["failed"] * 3


@pytest.mark.parametrize("assistant", [LIAR], indirect=True, ids=["liar"])
def test_without_a_model_the_question_by_meaning_is_said_to_be_skipped(assistant: Assistant) -> None:
    page = DemoPage("en", silent=True)
    PostsChapter(page, assistant, lambda *command: {"state": "none"}).tell()
    assert page.steps[-1]["outcome"] == "skipped"
    assert "tabane models pull" in page.steps[-1]["text"]


@pytest.mark.parametrize("assistant", [LIAR], indirect=True, ids=["liar"])
def test_documents_that_are_not_there_and_pages_that_nobody_fetched_are_no_steps_that_were_done(
    assistant: Assistant, tmp_path: Path
) -> None:
    def run(*command: str) -> Any:
        if command[0] == "models":
            return {"state": "here"}
        return {"new": 0, "changed": 0, "unchanged": 0, "bad": 0}

    page = DemoPage("en", silent=True)
    DocumentsChapter(page, assistant, run, tmp_path, patience=0).tell()
    with DemoSite() as site:
        PagesChapter(page, assistant, site).tell()
    assert [step["outcome"] for step in page.steps] == ["failed"] * (12 + 6)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Settings as the demo's, and a hub without servers that finds by words."""
    home = Home(tmp_path)
    home.environment |= {"TABANE_MODEL": "none", "TABANE_FLOW_POLICY": "off"}
    return home


def told(
    home: Home,
    site: DemoSite,
    allowed: str,
    *,
    documents_too: bool = True,
    posts_too: bool = False,
    page: DemoPage | None = None,
) -> list[dict[str, Any]]:
    """The steps of the chapters with a hub that may read what ``allowed`` names."""
    home.environment["TABANE_READER_ALLOW"] = allowed
    page = page or DemoPage("en", silent=True)
    with hub(home):
        command = [sys.executable, "-m", "tabane", "mcp"]
        child = Assistant(command, home.environment, str(home.folder / "log"))
        try:
            child.open(timeout=LONG)
            run = lambda *command: home.run(*command, "--json").json  # noqa: E731
            if posts_too:
                PostsChapter(page, child, run).tell()
            if documents_too:
                DocumentsChapter(page, child, run, home.folder).tell()
            PagesChapter(page, child, site).tell()
        finally:
            child.close()
    return page.steps


@pytest.mark.heavy("real commands, a hub and servers")
def test_documents_and_pages_are_shown_by_a_hub_and_by_meaning_only_with_a_model(home: Home) -> None:
    with DemoSite() as site:
        steps = told(home, site, site.allowed)
        assert site.asked.count(GUIDE) == 1
        assert site.knocks == 0
    assert {step["outcome"] for step in steps if step["name"] != f'"{MEANING}"'} == {"done"}
    (skipped,) = [step for step in steps if step["outcome"] == "skipped"]
    assert "tabane models pull" in skipped["text"]


@pytest.mark.heavy("real commands, a hub and servers")
def test_posts_documents_and_pages_are_shown_on_a_database_of_which_nothing_is_left(
    home: Home, postgres: PostgresServer
) -> None:
    settings = load_settings({}, {"TABANE_HOME": str(home.tabane)})
    schema = TemporarySchema(
        "postgresql://${DB_USER}@/postgres?host=${DB_HOST}",
        settings,
        {"DB_USER": "postgres", "DB_HOST": str(postgres.folder)},
    )
    page = DemoPage("en", silent=True)
    database = DemoDatabase(page, schema)
    assert database.create()
    home.environment |= {VARIABLE: database.url, "TABANE_ENGINE": f"${{{VARIABLE}}}"}
    with DemoSite() as site:
        steps = told(home, site, site.allowed, posts_too=True, page=page)
    assert [step for step in steps if step["outcome"] == "failed"] == []
    (kept,) = postgres.execute(f"SELECT count(*), sum(next) FROM {schema.name}.collection")
    assert kept[0]
    assert {path.name for path in (home.tabane / "store").glob("*.db")} <= {"cache.db"}
    database.drop()
    assert page.steps[-1]["outcome"] == "done"
    left = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tabane_demo%'"
    assert postgres.execute(left) == []
    database.drop()
    assert page.steps[-1] == steps[-1]


def test_a_database_that_cannot_be_used_ends_the_demo_before_it_begins(tmp_path: Path) -> None:
    done = Home(tmp_path).run("demo", "--json", "--engine", f"postgresql://me@/absent?host={tmp_path}")
    assert done.status == 1
    (database,) = [step for step in done.json["steps"] if step["name"] == "engine"]
    assert database["outcome"] == "failed"
    assert "cannot be reached" in database["text"]
    assert done.json["failures"] == 1


@pytest.mark.heavy("real commands, a hub and servers")
def test_a_hub_that_goes_through_the_door_has_not_kept_it_shut(home: Home) -> None:
    with DemoSite() as site:
        steps = told(home, site, "127.0.0.1", documents_too=False)
        assert site.knocks > 0
    failed = [step["name"] for step in steps if step["outcome"] == "failed"]
    assert failed == [site.door, f"302 → {site.door}"]


def test_the_site_of_the_demo_is_gone_when_it_is_left() -> None:
    with DemoSite() as site:
        port = int(site.allowed.rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


@pytest.mark.parametrize("assistant", ["raise SystemExit(3)"], indirect=True, ids=["gone"])
def test_a_hub_that_ends_at_once_is_said_to_have_ended(assistant: Assistant) -> None:
    with pytest.raises(NoAnswer, match="ended"):
        assistant.open(timeout=LONG)


@pytest.mark.parametrize("assistant", ["import sys; sys.stdin.read()"], indirect=True, ids=["silent"])
def test_a_hub_that_keeps_silent_is_given_up(assistant: Assistant) -> None:
    with pytest.raises(NoAnswer, match="no answer in time"):
        assistant.open(timeout=0.2)


@pytest.mark.parametrize("assistant", [QUESTIONER], indirect=True, ids=["questioner"])
def test_a_question_of_the_hub_is_refused_and_the_answer_still_awaited(assistant: Assistant) -> None:
    assert assistant.call("anything", {}).text == "-32601"


def test_a_marked_process_is_found_until_it_is_gone_whatever_its_session(tmp_path: Path) -> None:
    mark = f"test-{tmp_path.name}-{os.getpid()}"
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"],
        env={**os.environ, MARK: mark},
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    found = wait_for(mark, child.pid)
    assert wait_until_gone(mark, 0.1) == found
    kill(found)
    child.communicate()
    assert wait_until_gone(mark, 10) == {}


def wait_for(mark: str, pid: int) -> dict[int, str]:
    """The marked processes, once the child has become one of them by its exec."""
    for _ in range(10_000):
        if pid in (found := marked(mark)):
            return found
    raise AssertionError("the child was never found")
