"""The demo does what it prints, reports what is missing, and cleans up."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.conftest import absent
from tests.harness.patience import wait_until
from tests.harness.postgres_server import PostgresServer

LONG = 400
pytestmark = pytest.mark.timeout(LONG)
PYPI_STEPS = (
    *("time__convert_time", "git__git_log", "「リポジトリの履歴」", "describe_tools"),
    *("posts import", "「こたつ」", "put_document", '"spare key"', "「梅の塩」", "docs add"),
    *("resources/read", "delete_document", "read_url_content", "remember_url", "search_everything"),
    "tabane stop",
)
NPM_STEPS = (
    "filesystem__write_file",
    "filesystem__read_text_file",
    "memory__create_entities",
    "memory__open_nodes",
    "everything__get-sum",
    "「ファイルを書く」",
)


def environment(folder: Path, path: str) -> dict[str, str]:
    """The demo's temporary folder is where the test looks; every process is told by its LOGNAME, which
    is among the few variables that a server is given too."""
    return {**os.environ, "PATH": path, "TMPDIR": str(folder), "LOGNAME": str(folder), "LC_ALL": "C.UTF-8"}


def run_demo(folder: Path, path: str, *options: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tabane", "demo", *options],
        env=environment(folder, path),
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    if "the download failed" in done.stdout or "not downloaded within" in done.stdout:
        absent(f"a package registry:\n{done.stdout}")
    return done


def done_steps(output: str) -> list[str]:
    return re.findall(r"^   ✓ (.+?)(?:  |$)", output, re.MULTILINE)


def path_without_node(folder: Path) -> str:
    """A PATH on which everything is found that is found on ours, but Node.js."""
    programs = folder / "programs"
    programs.mkdir()
    for place in filter(os.path.isdir, os.environ["PATH"].split(os.pathsep)):
        for entry in os.scandir(place):
            if entry.name not in ("node", "npm", "npx") and not os.path.lexists(programs / entry.name):
                (programs / entry.name).symlink_to(entry.path)
    return str(programs)


def processes_of(folder: Path) -> list[psutil.Process]:
    """The processes that descend from a demo in this folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("LOGNAME") == str(folder):
                found.append(process)
        except psutil.Error:
            continue
    return found


def nothing_runs(folder: Path) -> None:
    """Wait until nothing of a demo runs: its keeper ends when it sees that the hub has."""
    wait_until(lambda: not processes_of(folder), "every process of the demo has ended")


@pytest.mark.node
def test_the_demo_shows_the_main_job_on_servers_of_both_registries(tmp_path: Path, node_tools: Path) -> None:
    done = run_demo(tmp_path, f"{node_tools}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode == 0, done.stdout + done.stderr
    steps = done_steps(done.stdout)
    assert [step for step in (*PYPI_STEPS, *NPM_STEPS) if step not in steps] == []
    assert "✗" not in done.stdout
    assert re.search(r"\b[89]\d% less", done.stdout)
    assert list(tmp_path.glob("tabane*")) == []
    nothing_runs(tmp_path)


def test_without_node_the_demo_names_it_and_shows_the_rest_also_on_a_database(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    address = f"postgresql://postgres@/postgres?host={postgres.folder}"
    done = run_demo(temporary, path_without_node(tmp_path), "--engine", address)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Node.js with npx is not on this machine") == 3
    steps = done_steps(done.stdout)
    assert [step for step in (*PYPI_STEPS, "engine", "DROP SCHEMA") if step not in steps] == []
    assert [step for step in NPM_STEPS if step in steps] == []
    assert postgres.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tabane_demo%'") == []


def test_a_demo_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    demo = subprocess.Popen(
        [sys.executable, "-m", "tabane", "demo"],
        env=environment(temporary, path_without_node(tmp_path)) | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if "tabane mcp" in line:
            assert len(processes_of(temporary)) > 1
            demo.send_signal(signal.SIGINT)
            break
    else:
        absent("a package registry")
    demo.stdout.read()
    assert demo.wait(LONG) == 130
    nothing_runs(temporary)
    assert list(temporary.glob("tabane*")) == []


def test_the_demo_keeps_its_folder_when_asked(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = run_demo(temporary, path_without_node(tmp_path), "--keep")
    (kept,) = temporary.glob("tabane*")
    assert (kept / "mcp-servers.json").stat().st_mode & 0o777 == 0o600
    assert f"TABANE_CONFIG={kept}/tabane.toml" in done.stdout
    nothing_runs(temporary)
