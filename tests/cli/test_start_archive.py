"""`tabane start` with an archive, as in twilog: imported once, with progress."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabane.hub.local import lock
from tests.harness.archive import with_model, write_archive
from tests.harness.bridge import answer, fake_hub
from tests.harness.home import Home
from tests.harness.patience import LONG
from tests.harness.terminal import on_terminal

LIMIT = LONG


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = with_model(tmp_path, model="none")
    yield found
    found.run("stop")


@pytest.fixture
def flags(tmp_path: Path) -> list[str]:
    """What the original twilog left, as its server was told of it: by relative paths."""
    files = write_archive(tmp_path / "archive")
    return [word for flag in ("-e", "-r", "-s") for word in (flag, os.path.relpath(files[flag], tmp_path))]


def counts(home: Home) -> Any:
    return home.run("rpc", "get_status").json["data_stats"]


def imports(home: Home) -> list[Any]:
    rows = home.run("jobs", "--json").json["results"]
    return [row["result"] for row in rows if row["operation"] == "import_posts"]


def test_the_folders_are_served_as_the_original_served_them(home: Home, flags: list[str]) -> None:
    started = home.run("start", *flags)
    assert started.status == 0, started.err
    assert "twilog.csv\tposts (CSV)\t5" in started.out
    assert started.out.splitlines()[-1] == "The archive is ready for searches by keywords."
    assert "made with the model little" in started.err
    assert "tabane models reembed --collection posts" in started.err
    assert counts(home) == {"total_posts": 5, "total_users": 3, "total_summaries": 4, "total_tags": 5}
    assert home.run("rpc", "check_init").json == {"status": "init_completed"}


def test_vectors_of_a_model_that_is_not_here_are_told_and_searches_find_words(
    tmp_path: Path, flags: list[str]
) -> None:
    home = with_model(tmp_path)
    for folder in ("embeddings", "batch/reasoning", "batch/summary"):
        meta = tmp_path / "archive" / folder / "meta.json"
        if meta.exists():
            meta.write_text(json.dumps({**json.loads(meta.read_text()), "model": "somebody/absent-model"}))
    started = home.run("start", *flags).succeeded
    try:
        assert started.out.splitlines()[-1] == "The archive is ready for searches by keywords."
        assert "tabane models pull somebody/absent-model" in started.err
        told = home.run("doctor", "--quick")
        assert "tabane models pull somebody/absent-model" in told.out
        found = home.run("rpc", "search_similar", "--params", '{"query": "red house"}').succeeded
        assert found.json[0]["post"]["post_id"] == 2
        shown = home.run("posts", "search", "red house").succeeded
        assert "Results match keywords only" in shown.err
        asked = home.run("posts", "search", "red house", "--mode", "content")
        assert asked.status == 1
        assert "somebody/absent-model" in asked.err
    finally:
        home.run("stop")


def test_an_archive_whose_model_is_here_is_ready(tmp_path: Path, flags: list[str]) -> None:
    home = with_model(tmp_path)
    home.run("start").succeeded  # noqa: B018
    home.run("models", "test").succeeded  # noqa: B018
    started = home.run("start", *flags).succeeded
    assert started.out.splitlines()[-1] == "The archive is ready."
    assert started.err.count("Warning") == 0
    home.run("stop")


@pytest.mark.heavy("real commands, a hub and servers")
def test_a_second_start_with_the_same_folders_imports_nothing(home: Home, flags: list[str]) -> None:
    home.run("start", *flags)
    assert home.run("restart").status == 0, "the flags are kept"
    assert home.run("rpc", "check_init").json["status"] == "init_completed" or wait(home)
    assert imports(home) == [{"unchanged_files": True}]
    assert home.run("stop").status == 0
    again = home.run("start", *flags)
    assert again.out.splitlines()[-1] == "The archive is ready for searches by keywords."
    assert "posts (CSV)" not in again.out
    assert imports(home) == [{"unchanged_files": True}]
    assert counts(home)["total_posts"] == 5


def wait(home: Home) -> bool:
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        if home.run("rpc", "check_init").json["status"] == "init_completed":
            return True
    return False


def test_folders_that_have_changed_are_imported_again(home: Home, flags: list[str]) -> None:
    home.run("start", *flags)
    home.run("stop")
    csv = home.folder / "archive" / "twilog.csv"
    csv.write_text(csv.read_text() + '"9","https://x.com/carol/status/9","2025-08-01 00:00:00","new","1"\n')
    assert "1 new, 0 changed, 5 unchanged" in home.run("start", *flags).out
    assert counts(home)["total_posts"] == 6


def test_a_hub_that_runs_already_takes_the_archive_too(home: Home, flags: list[str]) -> None:
    assert home.run("start").status == 0
    started = home.run("start", *flags, "--json")
    assert started.status == 0, started.err
    assert (started.json["started"], started.json["posts"]["new"]) == (False, 5)
    assert home.run("start", *flags, "--json").json["posts"] == {"unchanged_files": True}


def test_progress_is_told_line_by_line_to_a_pipe_and_in_the_users_language(home: Home) -> None:
    with fake_hub(home.tabane) as hub:
        process = subprocess.Popen(
            [sys.executable, "-m", "tabane", "start", "-e", "archive/embeddings"],
            env={**home.environment, "TABANE_LANG": "ja"},
            cwd=home.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        peer = hub.accept()
        assert peer.next()["method"] == "hub_status"
        peer.send(answer(1, {"pid": 1, "flags": [], "servers_file": "x"}))
        assert peer.next()["method"] == "keep_server"
        peer.send(answer(2, {}))
        asked = peer.next()
        assert asked["method"] == "import_posts"
        assert asked["params"] == {"embeddings": str(home.folder / "archive" / "embeddings"), "once": True}
        peer.send(answer(3, job(25)))
        assert peer.next()["method"] == "detach_job"
        peer.send(answer(4, {}))
        assert peer.next()["method"] == "follow_job"
        for number, state in enumerate([job(26), job(75), job(100, status="done", result={})], 5):
            peer.send(answer(number, state))
            if state["status"] == "running":
                assert peer.next()["method"] == "follow_job"
        assert peer.next()["method"] == "model_status"
        peer.send(answer(8, {"missing": []}))
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    assert [line for line in err.splitlines() if "進捗" in line] == [
        "進捗: 25 % 5 posts",
        "進捗: 75 % 5 posts",
    ]


def job(done: int, status: str = "running", **more: Any) -> dict[str, Any]:
    state = {"job": "3fa9c1", "operation": "import_posts", "title": "Importing", "note": "5 posts"}
    return {
        **state,
        "status": status,
        "done": done,
        "total": 100,
        "rate": 10.0,
        "left": 5.0,
        "version": done,
        **more,
    }


def test_ctrl_c_while_progress_is_shown_leaves_the_hub_to_its_work(home: Home) -> None:
    with fake_hub(home.tabane) as hub, on_terminal(home, "start", "-e", "archive/embeddings") as terminal:
        peer = hub.accept()
        for number, result in enumerate(({"pid": 1, "flags": [], "servers_file": "x"}, {}), 1):
            peer.next()
            peer.send(answer(number, result))
        peer.next()
        peer.send(answer(3, job(25)))
        assert peer.next()["method"] == "detach_job"
        peer.send(answer(4, {}))
        peer.next()
        # The bar comes when it has taken a while.
        for number in range(5, 1000):
            peer.send(answer(number, job(25)))
            assert peer.next()["method"] == "follow_job", "and never cancel_job"
            time.sleep(0.05)  # how often a hub tells
            if terminal.shows("25 %"):
                break
        os.write(terminal.fd, b"\x03")
        terminal.end()
    assert terminal.process.returncode == 130
    assert "Progress" in terminal.out
    assert "tabane jobs follow 3fa9c1" in terminal.out


def test_an_archive_that_is_none_is_said_and_the_hub_runs_on(home: Home, flags: list[str]) -> None:
    meta = home.folder / "archive" / "embeddings" / "meta.json"
    meta.write_text(json.dumps({k: v for k, v in json.loads(meta.read_text()).items() if k != "model"}))
    started = home.run("start", *flags)
    assert started.status == 2
    assert "model" in started.err
    assert home.run("status").status == 0
    assert home.run("start", "-e", "nowhere").status == 2


@pytest.mark.heavy("real commands, a hub and servers")
def test_a_hub_in_the_foreground_takes_its_archive_too(home: Home, flags: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tabane", "start", "--foreground", *flags],
        env=home.environment,
        cwd=home.folder,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + LIMIT
        while not lock.held(str(home.tabane / "hub.lock")) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert wait(home)
        assert counts(home)["total_posts"] == 5
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0
