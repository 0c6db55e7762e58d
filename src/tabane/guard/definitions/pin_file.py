"""The file of pins, ``pins.db`` in the home: which definitions are known, and their texts.

It is no cache: without it, a server that changed its definitions would be trusted again. So it is apart from
the catalog, and a part of each backup. Definitions may contain what only their user should read, so the file
is readable by its owner alone. It is used from one thread at a time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tabane.errors import StoreNewer
from tabane.guard.definitions.definition import KINDS, DefinitionKey
from tabane.guard.definitions.findings import decoded, encoded
from tabane.guard.definitions.pins import Pin, PinnedDefinition, PinState, ServerPins
from tabane.messages import say

log = logging.getLogger(__name__)

PINS_FILE = "pins.db"
VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS server(
  name TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, lists TEXT NOT NULL, withdrawn INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS pin(
  server TEXT NOT NULL, kind TEXT NOT NULL, name BLOB NOT NULL, digest BLOB NOT NULL,
  state INTEGER NOT NULL, why TEXT NOT NULL, seen REAL NOT NULL, findings BLOB, body BLOB,
  PRIMARY KEY (server, kind, name, digest));
"""

_PUT = """
INSERT INTO pin VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (server, kind, name, digest)
DO UPDATE SET state = excluded.state, findings = excluded.findings, body = coalesce(excluded.body, body)
"""


class PinWrites(NamedTuple):
    """What has to be written of one server: pins that came or changed, with the bodies of new ones."""

    server: str
    pins: tuple[PinnedDefinition, ...] = ()
    bodies: Mapping[tuple[DefinitionKey, bytes], bytes] = {}
    forgotten: tuple[PinnedDefinition, ...] = ()
    head: ServerPins | None = None
    whole: bool = False  # nothing else is known of the server any more


class PinFile:
    """Reads and writes pins. A file that is damaged is put aside, and definitions are pinned again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._database = self._open()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            log.error("%s is damaged, so definitions of servers are pinned again: %s", path, error)
            for end in ("", "-wal", "-shm"):
                with contextlib.suppress(OSError):
                    Path(f"{path}{end}").replace(f"{path}.broken{end}")
            self._database = self._open()

    def load(self) -> dict[str, ServerPins]:
        """Return the pins of all servers, without the definitions themselves."""
        found: dict[str, ServerPins] = {}
        for name, fingerprint, lists, withdrawn in self._database.execute("SELECT * FROM server"):
            kinds = {kind for kind in KINDS.values() if kind in lists.split(",")}
            found[name] = ServerPins(fingerprint, kinds, bool(withdrawn))
        rows = self._database.execute(
            "SELECT server, kind, name, digest, state, why, seen, findings FROM pin"
        )
        for server, kind, name, digest, state, why, seen, findings in rows:
            if server in found:
                kept = None if findings is None else decoded(findings)
                found[server].put(
                    DefinitionKey(kind, _name(name)), Pin(digest, PinState(state), why, seen, kept)
                )
        return found

    def bodies(self, server: str, key: DefinitionKey) -> dict[bytes, bytes]:
        """Return the definitions that are known of a key, by digest."""
        rows = self._database.execute(
            "SELECT digest, body FROM pin WHERE server = ? AND kind = ? AND name = ?",
            (server, key.kind, _stored(key.name)),
        )
        return {digest: zlib.decompress(body) for digest, body in rows if body is not None}

    def write(self, writes: PinWrites) -> None:
        """Write changes in one transaction."""
        server = writes.server
        with self._database:
            if writes.whole:
                self._database.execute("DELETE FROM pin WHERE server = ?", (server,))
            if writes.head is not None:
                self._write_head(server, writes.head)
            self._database.executemany(
                "DELETE FROM pin WHERE server = ? AND kind = ? AND name = ? AND digest = ?",
                [(server, key.kind, _stored(key.name), pin.digest) for key, pin in writes.forgotten],
            )
            self._database.executemany(_PUT, (_row(server, each, writes.bodies) for each in writes.pins))

    def close(self) -> None:
        self._database.close()

    def _write_head(self, server: str, pins: ServerPins) -> None:
        row = (server, pins.fingerprint, ",".join(sorted(pins.lists)), pins.withdrawn)
        self._database.execute("INSERT OR REPLACE INTO server VALUES (?,?,?,?)", row)

    def _open(self) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.chmod(self._path, 0o600)
        database = sqlite3.connect(self._path, check_same_thread=False, timeout=5)
        try:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            self._check(version)
            database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" + _SCHEMA)
            if version != VERSION:  # a write, for which a full disk has no room
                database.execute(f"PRAGMA user_version={VERSION}")
        except BaseException:
            database.close()
            raise
        return database

    def _check(self, version: int) -> None:
        """Raise StoreNewer for a file of a later version: what it says must not be lost."""
        if version > VERSION:
            raise StoreNewer(
                say(
                    "{path} was written by a newer Tabane (version {theirs}; this one supports "
                    "{ours}). Update Tabane",
                    path=self._path,
                    theirs=version,
                    ours=VERSION,
                )
            )


def _stored(name: str) -> bytes:
    """Return a name as it is stored: it may have halves of surrogate pairs, which no text of SQLite has."""
    return name.encode("utf-8", "surrogatepass")


def _name(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")


def _row(
    server: str, pinned: PinnedDefinition, bodies: Mapping[tuple[DefinitionKey, bytes], bytes]
) -> tuple[object, ...]:
    key, pin = pinned
    body = bodies.get((key, pin.digest))
    return (
        server,
        key.kind,
        _stored(key.name),
        pin.digest,
        int(pin.state),
        pin.why,
        pin.seen,
        None if pin.findings is None else encoded(pin.findings),
        None if body is None else zlib.compress(body, 1),
    )
