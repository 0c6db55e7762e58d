"""First starts with the real npx and a slow registry: what is shown meanwhile, and what a kill leaves."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tabane.guard.cages.cage import find_mechanisms
from tests.conftest import absent
from tests.harness.first_start import NPX, FirstStart
from tests.harness.npm_registry import NpmRegistry
from tests.harness.patience import LONG, wait_until
from tests.harness.ports import reserved_port


def until(condition: Callable[[], bool]) -> None:
    wait_until(lambda: condition() or None)


@pytest.fixture
def registry() -> Iterator[NpmRegistry]:
    if not (NPX / "npx").exists():
        absent("npx (make node)")
    with NpmRegistry(delay=0.05, slowness=0.4) as found:
        yield found


@pytest.fixture
def first(tmp_path: Path, registry: NpmRegistry) -> Iterator[FirstStart]:
    here = FirstStart(tmp_path / "user", registry)
    here.tabane("start")
    yield here
    here.tabane("stop")


def test_a_download_is_shown_and_answers_do_not_wait_for_it(first: FirstStart, registry: NpmRegistry) -> None:
    registry.stalls.set()
    starting = first.begin("servers", "start", "it")
    until(lambda: first.row["state"] == "downloading")
    assert first.row["download"]["package"] == "npm-server-of-it"
    assert "npm-server-of-it" in first.tabane("servers", "list").stdout
    assert "npm-server-of-it" in first.tabane("tools", "search", "count").stdout
    called = first.tabane("tools", "call", "it__count")
    assert called.returncode != 0
    assert "first start" in called.stderr + called.stdout
    registry.stalls.clear()
    assert starting.wait(2 * LONG) == 0
    assert "parts: 300" in first.tabane("tools", "call", "it__count").stdout
    assert first.row["download"] is None


def test_what_is_in_the_cache_starts_without_a_network(tmp_path: Path) -> None:
    if not (NPX / "npx").exists():
        absent("npx (make node)")
    with NpmRegistry(delay=0.0, slowness=0.0) as registry:
        first = FirstStart(tmp_path / "user", registry)
        assert "count" in first.tabane("servers", "test", "it").stdout
        first.tabane("stop")
    # npx itself tries for longer than the hub waits for the start.
    first.environment["HTTPS_PROXY"] = f"http://127.0.0.1:{reserved_port(first)}"
    tested = first.tabane("servers", "test", "it")
    first.tabane("stop")
    assert "count" in tested.stdout, tested.stderr


def test_stopping_a_server_ends_its_download_and_the_next_start_repairs_it(
    first: FirstStart, registry: NpmRegistry
) -> None:
    registry.stalls.set()
    starting = first.begin("servers", "start", "it")
    until(lambda: any(path.endswith(".tgz") for path in registry.requests))
    assert first.tabane("servers", "stop", "it").returncode == 0
    assert starting.wait(2 * LONG) != 0
    assert first.row["state"] == "stopped"
    registry.stalls.clear()
    assert "count" in first.tabane("servers", "test", "it").stdout


def test_a_cache_entry_that_another_program_broke_is_repaired_by_the_next_start(first: FirstStart) -> None:
    assert "count" in first.tabane("servers", "test", "it").stdout
    first.tabane("servers", "stop", "it")
    shutil.rmtree(first.entries[0] / "node_modules" / "npm-parts-of-it")
    assert "count" in first.tabane("servers", "test", "it").stdout
    first.tabane("servers", "stop", "it")
    # This one cannot be seen from outside: the program has to fail first.
    (first.entries[0] / "node_modules" / "npm-parts-of-it" / "part7.js").unlink()
    first.tabane("servers", "start", "it")
    until(lambda: first.row["state"] == "ready")


def test_two_hubs_that_start_the_same_package_download_it_once(
    first: FirstStart, registry: NpmRegistry, tmp_path: Path
) -> None:
    other = FirstStart(first.folder, registry, TABANE_HOME=str(tmp_path / "second"))
    other.tabane("start")
    try:
        starts = [each.begin("servers", "start", "it") for each in (first, other)]
        assert [start.wait(2 * LONG) for start in starts] == [0, 0]
        assert sum(path.endswith(".tgz") for path in registry.requests) == 2
    finally:
        other.tabane("stop")


@pytest.mark.parametrize("seed", range(10))
def test_a_hub_killed_at_any_moment_of_a_first_start_works_afterwards(
    tmp_path: Path, registry: NpmRegistry, seed: int
) -> None:
    first = FirstStart(tmp_path / "user", registry)
    first.tabane("start")
    hub = first.hub
    starting = first.begin("servers", "start", "it")
    # The moment is the point of this test; whatever has happened by then, the next start works.
    time.sleep(random.Random(seed).uniform(0.05, 2.2))
    os.kill(hub, signal.SIGKILL)
    starting.wait(2 * LONG)
    try:
        first.tabane("start")
        tested = first.tabane("servers", "test", "it")
        assert "count" in tested.stdout, tested.stderr
    finally:
        first.tabane("stop")


def test_a_registrys_token_reaches_the_download_only(tmp_path: Path, registry: NpmRegistry) -> None:
    first = FirstStart(tmp_path / "user", registry)
    file = json.loads((first.folder / "servers.json").read_text())
    del file["mcpServers"]["it"]["env"]["npm_config_registry"]
    (first.folder / "servers.json").write_text(json.dumps(file))
    first.environment["npm_config_registry"] = registry.url.replace("//", "//user:pass@")
    try:
        for _ in range(2):
            tested = first.tabane("servers", "test", "it")
            assert "count" in tested.stdout, tested.stderr
            asked = len(registry.requests)
            assert first.tabane("servers", "restart", "it").returncode == 0
            assert len(registry.requests) == asked, "the server was started from the cache"
        assert any(registry.authorized)
        children = [_read(path) for path in Path("/proc").glob("[0-9]*/environ") if _is_server(path)]
        assert any(children)
        assert not any(b"user:pass" in environment for environment in children)
    finally:
        first.tabane("stop")


def _is_server(environ: Path) -> bool:
    return b"npm-server-of-it" in _read(environ.parent / "cmdline")


def _read(path: Path) -> bytes:
    """Return a file of a process; nothing if it has ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
