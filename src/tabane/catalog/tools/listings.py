"""Stored listings of upstreams, so that the hub can answer before any of them has started.

One small SQLite file. Listings are a cache, by fingerprint of the server's configuration. The map of aliases
is kept permanently, since a name that changed between starts would break anybody who remembers it. Used from
one thread at a time.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Raw, Struct, structs

from tabane.catalog.tools.aliases import Entry
from tabane.errors import StoreNewer
from tabane.settings.files import private_folder
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson, Members
from tabane.wire.negotiation import extensions_in

log = logging.getLogger(__name__)

VERSION = 1
"""Version of the file. A file of a later version is not opened, since its contents could be lost."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS listing(
  server TEXT PRIMARY KEY, fingerprint TEXT, era TEXT, version TEXT, about TEXT, listed REAL, tools BLOB);
CREATE TABLE IF NOT EXISTS offered(
  server TEXT PRIMARY KEY, fingerprint TEXT, capabilities BLOB, prompts BLOB, resources BLOB, templates BLOB);
CREATE TABLE IF NOT EXISTS skills(server TEXT PRIMARY KEY, fingerprint TEXT, skills BLOB);
CREATE TABLE IF NOT EXISTS learned(server TEXT PRIMARY KEY, fingerprint TEXT, share TEXT);
CREATE TABLE IF NOT EXISTS alias(alias TEXT PRIMARY KEY, server TEXT, name TEXT, namespace TEXT);
CREATE TABLE IF NOT EXISTS prompt_alias(
  alias TEXT PRIMARY KEY, server TEXT, name TEXT, namespace TEXT);
CREATE TABLE IF NOT EXISTS used(holder TEXT, tool TEXT, weight REAL, PRIMARY KEY (holder, tool));
"""

# Additions of later versions are in separate tables, so that older versions can still read the file.
LOAD = """
SELECT listing.server, listing.fingerprint, era, version, about, listed, tools,
  capabilities, prompts, resources, templates, skills.skills
