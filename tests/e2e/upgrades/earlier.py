"""Earlier versions of Tabane, as the history has them, run beside this one by the same user."""

from __future__ import annotations

import io
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, absent
from tests.harness.bridge import BridgeClient
from tests.harness.home import Outcome
from tests.harness.user import User

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


def interpreter(source: Path) -> str:
    """Return a Python that imports this source, and the libraries of the one that runs.

    PYTHONPATH would not do: worker processes start isolated (`-I`), and would be those of another version.
    """
    folder = source.parent / "python"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, symlinks=True)
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "earlier.pth").write_text(f"{source}\n{sysconfig.get_path('purelib')}\n")
    return str(python)


class Installed:
    """One build of Tabane as a user has it: its commands, and assistants that are configured with it."""

    def __init__(self, user: User, source: Path | None = None) -> None:
        self._user, self._source = user, source
        self._python = interpreter(source) if source else sys.executable

    def run(self, *arguments: str) -> Outcome:
        if not self._source:
            return self._user.run(*arguments)
        return self._user.run_with(self._python, *arguments)

    def json(self, *arguments: str) -> Any:
        return self.run(*arguments, "--json").succeeded.json

    def client(self) -> BridgeClient:
        return self._user.client(python=self._python)

    def assistant(self) -> BridgeClient:
        return self._user.assistant(python=self._python)


def versions() -> list[Any]:
    """The earlier versions, as parameters of a test. A landing upgrades the newest one."""
    *older, newest = earlier()
    return [
        *(pytest.param(each, id=each.version) for each in older),
        pytest.param(newest, id=newest.version, marks=pytest.mark.core),
    ]
