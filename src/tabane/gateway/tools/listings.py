"""What upstreams listed, kept on disk: so that the hub answers before any of them is up.

One small SQLite file. Listings are a cache, by fingerprint of the server's configuration; the map of
aliases is kept for good, since a name that changed between starts would break whoever remembers it.
Used from one thread at a time.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import Raw

from tabane.gateway.tools.names import Entry
from tabane.wire import json
from tabane.wire.era import Era

SCHEMA = """
CREATE TABLE IF NOT EXISTS listing(
  server TEXT PRIMARY KEY, fingerprint TEXT, era TEXT, version TEXT, about TEXT, listed REAL, tools BLOB);
CREATE TABLE IF NOT EXISTS learned(server TEXT PRIMARY KEY, fingerprint TEXT, share TEXT);
CREATE TABLE IF NOT EXISTS alias(alias TEXT PRIMARY KEY, server TEXT, name TEXT, namespace TEXT);
"""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of one server as it listed them. ``listed`` is a Unix time; ``about`` its own name."""

    server: str
    fingerprint: str
    era: Era
    version: str
    about: str
    listed: float
    tools: tuple[Raw, ...]


class Listings:
    """The file of listings and aliases. A broken file is put aside and begun anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._database = self._open()
        except sqlite3.DatabaseError:
            with contextlib.suppress(OSError):
                path.replace(path.with_suffix(".broken"))
            self._database = self._open()

    def load(self) -> dict[str, Listing]:
        """All listings by server. A row that cannot be read is left out: its server lists anew."""
        rows = self._database.execute(
            "SELECT server, fingerprint, era, version, about, listed, tools FROM listing"
        )
        found = {}
        for server, fingerprint, era, version, about, listed, tools in rows:
            with contextlib.suppress(ValueError):
                definitions = tuple(json.elements(tools))
                found[server] = Listing(server, fingerprint, Era(era), version, about, listed, definitions)
        return found

    def save(self, listing: Listing) -> None:
        tools = b"[" + b",".join(bytes(tool) for tool in listing.tools) + b"]"
        with self._database:
            self._database.execute(
                "INSERT OR REPLACE INTO listing VALUES (?,?,?,?,?,?,?)",
                (
                    listing.server,
                    listing.fingerprint,
                    listing.era.value,
                    listing.version,
                    listing.about,
                    listing.listed,
                    tools,
                ),
            )

    def forget(self, servers: Iterable[str]) -> None:
        """Drop the listings of these servers; what their tools were called is kept."""
        with self._database:
            self._database.executemany("DELETE FROM listing WHERE server = ?", [(name,) for name in servers])

    def learned(self) -> dict[tuple[str, str], str]:
        """How servers have to be shared that showed it by what they asked: by name and fingerprint."""
        rows = self._database.execute("SELECT server, fingerprint, share FROM learned")
        return {(server, fingerprint): share for server, fingerprint, share in rows}

    def learn(self, server: str, fingerprint: str, share: str) -> None:
        with self._database:
            self._database.execute(
                "INSERT OR REPLACE INTO learned VALUES (?,?,?)", (server, fingerprint, share)
            )

    def aliases(self) -> dict[str, Entry]:
        """Every alias ever given, oldest first, and what it stands for."""
        rows = self._database.execute("SELECT alias, server, name, namespace FROM alias ORDER BY rowid")
        return {alias: (server, name, namespace) for alias, server, name, namespace in rows}

    def keep_aliases(self, aliases: Mapping[str, Entry]) -> None:
        with self._database:
            self._database.executemany(
                "INSERT OR IGNORE INTO alias VALUES (?,?,?,?)",
                [(alias, *entry) for alias, entry in aliases.items()],
            )

    def close(self) -> None:
        self._database.close()

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, check_same_thread=False, timeout=5)
        database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" + SCHEMA)
        self._path.chmod(0o600)
        return database


def remembered_names(path: Path, servers: Collection[str]) -> list[str]:
    """The names of all tools that those servers were ever seen with; nothing is made or changed.

    Empty where the file is not there or cannot be read.
    """
    if not path.exists():
        return []
    with contextlib.suppress(sqlite3.Error):
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=1)) as database:
            rows = database.execute("SELECT alias, server FROM alias ORDER BY alias").fetchall()
        return [alias for alias, server in rows if server in servers]
    return []


def listing_of(
    server: str, fingerprint: str, era: Era, version: str, about: str, tools: list[Raw]
) -> Listing:
    """A listing made now."""
    return Listing(server, fingerprint, era, version, about, time.time(), tuple(tools))
