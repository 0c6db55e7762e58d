"""`tabane backup` and `tabane restore`: a hub that is used meanwhile moves to another user and home."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabane.cli.hub_process import approach
from tabane.hub.local import lock
from tabane.hub.local.client import HubClient, connect
from tabane.hub.local.endpoint import Endpoint
from tests.cli.test_secrets import KEYRING
from tests.conftest import ROOT
from tests.harness.archive import POSTS, archive_hub
from tests.harness.home import Home, hub
from tests.harness.patience import LONG, wait_until

WRITERS = 2
IMPORTED_VECTORS = 3 * len(POSTS)


def client(home: Home) -> HubClient:
    return connect(approach(Endpoint(str(home.tabane), home.environment), flags=None), "en")


def another(folder: Path) -> Home:
    """A user on another machine: another HOME, another place of the home, no settings."""
    folder.mkdir()
    home = Home(folder, "elsewhere", made=False)
    del home.environment["TABANE_MODEL"]
    return home


def backed_up(home: Home, *flags: str) -> Path:
    path = home.folder / "backup.tar.gz"
    assert home.run("backup", *flags, str(path)).succeeded
    return path


def contents(path: Path) -> dict[str, bytes]:
    """Return the content of each file in an archive."""
    with tarfile.open(path) as tar:
        found = {}
        for info in tar:
            file = tar.extractfile(info)
            assert file is not None
            found[info.name] = file.read()
        return found


# -- while the hub works ---------------------------------------------------------------------------------


class Writer:
    """Puts one document after the other until it is stopped. ``acknowledged`` are those that were."""

    def __init__(self, home: Home, name: str) -> None:
        self.name, self.acknowledged = name, 0
        self.error: BaseException | None = None
        self._home, self._stop = home, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(LONG)
        assert not self._thread.is_alive()

    def wait_for(self, more: int) -> int:
        """Wait until so many further documents were acknowledged. Return the count."""
        least = self.acknowledged + more
        wait_until(lambda: self.acknowledged >= least or self.error)
        assert self.error is None, self.error
        return self.acknowledged

    def _run(self) -> None:
        try:
            with client(self._home) as hub:
                while not self._stop.is_set():
                    number = self.acknowledged
                    text = f"# {self.name} {number}\n\nThe {self.name} says: the red house {number}."
                    answer = hub.call("put_document", {"filepath": f"{self.name}/{number}", "text": text})
                    assert answer["status"] == "success", answer
                    self.acknowledged += 1
        except BaseException as error:
            self.error = error


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A hub with posts and their vectors, backed up while documents are put, and restored elsewhere."""
    folder = tmp_path_factory.mktemp("moved")
    (folder / "first").mkdir()
    with archive_hub(folder / "first") as home, contextlib.ExitStack() as stack:
        posts = wait_until(lambda: by_meaning(home))
        writers = [stack.enter_context(Writer(home, f"writer{number}")) for number in range(WRITERS)]
        before = {writer.name: writer.wait_for(10) for writer in writers}
        archive = backed_up(home)
        served = [writer.wait_for(3) for writer in writers]
    other = another(folder / "second")
    outcome = other.run("restore", str(archive), "--json")
    with hub(other):
        yield {"home": other, "before": before, "served": served, "posts": posts, "outcome": outcome}


def test_the_hub_serves_while_and_after_it_is_backed_up(moved: dict[str, Any]) -> None:
    assert all(
        served > before for served, before in zip(moved["served"], moved["before"].values(), strict=True)
    )


def test_everything_that_was_acknowledged_before_is_in_the_backup(moved: dict[str, Any]) -> None:
    assert moved["outcome"].succeeded.json["status"] == "restored"
    with client(moved["home"]) as hub:
        for name, count in moved["before"].items():
            for number in range(count):
                found = hub.call("get_document", {"filepath": f"{name}/{number}"})
                assert f"the red house {number}" in found["document"]


def test_a_restored_hub_finds_documents_and_posts_with_their_vectors(moved: dict[str, Any]) -> None:
    home = moved["home"]
    assert wait_until(lambda: by_meaning(home)) == moved["posts"]
    with client(home) as hub:
        found = hub.call("search_documents", {"query": "writer1", "mode": "lexical"})["results"]
    assert {hit["filepath"].partition("/")[0] for hit in found} == {"writer1"}


