"""Earlier versions of Tabane, as the history has them, run beside this one by the same user."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, absent
from tests.hub.peers import Client
from tests.hub.user import User

TABLE = Path(__file__).parent / "versions.toml"


@dataclass(frozen=True)
class Earlier:
    """A version and its last commit; ``source`` is a folder with its code."""

    version: str
    commit: str

    def unpacked(self, folder: Path) -> Path:
        """Its code, put into the folder. Skips the test if the history is not there."""
        source = folder / self.version / "src"
        if not source.exists():
            with tarfile.open(fileobj=io.BytesIO(_archived(self.commit))) as archive:
                archive.extractall(folder / self.version, filter="data")
        return source


@cache
def earlier() -> tuple[Earlier, ...]:
    rows = tomllib.loads(TABLE.read_text())["version"]
    return tuple(Earlier(row["version"], row["commit"]) for row in rows)


def _archived(commit: str) -> bytes:
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "src"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=120)
    except FileNotFoundError:
        absent("git")
    if done.returncode:
        absent(f"commit {commit[:7]} in the history of git")
    return done.stdout


class Installed:
    """One build of Tabane as a user has it: its commands, and assistants that are configured with it."""

    def __init__(self, user: User, source: Path | None = None) -> None:
        self._user = user
        self._variables = {"PYTHONPATH": str(source)} if source else {}

    @property
    def variables(self) -> dict[str, str]:
        return {**self._user.variables, **self._variables}

    def run(self, *arguments: str, limit: float = 120) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "tabane", *arguments]
        return subprocess.run(command, env=self.variables, capture_output=True, text=True, timeout=limit)

    def json(self, *arguments: str) -> Any:
        import json

        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def client(self) -> Client:
        return self._user.client(**self._variables)

    def assistant(self) -> Client:
        return self._user.assistant(**self._variables)


def versions() -> list[Any]:
    """The earlier versions, as parameters of a test."""
    return [pytest.param(each, id=each.version) for each in earlier()]