FROM listing LEFT JOIN offered
ON offered.server = listing.server AND offered.fingerprint = listing.fingerprint
LEFT JOIN skills ON skills.server = listing.server AND skills.fingerprint = listing.fingerprint
"""

Named = Literal["tools", "prompts"]
_ALIASES: dict[Named, str] = {"tools": "alias", "prompts": "prompt_alias"}


class ServerListing(Struct, frozen=True):
    """The offers of one server as it listed them. ``listed`` is a Unix time; ``about`` its own name.

    ``lists`` holds definitions by the name of the list (tools, prompts, resources, templates, skills),
    without lists that were never read. ``capabilities`` is the server's JSON object, empty if unknown.
    """

    server: str
    fingerprint: str
    era: Era
    version: str
    about: str
    listed: float
    lists: Mapping[str, tuple[Raw, ...]]
    capabilities: bytes = b"{}"

    def has(self, capability: str) -> bool:
        """Return whether the server declared that capability, or the extension with that identifier."""
        try:
            capabilities = json.fields(self.capabilities)
        except InvalidJson:
            return False
        return capability in capabilities or capability in extensions_in(capabilities)

    def settings_of(self, extension: str) -> Members:
        """Return the settings with which the server declared an extension; {} if it did not."""
        try:
            return json.fields(extensions_in(json.fields(self.capabilities))[extension])
        except (InvalidJson, KeyError):
            return {}

    def with_list(self, name: str, items: Iterable[Raw]) -> ServerListing:
        """Return this listing with one list replaced."""
        return structs.replace(self, listed=time.time(), lists={**self.lists, name: tuple(items)})


_UNWRITABLE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")
"""Errors after which nothing is wrong with the file: the disk is full, or may not be written."""


class ListingsFile:
    """The file of listings and aliases. A broken file is put aside and started again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._database = self._open()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname.startswith(_UNWRITABLE):
                log.warning("%s cannot be written, and is kept in memory: %s", path, error)
                self._database = self._in_memory()
                return
            with contextlib.suppress(OSError):
                path.replace(path.with_suffix(".broken"))
            self._database = self._open()

    def load(self) -> dict[str, ServerListing]:
        """Return all listings by server. A row that cannot be read is left out: its server lists again."""
        found = {}
        for row in self._database.execute(LOAD):
            with contextlib.suppress(ValueError):
                listing = _listing(*row)
                found[listing.server] = listing
        return found

    def save(self, listing: ServerListing) -> None:
        """Write the listing of a server in place of the earlier one."""
        about = (listing.server, listing.fingerprint, listing.era.value, listing.version, listing.about)
        offered = [_column(listing.lists.get(name)) for name in ("prompts", "resources", "templates")]
        with self._database:
            self._database.execute(
                "INSERT OR REPLACE INTO listing VALUES (?,?,?,?,?,?,?)",
                (*about, listing.listed, _column(listing.lists.get("tools"))),
            )
            self._database.execute(
                "INSERT OR REPLACE INTO offered VALUES (?,?,?,?,?,?)",
                (listing.server, listing.fingerprint, listing.capabilities, *offered),
            )
            self._database.execute(
                "INSERT OR REPLACE INTO skills VALUES (?,?,?)",
                (listing.server, listing.fingerprint, _column(listing.lists.get("skills"))),
            )

    def forget(self, servers: Iterable[str]) -> None:
        """Drop the listings of these servers; the aliases of their tools are kept."""
        names = [(name,) for name in servers]
        with self._database:
            self._database.executemany("DELETE FROM listing WHERE server = ?", names)
            self._database.executemany("DELETE FROM offered WHERE server = ?", names)
            self._database.executemany("DELETE FROM skills WHERE server = ?", names)

    def learned(self) -> dict[tuple[str, str], str]:
        """Return how servers have to be shared, as learned from their requests: by name and fingerprint."""
        rows = self._database.execute("SELECT server, fingerprint, share FROM learned")
        return {(server, fingerprint): share for server, fingerprint, share in rows}

    def learn(self, server: str, fingerprint: str, share: str) -> None:
        """Write how a server has to be shared."""
        with self._database:
            self._database.execute(
                "INSERT OR REPLACE INTO learned VALUES (?,?,?)", (server, fingerprint, share)
            )

    def aliases(self, of: Named = "tools") -> dict[str, Entry]:
        """Return every alias ever assigned, oldest first, and its tool."""
        rows = self._database.execute(
            f"SELECT alias, server, name, namespace FROM {_ALIASES[of]} ORDER BY rowid"
        )
        return {alias: (server, name, namespace) for alias, server, name, namespace in rows}

    def keep_aliases(self, aliases: Mapping[str, Entry], of: Named = "tools") -> None:
        """Add the public names that are new."""
        with self._database:
            self._database.executemany(
                f"INSERT OR IGNORE INTO {_ALIASES[of]} VALUES (?,?,?,?)",
                [(alias, *entry) for alias, entry in aliases.items()],
            )

    def used(self) -> list[tuple[str, str, float]]:
        """Return how much each holder used each tool, as it was kept."""
        return list(self._database.execute("SELECT holder, tool, weight FROM used"))

    def keep_used(self, used: Iterable[tuple[str, str, float]]) -> None:
        """Keep only this."""
        with self._database:
            self._database.execute("DELETE FROM used")
            self._database.executemany("INSERT INTO used VALUES (?,?,?)", used)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, check_same_thread=False, timeout=5)
        try:
            version = self._check_version(database)
            database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" + SCHEMA)
            if version != VERSION:  # a write, for which a full disk has no room
                database.execute(f"PRAGMA user_version={VERSION}")
        except BaseException:
            database.close()
            raise
        self._path.chmod(0o600)
        return database

    def _in_memory(self) -> sqlite3.Connection:
        """Return a copy of the file, as far as it can be read, that lasts until the hub ends."""
        database = sqlite3.connect(":memory:", check_same_thread=False)
        with contextlib.suppress(sqlite3.Error):
            source = sqlite3.connect(f"{self._path.absolute().as_uri()}?immutable=1", uri=True)
            with contextlib.closing(source):
                source.backup(database)
        self._check_version(database)
        database.executescript(SCHEMA)
        return database

    def _check_version(self, database: sqlite3.Connection) -> int:
        """Return the version. Raise StoreNewer for a later one, so that assigned names are not lost."""
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise StoreNewer.of(self._path, version, VERSION)
        return int(version)


def remembered_names(path: Path, servers: Collection[str]) -> list[str]:
    """Return the names of all known tools of those servers, without changing or creating a file.

    Empty if the file does not exist or cannot be read.
    """
    if not path.exists():
        return []
    with contextlib.suppress(sqlite3.Error):
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=1)) as database:
            rows = database.execute("SELECT alias, server FROM alias ORDER BY alias").fetchall()
        return [alias for alias, server in rows if server in servers]
    return []


def keep_listing(path: Path, listing: ServerListing) -> None:
    """Keep the listing of a server in that file, unless it has one of that name. Ignores failures."""
    with contextlib.suppress(OSError, sqlite3.Error):
        private_folder(path.parent)
        with contextlib.closing(ListingsFile(path)) as listings:
            if listing.server not in listings.load():
                listings.save(listing)


def listing_of(
    server: str,
    fingerprint: str,
    era: Era,
    version: str,
    about: str,
    capabilities: bytes,
    lists: Mapping[str, tuple[Raw, ...]],
) -> ServerListing:
    """Return a listing made now."""
    return ServerListing(server, fingerprint, era, version, about, time.time(), lists, capabilities)


def _listing(
    server: str,
    fingerprint: str,
    era: str,
    version: str,
    about: str,
    listed: float,
    tools: bytes | None,
    capabilities: bytes | None,
    *offered: bytes | None,
) -> ServerListing:
    columns = {
        "tools": tools,
        **dict(zip(("prompts", "resources", "templates", "skills"), offered, strict=True)),
    }
    lists = {name: tuple(json.elements(items)) for name, items in columns.items() if items is not None}
    return ServerListing(server, fingerprint, Era(era), version, about, listed, lists, capabilities or b"{}")


def _column(items: Iterable[Raw] | None) -> bytes | None:
    return None if items is None else b"[" + b",".join(map(bytes, items)) + b"]"
