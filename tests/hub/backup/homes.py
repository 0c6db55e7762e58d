"""Small homes with a store, settings and servers, and their backups, without a hub."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from tabane.hub.backup.archive_format import BackupManifest
from tabane.hub.backup.making import BackupSource, Told, make_backup
from tabane.hub.backup.restoring import RestoreTarget

BUILD, HOME_FORMAT = "0.7.0", 1


class SmallHome:
    """A home in ``folder``, whose files all contain one word."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.settings_file = folder / "config" / "tabane.toml"
        self.servers_file = folder / "config" / "mcp-servers.json"

    def fill(self, word: str) -> SmallHome:
        for path in (self.home / "store", self.home / "audit", self.settings_file.parent):
            path.mkdir(parents=True, mode=0o700)
        for name in ("store/documents.db", "store/documents.vectors.db", "store/cache.db", "access.db"):
            database(self.home / name, word)
        write(self.home / "audit" / f"{1:016}.jsonl", word)
        write(self.home / "audit.head", word)
        write(self.home / "audit.key", f"key of {word}")
        write(self.home / "models.json", word)
        write(self.home / "secrets.env", f"TOKEN={word}-secret\n")
        write(self.settings_file, f'log_level = "info" # {word}\n')
        write(self.servers_file, f'{{"mcpServers": {{"{word}": {{"command": "{word}"}}}}}}\n')
        return self

    def backup(
        self, path: Path, *, with_secrets: bool = False, told: Told = lambda done, total: None
    ) -> BackupManifest:
        source = BackupSource(
            self.home, self.settings_file, self.servers_file, False, BUILD, HOME_FORMAT, with_secrets
        )
        return make_backup(source, lambda: open(path, "wb"), told)

    def target(self, *, forced: bool = False, build: str = BUILD) -> RestoreTarget:
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        environ = {"HOME": str(self.folder), "TABANE_HOME": str(self.home)}
        return RestoreTarget(self.home, self.settings_file, environ, build, HOME_FORMAT, None, forced)

    def words(self) -> dict[str, str]:
        """Return the word of each file that a backup contains and that exists."""
        found = {}
        for name in ("store/documents.db", "store/documents.vectors.db", "access.db"):
            if (self.home / name).exists():
                found[name] = word_in(self.home / name)
        for path in (self.home / "models.json", self.settings_file, self.servers_file):
            if path.exists():
                found[path.name] = "new" if "new" in path.read_text() else "old"
        return found

    def files(self) -> dict[str, bytes]:
        """Return the content of all files below the folder."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


WHOLE = frozenset(
    (
        *("store/documents.db", "store/documents.vectors.db", "access.db", "models.json"),
        *("tabane.toml", "mcp-servers.json"),
    )
)
"""Names in :meth:`SmallHome.words` of a complete home."""


def database(path: Path, word: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE word (word TEXT)")
        connection.execute("INSERT INTO word VALUES (?)", (word,))
        connection.commit()


def word_in(path: Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("SELECT word FROM word").fetchone()[0])


def write(path: Path, text: str) -> None:
    path.write_text(text)
    os.chmod(path, 0o600)