def test_imported_vectors_which_no_model_can_make_again_are_in_the_backup(moved: dict[str, Any]) -> None:
    folder = moved["home"].tabane / "store"
    with contextlib.closing(sqlite3.connect(folder / "posts.db")) as connection:
        query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'vector_*'"
        tables = [name for (name,) in connection.execute(query)]
        counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]
    assert sum(counts) >= IMPORTED_VECTORS
    assert sum(path.stat().st_size for path in folder.glob("posts.*.vec")) > 4 * IMPORTED_VECTORS


def by_meaning(home: Home) -> list[int]:
    """Return all posts, the nearest first; none if the search was by keywords only, which finds a few."""
    found = [hit["post"]["post_id"] for hit in home.json("posts", "search", "house")]
    return found if len(found) == len(POSTS) else []


def test_nothing_in_a_restored_home_has_to_be_repaired(moved: dict[str, Any]) -> None:
    with client(moved["home"]) as hub:
        rows = hub.call("check_stores")["results"]
    assert {row["domain"]: row["state"] for row in rows if row["domain"] != "cache"} == {
        "posts": "ok",
        "documents": "ok",
    }


# -- secrets ---------------------------------------------------------------------------------------------

PLANTED = {
    "secrets.env": "kept-in-the-file-4711",
    "token": "token-of-the-hub-0123456789",
    "audit.key": "ab" * 32,
    "env": "env-value-4712",
    "argument": "argument-value-4713",
    "header": "header-value-4714",
    "url": "url-value-4715",
    "comment": "sk-comment1234567890",
    "setting": "setting-value-4716",
}


@pytest.fixture
def planted(tmp_path: Path) -> Home:
    """A home with a different key in each place that can have one."""
    folder = tmp_path / "first"
    folder.mkdir()
    home = Home(folder)
    home.write_servers(
        json.dumps(
            {
                "mcpServers": {
                    "one": {
                        **home.child(),
                        "env": {"API_KEY": PLANTED["env"], "MODE": "fast", "A": "${STORED}"},
                    },
                    "two": {
                        "command": "no-such-program",
                        "args": ["--token", PLANTED["argument"], "/no/such/folder"],
                        "cwd": "/no/such/cwd",
                    },
                    "three": {
                        "url": f"http://127.0.0.1:9/mcp?api_key={PLANTED['url']}",
                        "headers": {"Authorization": f"Bearer {PLANTED['header']}"},
                    },
                }
            },
            indent=2,
        )
        + f"\n// key: {PLANTED['comment']}\n"
    )
    settings = home.servers.with_name("tabane.toml")
    settings.write_text(
        f'mode = "light"\notel_endpoint = "https://joe:{PLANTED["setting"]}@127.0.0.1:9/"\n'
        f"# token: {PLANTED['comment']}\n"
    )
    settings.chmod(0o600)
    assert home.run("secrets", "set", "STORED", stdin=PLANTED["secrets.env"]).succeeded
    for name in ("token", "audit.key"):
        (home.tabane / name).write_text(PLANTED[name] + "\n")
        (home.tabane / name).chmod(0o600)
    history = home.tabane / "posts_history"
    history.write_text(f"search {PLANTED['secrets.env']}\n")
    return home


def test_no_secret_is_in_a_backup_without_secrets(planted: Home) -> None:
    with hub(planted):
        archive = backed_up(planted)
    found = contents(archive)
    whole = b"".join(found.values())
    assert [place for place, value in PLANTED.items() if value.encode() in whole] == []
    servers = found["config/mcp-servers.json"].decode()
    assert '"MODE": "fast"' in servers
    assert '"API_KEY": "${API_KEY}"' in servers
    assert b'mode = "light"' in found["config/tabane.toml"]


def test_all_secrets_are_in_a_backup_with_secrets(planted: Home) -> None:
    made = planted.run("backup", "--with-secrets", "all.tar.gz")
    assert "keys and passwords" in made.succeeded.err
    whole = b"".join(contents(planted.folder / "all.tar.gz").values())
    assert [place for place, value in PLANTED.items() if value.encode() not in whole] == []