def test_what_a_package_runs_while_it_is_installed_stays_in_the_sandbox(way: str, tmp_path: Path) -> None:
    if not (NPX / "npx").exists():
        absent("npx (make node)")
    found = find_mechanisms(os.environ)
    if not (found.bubblewrap if way == "bubblewrap" else found.landlock >= 6):
        pytest.skip(f"needs {way}")
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name != "bwrap" or way == "bubblewrap":
            (programs / program.name).symlink_to(program)
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "letter").write_text("private")
    steal = f"echo ran >> ran.txt; cat {tmp_path}/documents/letter >> ran.txt; touch {tmp_path}/escaped; true"
    with NpmRegistry(installs=steal) as registry:
        first = FirstStart(tmp_path / "user", registry, PATH=os.pathsep.join([str(NPX), str(programs)]))
        entry = {**registry.server, "sandbox": "files"}
        (first.folder / "servers.json").write_text(json.dumps({"mcpServers": {"it": entry}}))
        try:
            tested = first.tabane("servers", "test", "it")
            assert "count" in tested.stdout, tested.stderr
            shown = first.tabane("servers", "sandbox", "it").stdout
            assert ("bubblewrap" in shown) == (way == "bubblewrap")
            assert "parts: 300" in first.tabane("tools", "call", "it__count").stdout
        finally:
            first.tabane("stop")
        assert not (tmp_path / "escaped").exists()
        [ran] = first.folder.rglob("ran.txt")
        assert ran.read_text() == "ran\n"
