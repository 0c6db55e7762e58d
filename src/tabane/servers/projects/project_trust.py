"""Trust in files of projects: which bytes of which file a person has allowed, kept in the home.

A file is trusted by its path and the SHA-256 of its bytes, so a changed file is not trusted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tabane.errors import ConfigurationError
from tabane.messages import say
from tabane.servers.editing import folder_lock
from tabane.servers.projects.project_files import ProjectFile, definitions_in, described
from tabane.servers.projects.project_folders import PROJECT_FILES, TRUST_FILE
from tabane.settings.files import private_folder, read_private, write_private

MOST_TRUSTED = 100
"""Files that are trusted at the same time: they are watched while the hub runs."""


@dataclass(frozen=True, slots=True)
class TrustedFile:
    """A file that a person has trusted. ``servers`` are the lines that were shown of each server."""

    folder: str
    name: str
    digest: str
    servers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return Path(self.folder, self.name)

    @property
    def key(self) -> tuple[str, str]:
        return self.folder, self.name


class ProjectTrust:
    """The files that a person has trusted, kept in ``home``. All of it blocks."""

    def __init__(self, home: Path) -> None:
        self._home, self.path = home, home / TRUST_FILE

    def files(self) -> tuple[TrustedFile, ...]:
        """Return the trusted files, in the order in which they were trusted. Raises ConfigurationError."""
        try:
            data = read_private(self.path)
        except FileNotFoundError:
            return ()
        try:
            return tuple(_entry(each) for each in json.loads(data)["files"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ConfigurationError(
                say("{path} is not valid. Delete it, and trust your projects again.", path=self.path)
            ) from None

    def add(self, files: Iterable[ProjectFile]) -> None:
        """Trust these bytes of these files. Raises ConfigurationError."""
        added = {file.path: _trusted(file) for file in files}
        private_folder(self._home)
        with folder_lock(self.path):
            kept = {each.path: each for each in self.files()} | added
            if len(kept) > MOST_TRUSTED:
                raise ConfigurationError(
                    say(
                        "{most} project {most:file is|files are} trusted already. "
                        "Forget one: tabane projects forget",
                        most=MOST_TRUSTED,
                    )
                )
            self._write(kept.values())

    def forget(self, folder: str) -> tuple[TrustedFile, ...]:
        """Trust no file of a folder any more. Return those that were trusted. Raises ConfigurationError."""
        if not self.path.exists():
            return ()
        with folder_lock(self.path):
            files = self.files()
            gone = tuple(each for each in files if each.folder == folder)
            if gone:
                self._write(each for each in files if each.folder != folder)
        return gone

    def _write(self, files: Iterable[TrustedFile]) -> None:
        rows = [
            {"folder": each.folder, "name": each.name, "sha256": each.digest, "servers": dict(each.servers)}
            for each in files
        ]
        try:
            write_private(self.path, json.dumps({"version": 1, "files": rows}, indent=1).encode() + b"\n")
        except OSError as error:
            raise ConfigurationError(
                say("{path} cannot be written: {reason}.", path=self.path, reason=error.strerror)
            ) from None


def _trusted(file: ProjectFile) -> TrustedFile:
    servers = {name: tuple(described(value)) for name, value in definitions_in(file).items()}
    return TrustedFile(file.folder, file.name, file.digest, servers)


def _entry(row: Any) -> TrustedFile:
    folder, name, digest = row["folder"], row["name"], row["sha256"]
    if not (isinstance(folder, str) and isinstance(digest, str) and name in PROJECT_FILES):
        raise ValueError(row)
    servers = {str(key): tuple(map(str, lines)) for key, lines in row.get("servers", {}).items()}
    return TrustedFile(folder, name, digest, servers)