def test_values_of_the_keyring_are_in_a_backup_with_secrets_only(home: Home) -> None:
    (home.folder / "keyring.py").write_text(KEYRING)
    home.environment |= {"PYTHONPATH": str(home.folder), "TABANE_KEYRING": "true"}
    assert home.run("secrets", "set", "RINGED", stdin="value-in-the-ring-1").succeeded
    without = backed_up(home)
    assert b"value-in-the-ring-1" not in b"".join(contents(without).values())
    assert "RINGED" in home.run("backup", "--list", str(without)).succeeded.out
    assert home.run("backup", "--with-secrets", "all.tar.gz").succeeded
    assert contents(home.folder / "all.tar.gz")["home/secrets.env"] == b"RINGED=value-in-the-ring-1\n"


def test_a_restore_says_what_this_machine_lacks(planted: Home, tmp_path: Path) -> None:
    archive = backed_up(planted)
    other = another(tmp_path / "second")
    done = other.json("restore", str(archive))
    assert done["missing_secrets"] == {
        "STORED": ["one"],
        "API_KEY": ["one"],
        "TWO_TOKEN": ["two"],
        "THREE_API_KEY": ["three"],
        "THREE_AUTHORIZATION": ["three"],
    }
    problems = "\n".join(done["problems"])
    for lacking in ("otel_endpoint", "no-such-program", "/no/such/folder", "/no/such/cwd"):
        assert lacking in problems
    assert other.run("secrets", "list").succeeded.out.count("not set") == 5


def test_a_restore_prints_the_command_for_each_missing_secret(planted: Home, tmp_path: Path) -> None:
    archive = backed_up(planted)
    shown = another(tmp_path / "second").run("restore", str(archive)).succeeded.out
    assert "  tabane secrets set STORED    # one\n" in shown
    assert "tabane start" in shown


def test_a_hub_with_its_secrets_moves_whole(planted: Home, tmp_path: Path) -> None:
    with hub(planted):
        head = planted.json("audit", "head")
        archive = backed_up(planted, "--with-secrets")
    other = another(tmp_path / "second")
    done = other.json("restore", str(archive))
    assert (done["missing_secrets"], done["audit_log"]) == ({}, None)
    assert (other.tabane / "token").read_text().strip() == PLANTED["token"]
    with hub(other):
        assert other.run("audit", "verify", "--head", head["head"]).succeeded


# -- the file --------------------------------------------------------------------------------------------


def test_the_file_is_private_and_an_existing_one_is_kept(home: Home) -> None:
    archive = backed_up(home)
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    before = archive.stat().st_ino
    again = home.run("backup", str(archive))
    assert (again.status, "--force" in again.err) == (2, True)
    assert archive.stat().st_ino == before
    assert home.run("backup", "--force", str(archive)).succeeded
    assert contents(archive)
    assert [path.name for path in home.folder.iterdir() if path.name.endswith(".part")] == []


def test_a_backup_goes_through_a_pipe_but_not_to_a_terminal(planted: Home, tmp_path: Path) -> None:
    environment = {**planted.environment}
    made = subprocess.run(
        [sys.executable, "-m", "tabane", "backup", "-"],
        capture_output=True,
        env=environment,
        timeout=LONG,
        check=True,
    )
    other = another(tmp_path / "second")
    done = subprocess.run(
        [sys.executable, "-m", "tabane", "restore", "-", "--json"],
        input=made.stdout,
        capture_output=True,
        env=other.environment,
        timeout=LONG,
        check=True,
    )
    assert json.loads(done.stdout)["status"] == "restored"
    refused = planted.run_on_terminal("backup", "-")
    assert (refused.status, "terminal" in refused.err) == (2, True)


def test_the_list_shows_what_a_backup_contains(planted: Home) -> None:
    archive = backed_up(planted)
    listed = planted.json("backup", "--list", str(archive))
    assert {file["path"] for file in listed["files"]} == set(contents(archive)) - {"manifest.json"}
    assert (listed["with_secrets"], listed["secrets"]) == (False, ["STORED"])
    assert listed["settings_removed"] == ["otel_endpoint"]
    assert listed["home"] == str(planted.tabane)


