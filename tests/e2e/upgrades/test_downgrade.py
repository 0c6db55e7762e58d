"""A home or a hub of a newer version: how an older version reacts, and its error messages."""

from __future__ import annotations

import hashlib
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabane.build import this_build
from tests.harness.bridge import INITIALIZE, request
from tests.harness.patience import LONG, wait_until
from tests.harness.user import User, echo, said

FUTURE = """
import sys, tabane
tabane.__version__ = "99.0"
sys.argv = ["tabane", "start", "--foreground"]
from tabane.__main__ import main
main()
"""


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    yield user
    user.close()


def stamp(user: User, **members: object) -> Path:
    user.tabane.mkdir(mode=0o700, exist_ok=True)
    path = user.tabane / "version"
    path.write_text(json.dumps({"format": 1, "version": "99.0+gabcdef0", **members}))
    path.chmod(0o600)
    return path


def kept(user: User) -> dict[str, str]:
    """What is in the home, besides logs and the lock."""
    files = (path for path in user.tabane.rglob("*") if path.is_file())
    return {
        str(path.relative_to(user.tabane)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.name != "hub.lock" and "logs" not in path.parts
    }


@pytest.mark.parametrize("members", [{}, {"format": 2, "version": "0.0.1", "more": [1]}])
@pytest.mark.parametrize(
    "command", [["start"], ["start", "--foreground"], ["mcp", "--standalone"], ["docs", "list"]]
)
def test_a_home_of_a_newer_version_is_refused_and_left_untouched(
    user: User, command: list[str], members: dict[str, object]
) -> None:
    user.json("start")
    (user.folder / "a.txt").write_text("A lighthouse on a cliff.")
    user.json("docs", "put", str(user.folder / "a.txt"))
    user.json("stop")
    stamp(user, **members)
    before = kept(user)
    assert any(name.endswith("documents.db") for name in before)
    done = user.run(*command)
    assert done.status == 1
    assert str(members.get("version", "99.0+gabcdef0")) in done.err
    assert this_build().name in done.err
    assert "Update Tabane" in done.err
    assert "TABANE_HOME" in done.err
    user.gone()
    assert kept(user) == before


def test_an_assistant_is_told_in_its_language_that_the_home_is_newer(user: User) -> None:
    stamp(user)
    client = user.client(LC_ALL="ja_JP.UTF-8")
    client.send(request(0, "initialize", **INITIALIZE))
    message = client.answer(0)["error"]["message"]
    assert "99.0+gabcdef0" in message
    assert "更新" in message


def test_the_doctor_says_it_too(user: User) -> None:
    stamp(user)
    done = user.run("doctor", "--quick")
    assert done.status == 1
    assert "99.0+gabcdef0" in done.out


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "1"}', '{"version": "0.1.0"}', "\\x00\\xff"])
def test_a_stamp_that_cannot_be_read_is_a_reason_not_to_start(user: User, text: str) -> None:
    path = stamp(user)
    path.write_text(text)
    done = user.run("start")
    assert done.status == 1
    assert str(path) in done.err
    assert path.read_text() == text
    path.unlink()
    assert user.json("start")["started"] is True
    assert json.loads(path.read_text())["version"] == this_build().name


def test_an_older_bridge_uses_a_newer_hub_and_an_older_restart_leaves_it_alone(user: User) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FUTURE], env=user.environment, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: user.runs and user.run("status").status == 0, "the newer hub runs")
        client = user.assistant()
        assert said(echo(client, 1, n=1)) == {"n": 1}
        assert user.json("status")["version"].startswith("99.0")
        done = user.run("restart")
        assert done.status == 1
        assert "Update Tabane" in done.err
        assert user.holder.pid == process.pid
        assert said(echo(client, 2, n=2)) == {"n": 2}
        process.send_signal(signal.SIGTERM)
        process.wait(LONG)
        client.send(request(3, name="small__echo", arguments={}))
        assert "99.0" in client.answer(3)["error"]["message"], "its own code does not open that home"
    finally:
        process.kill()
        process.wait()


def test_a_catalogue_of_a_later_format_is_not_opened(user: User) -> None:
    user.json("start")
    user.json("stop")
    path = user.tabane / "catalogue.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    done = user.run("start")
    assert done.status == 1
    assert str(path) in done.err
    assert "newer" in done.err
    assert path.exists()
    assert not path.with_suffix(".broken").exists()
