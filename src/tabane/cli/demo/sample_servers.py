"""Real servers for the demo: their versions, sample data and download."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tabane.cli.bench.marked_processes import MARK
from tabane.messages import Message, say

COMMITS = ("Plant the first seeds", "Water the garden")


@dataclass(frozen=True, slots=True)
class SampleServer:
    """A server, its registry and pinned version, and the reason if it cannot run here.

    ``command`` starts it, ``fetch`` downloads it.
    """

    name: str
    package: str
    registry: Literal["PyPI", "npm"]
    command: tuple[str, ...] = ()
    fetch: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    tags: tuple[str, ...] = ()
    missing: Message | None = None

    @property
    def program(self) -> str:
        """Return the package without registry, scope and version: ``server-memory``."""
        return self.package.rpartition("/")[2].replace("==", "@").partition("@")[0]

    @property
    def version(self) -> str:
        return self.package.replace("==", "@").rpartition("@")[2]


def sample_servers(folder: Path, path: str) -> list[SampleServer]:
    """Return the servers of the demo, with programs found on ``path`` and sample data in ``folder``."""
    git = None if shutil.which("git", path=path) else say("git is not installed on this machine")
    garden, notes = str(folder / "garden"), str(folder / "notes")
    memory = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    return [
        _pypi(folder, path, "time", "mcp-server-time==2026.10.19", ("--local-timezone", "Asia/Tokyo")),
        _pypi(folder, path, "git", "mcp-server-git==2026.10.19", ("--repository", garden), git),
        _npm(path, "filesystem", "2026.8.31", (notes,)),
        _npm(path, "memory", "2026.8.31", (), memory, ("覚える", "記憶")),
        _npm(path, "everything", "2026.8.31", ()),
    ]


def _pypi(
    folder: Path,
    path: str,
    name: str,
    package: str,
    arguments: tuple[str, ...],
    missing: Message | None = None,
) -> SampleServer:
    program = package.partition("==")[0]
    beside = Path(sys.executable).with_name("uvx")
    uvx = str(beside) if beside.exists() else shutil.which("uvx", path=path)
    if uvx:
        run: tuple[str, ...] = (uvx, "--quiet", "--python", sys.executable, package.replace("==", "@"))
        return SampleServer(name, package, "PyPI", (*run, *arguments), (*run, "--help"), missing=missing)
    # Without uv: an environment of its own for each, made by what every Python has.
    home = folder / f"python-{name}"
    script = f'"{sys.executable}" -m venv "{home}" && "{home}/bin/pip" install -q "{package}"'
    command = (str(home / "bin" / program), *arguments)
    return SampleServer(name, package, "PyPI", command, ("sh", "-c", script), missing=missing)


def _npm(
    path: str,
    name: str,
    version: str,
    arguments: tuple[str, ...],
    env: Mapping[str, str] | None = None,
    tags: tuple[str, ...] = (),
) -> SampleServer:
    package = f"@modelcontextprotocol/server-{name}@{version}"
    npx = shutil.which("npx", path=path)
    if not npx or not shutil.which("node", path=path):
        missing = say("Node.js with npx is not on this machine (nodejs.org, 18 or newer)")
        return SampleServer(name, package, "npm", missing=missing)
    command = (npx, "--yes", "--prefer-offline", package, *arguments)
    fetch = (npx, "--yes", f"--package={package}", "--", "node", "--eval", "0")
    return SampleServer(name, package, "npm", command, fetch, env, tags)


def write_samples(folder: Path) -> None:
    """Create the sample data: a folder of notes, and a small git repository if git is installed."""
    (folder / "notes").mkdir()
    (folder / "notes" / "readme.txt").write_text("束ね, to bundle.\n", encoding="utf-8")
    if shutil.which("git"):
        _make_repository(folder / "garden")


def _make_repository(folder: Path) -> None:
    def git(*arguments: str) -> None:
        # The user's own configuration (signing, hooks, templates) has no say in the sample.
        settings = (
            "-c",
            "user.name=Tabane",
            "-c",
            "user.email=demo@example.invalid",
            "-c",
            "commit.gpgsign=false",
        )
        environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", "-C", str(folder), *settings, *arguments], env=environ, check=True)

    folder.mkdir()
    git("init", "--quiet")
    for number, message in enumerate(COMMITS):
        (folder / "diary.txt").write_text(f"Day {number + 1}\n", encoding="utf-8")
        git("add", "diary.txt")
        git("commit", "--quiet", "--message", message)


def write_servers_file(file: Path, samples: list[SampleServer], mark: str) -> None:
    """Write mcp-servers.json as a user would have it, with each server marked as the demo's."""
    servers = {
        sample.name: {
            "command": sample.command[0],
            "args": list(sample.command[1:]),
            "env": {**(sample.env or {}), MARK: mark},
            "tags": list(sample.tags),
        }
        for sample in samples
    }
    file.touch(mode=0o600)
    file.write_text(json.dumps({"mcpServers": servers}, ensure_ascii=False, indent=2), encoding="utf-8")


LIMIT = 120.0
"""Seconds that one server may take to be downloaded."""


@dataclass(frozen=True, slots=True)
class SampleDownload:
    """A download that has ended: its time in seconds, and the reason if it failed."""

    sample: SampleServer
    seconds: float
    failure: Message | None = None


class Download:
    """A running download. Its output goes to ``log``."""

    def __init__(self, sample: SampleServer, log: Path, environ: Mapping[str, str]) -> None:
        self.sample = sample
        self._log = log
        self._began = time.monotonic()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                sample.fetch,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def poll(self) -> SampleDownload | None:
        """Return the result, or None while it runs."""
        seconds = time.monotonic() - self._began
        status = self._process.poll()
        if status is None and seconds < LIMIT:
            return None
        if status == 0:
            return SampleDownload(self.sample, seconds)
        self.stop()
        if status is None:
            return SampleDownload(
                self.sample, seconds, say("not downloaded within {limit:.0f} s", limit=LIMIT)
            )
        return SampleDownload(
            self.sample, seconds, say("the download failed: {reason}", reason=self._reason())
        )

    def stop(self) -> None:
        """Kill the download and its children, if it still runs."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
        finally:
            self._process.wait()

    def _reason(self) -> str:
        lines = self._log.read_text("utf-8", "replace").strip().splitlines() or ["no word why"]
        errors = [line for line in lines if "error" in line.lower()]
        return (errors or lines)[-1].strip()[:200]


def fetch(
    samples: list[SampleServer],
    folder: Path,
    environ: Mapping[str, str],
    waiting: Callable[[list[str]], None],
) -> Iterator[SampleDownload]:
    """Download all servers in parallel, and yield each when it is done. Stops the rest if the caller stops.

    ``waiting`` is called ten times per second with the names of the running downloads.
    """
    running = [Download(sample, folder / f"{sample.name}.log", environ) for sample in samples]
    try:
        while running:
            waiting([download.sample.program for download in running])
            for download in list(running):
                if fetched := download.poll():
                    running.remove(download)
                    yield fetched
            time.sleep(0.1)
    finally:
        for download in running:
            download.stop()