@pytest.mark.parametrize("name", ["no/such/folder/x.tar.gz", "."])
def test_a_path_that_cannot_be_written_is_refused_at_once(home: Home, name: str) -> None:
    refused = home.run("backup", name)
    assert (refused.status, "existing folder" in refused.err) == (2, True)


def test_a_servers_file_that_is_broken_is_named(home: Home) -> None:
    home.write_servers('{"mcpServers": {')
    refused = home.run("backup", "x.tar.gz")
    assert (refused.status, "mcp-servers.json:1:" in refused.err) == (1, True)
    assert not (home.folder / "x.tar.gz").exists()


def test_ctrl_c_leaves_no_part_of_a_file(home: Home) -> None:
    """The reader of the pipe stops reading, so the command is in the midst of its work."""
    (home.tabane / "audit").mkdir(mode=0o700)
    for number in range(1, 4):
        (home.tabane / "audit" / f"{number:016}.jsonl").write_bytes(os.urandom(1 << 20))
    process = subprocess.Popen(
        [sys.executable, "-m", "tabane", "backup", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=home.environment,
    )
    try:
        assert process.stdout is not None
        process.stdout.read(100)  # the archive has begun, and is longer than a pipe
        assert list(home.tabane.glob(".backup-*"))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LONG)
    finally:
        process.kill()
        process.wait(LONG)
    assert process.returncode != 0, err
    assert b"Traceback" not in err
    assert list(home.tabane.glob(".backup-*")) == []


# -- the lock --------------------------------------------------------------------------------------------


def test_a_running_hub_is_not_replaced_unless_it_is_stopped(planted: Home) -> None:
    archive = backed_up(planted)
    with hub(planted):
        refused = planted.run("restore", "--force", str(archive))
        assert (refused.status, "--stop" in refused.err) == (1, True)
        assert lock.held(str(planted.tabane / "hub.lock"))
        assert planted.run("restore", "--force", "--stop", str(archive)).succeeded
        assert not lock.held(str(planted.tabane / "hub.lock"))


def restore_that_dies(home: Home, archive: Path, step: int) -> None:
    """Restore over the home in a process that kills itself before a step of the exchange."""
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tabane.build import this_build\n"
        "from tabane.hub.backup.restoring import RestoreTarget, restore_backup\n"
        "steps = []\n"
        "def reached(step):\n"
        "    steps.append(step)\n"
        "    if len(steps) == int(sys.argv[4]): os.kill(os.getpid(), signal.SIGKILL)\n"
        "home, config = Path(sys.argv[2]), Path(sys.argv[3])\n"
        "target = RestoreTarget(home, config, os.environ, this_build().name, 1, None, True)\n"
        "restore_backup(open(sys.argv[1], 'rb'), 'x', target, reached=reached)\n"
    )
    config = home.servers.with_name("tabane.toml")
    done = subprocess.run(
        [sys.executable, "-c", script, str(archive), str(home.tabane), str(config), str(step)],
        env=home.environment,
        cwd=ROOT,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.heavy("real commands, a hub and servers")
def test_the_next_start_of_a_hub_completes_a_restore_that_was_killed(planted: Home) -> None:
    with hub(planted):
        with client(planted) as connection:
            connection.call("put_document", {"filepath": "kept", "text": "the text of the backup"})
        archive = backed_up(planted)
        with client(planted) as connection:
            connection.call("put_document", {"filepath": "later", "text": "a later text"})
    restore_that_dies(planted, archive, 6)
    assert (planted.tabane / "restore-journal.json").exists()
    with hub(planted):
        assert [row["filepath"] for row in planted.json("docs", "list")["documents"]] == ["kept"]
    assert not (planted.tabane / "restore-journal.json").exists()
    assert list(planted.tabane.glob(".restore-*")) == []


def test_a_hub_that_runs_in_the_foreground_completes_it_too(planted: Home) -> None:
    archive = backed_up(planted)
    planted.servers.write_text("{}")
    restore_that_dies(planted, archive, 3)
    process = subprocess.Popen(
        [sys.executable, "-m", "tabane", "start", "--foreground"],
        env=planted.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: planted.run("status").status == 0)
        assert {row["name"] for row in planted.json("servers", "list")["results"]} == {"one", "two", "three"}
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(LONG)
