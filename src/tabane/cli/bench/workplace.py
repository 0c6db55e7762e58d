"""The workplace of a task: a folder of notes, a git repository and the file of a memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tabane.cli.bench.data_file import DataFileError
from tabane.cli.bench.task_file import placed
from tabane.messages import say

_DATE = "2026-01-05T09:00:00+0900"
"""The date of all commits of a setup, so that their hashes are the same in each run."""


class Workplace:
    """Makes the files of a setup in ``folder``. The paths are the same for all tasks, as servers know them.

    A setup is ``{"notes": {path: text}, "commits": [{"message": …, "files": {path: text}}], "branches":
    [name], "changes": {path: text}, "memory": [line of the memory's file]}``.
    """

    def __init__(self, folder: Path, basis: Mapping[str, Any]) -> None:
        self._folder = folder / "work"
        self._basis = basis
        self.places = {
            "folder": str(self._folder),
            "notes": str(self._folder / "notes"),
            "repository": str(self._folder / "repository"),
            "memory": str(self._folder / "memory.jsonl"),
        }
        self._folder.mkdir()
        (self._folder / "notes").mkdir()
        (self._folder / "repository").mkdir()

    def file(self, path: str) -> Path:
        """Return a path below the workplace, such as ``notes/a.txt``."""
        return self._folder / path

    def prepare(self, setup: Mapping[str, Any]) -> None:
        """Make the workplace as the basis and this setup describe it; nothing else is left in it."""
        whole = {key: _joined(self._basis.get(key), setup.get(key)) for key in (*self._basis, *setup)}
        whole = placed(whole, self.places)
        notes, repository = self._folder / "notes", self._folder / "repository"
        # The folders themselves stay: servers have them open.
        _empty(notes)
        _empty(repository)
        _write(notes, whole.get("notes", {}))
        memory = "".join(f"{line}\n" for line in whole.get("memory", []))
        Path(self.places["memory"]).write_text(memory, encoding="utf-8")
        self._commit(repository, whole)

    def git(self, *arguments: str) -> str:
        """Return the output of git in the repository. Raises CalledProcessError."""
        done = subprocess.run(
            ["git", "-C", self.places["repository"], *_IDENTITY, *arguments],
            env=_git_environment(),
            capture_output=True,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout

    def _commit(self, repository: Path, setup: Mapping[str, Any]) -> None:
        commits = setup.get("commits", [])
        if not commits or not shutil.which("git"):
            return
        try:
            self.git("init", "--quiet", "--initial-branch=main")
            # What a server commits has an author too, on a machine without any configuration of git.
            self.git("config", "user.name", "Tabane")
            self.git("config", "user.email", "bench@example.invalid")
            for commit in commits:
                _write(repository, commit["files"])
                self.git("add", ".")
                self.git("commit", "--quiet", "--message", commit["message"])
            for branch in setup.get("branches", []):
                self.git("branch", branch)
            _write(repository, setup.get("changes", {}))
        except (subprocess.CalledProcessError, KeyError) as error:
            raise DataFileError(
                say("The repository of a task cannot be made: {reason}", reason=str(error))
            ) from None


_IDENTITY = ("-c", "user.name=Tabane", "-c", "user.email=bench@example.invalid", "-c", "commit.gpgsign=false")


def programs_path(environ: Mapping[str, str]) -> str:
    """Return where programs of servers are searched for: PATH, then beside this Python."""
    return os.pathsep.join((environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))


def found_servers(
    servers: Mapping[str, Mapping[str, Any]], places: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the definitions of servers whose program is installed, and the missing program of the others."""
    path = programs_path(environ)
    found: dict[str, dict[str, Any]] = {}
    missing: dict[str, str] = {}
    for name, definition in placed(dict(servers), places).items():
        needed = (definition["command"], *definition.pop("needs", ()))
        absent = next((program for program in needed if not shutil.which(program, path=path)), None)
        if absent:
            missing[name] = absent
            continue
        command = shutil.which(definition["command"], path=path)
        found[name] = {**definition, "command": command, "env": {"PATH": path, **definition.get("env", {})}}
    return found, missing


def _joined(basis: Any, more: Any) -> Any:
    if isinstance(basis, dict) and isinstance(more, dict):
        return {**basis, **more}
    if isinstance(basis, list) and isinstance(more, list):
        return [*basis, *more]
    return basis if more is None else more


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _git_environment() -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    fixed = {"GIT_AUTHOR_DATE": _DATE, "GIT_COMMITTER_DATE": _DATE}
    return plain | fixed | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def names_of(missing: Mapping[str, str], wanted: Sequence[str]) -> str:
    """Return the programs that are missing for these servers."""
    return ", ".join(sorted({missing[name] for name in wanted if name in missing}))
