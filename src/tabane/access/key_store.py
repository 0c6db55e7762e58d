"""The file of API keys, ``access.db`` in the home: their hashes, permissions and times.

A secret has a format with a checksum, and only its hash is kept. One connection reads single keys on the
event loop, which takes microseconds. The other one does everything else, in a thread. After each commit the
write-ahead log is empty, so that the one file is a complete backup.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import sqlite3
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from tabane.access.permissions import PermissionPatterns
from tabane.errors import (
    ConfigurationError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreNewer,
    StoreReadOnly,
)
from tabane.messages import say

PREFIX = "tbn_"

LONGEST_SECRET = 62

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

_ID_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"

_ID, _RANDOM, _CHECK = 8, 43, 6

_shape = re.compile(rf"tbn_([0-9a-z]{{{_ID}}})_[0-9A-Za-z]{{{_RANDOM + _CHECK}}}").fullmatch


def new_secret() -> str:
    """Return a new secret."""
    name = "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID))
    random = "".join(secrets.choice(_LETTERS) for _ in range(_RANDOM))
    body = f"{PREFIX}{name}_{random}"
    return body + checksum_of(body)


def id_in(secret: str) -> str | None:
    """Return the id of the key that a well-formed secret belongs to; None if it is not one."""
    found = _shape(secret) if len(secret) == LONGEST_SECRET and secret.isascii() else None
    if found is None or checksum_of(secret[:-_CHECK]) != secret[-_CHECK:]:
        return None
    return found[1]


def hash_of(secret: str) -> bytes:
    """Return the hash of a secret. It has 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(secret.encode()).digest()


def checksum_of(body: str) -> str:
    """Return the checksum of a secret without it: CRC-32 in base 62, as other issuers of tokens do."""
    rest, letters = zlib.crc32(body.encode()), ""
    for _ in range(_CHECK):
        rest, digit = divmod(rest, len(_LETTERS))
        letters = _LETTERS[digit] + letters
    return letters


VERSION = 1
"""Version of the file. A file of a later version is not opened."""

FILE = "access.db"

MOST_KEYS = 1_000_000
"""Keys that the file holds, revoked ones included."""

FORGOTTEN_AFTER = 400 * 86_400
"""Seconds after which a revoked key is removed, when another one is created."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS api_key(
  id TEXT PRIMARY KEY, hash BLOB NOT NULL, name TEXT NOT NULL, allow TEXT NOT NULL, deny TEXT NOT NULL,
  read_only INTEGER NOT NULL, profile TEXT NOT NULL, tier TEXT NOT NULL,
  created REAL NOT NULL, expires REAL, used REAL, revoked REAL) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS active_name ON api_key(name) WHERE revoked IS NULL;
CREATE INDEX IF NOT EXISTS by_name ON api_key(name, id);
"""
# A table of its own, and the same version: builds that do not know it read and write the file as before.
_PEOPLE = "CREATE TABLE IF NOT EXISTS key_person(id TEXT PRIMARY KEY, person TEXT NOT NULL) WITHOUT ROWID"

COLUMNS = "id, hash, name, allow, deny, read_only, profile, tier, created, expires, used, revoked"
_KEYS = f"SELECT {COLUMNS}, (SELECT person FROM key_person WHERE key_person.id = api_key.id) FROM api_key"
_ONE = f"{_KEYS} WHERE id = ?"
_PLACES = ",".join("?" * 12)


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One key as the file has it. Times are Unix seconds. The hash is not shown anywhere.

    ``person`` is the name of the one who uses it, empty if nobody said it.
    """

    id: str
    hash: bytes
    name: str
    patterns: PermissionPatterns
    profile: str
    tier: str
    created: float
    expires: float | None = None
    used: float | None = None
    revoked: float | None = None
    person: str = ""

    def __repr__(self) -> str:
        return f"KeyRecord({self.id}, {self.name!r})"

    def state(self, now: float) -> str:
        """Return ``active``, ``expired`` or ``revoked``."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"


@dataclass(frozen=True, slots=True)
class KeyPage:
    """A part of the list of keys. ``more`` says whether further keys follow."""

    records: list[KeyRecord]
    total: int
    more: bool


Stamp = tuple[int, int, int]
"""Device, inode and data version of the file: it changes with the content."""


class KeyStore:
    """The open file.

    :meth:`one`, :meth:`exist` and :meth:`stamp` are for the event loop, all else is for one thread at a time.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """Open the file. Raises FileNotFoundError, ConfigurationError and StoreError."""
        self.path = path
        if create:
            _create_file(path)
        self._identity = _checked_identity(path)
        with _store_errors(path):
            self._writer = _connect_database(path)
            try:
                _prepare_schema(self._writer, path)
                self._reader = _connect_database(path, busy=0.05)
            except BaseException:
                self._writer.close()
                raise

    def close(self) -> None:
        """Close both connections."""
        self._reader.close()
        self._writer.close()

    def one(self, id: str) -> KeyRecord | None:
        """Return the key with that id."""
        try:
            rows = self._reader.execute(_ONE, (id,)).fetchall()
        except sqlite3.Error as error:
            raise _store_error(self.path, error) from None
        return record_of(rows[0]) if rows else None

    def exist(self) -> bool:
        """Return whether any key is not revoked."""
        with _store_errors(self.path):
            return bool(
                self._reader.execute("SELECT 1 FROM api_key WHERE revoked IS NULL LIMIT 1").fetchall()
            )

    def stamp(self) -> Stamp | None:
        """Return the stamp of the file; None if it was removed or replaced by another one."""
        if _identity(self.path) != self._identity:
            return None
        with _store_errors(self.path):
            ((version,),) = self._reader.execute("PRAGMA data_version").fetchall()
        return (*self._identity, version)

    # -- in the thread ---------------------------------------------------------------------------

    def some(self, ids: Iterable[str]) -> dict[str, KeyRecord]:
        """Return the keys with these ids that exist."""
        found = {}
        with _store_errors(self.path):
            for id in ids:
                for row in self._writer.execute(_ONE, (id,)):
                    found[id] = record_of(row)
        return found

    def named(self, name: str) -> KeyRecord | None:
        """Return the key of that name: the active one, else the one revoked last."""
        query = f"{_KEYS} WHERE name = ? ORDER BY revoked IS NULL DESC, revoked DESC"
        with _store_errors(self.path):
            rows = self._writer.execute(f"{query} LIMIT 1", (name,)).fetchall()
        return record_of(rows[0]) if rows else None

    def beginning(self, prefix: str, limit: int) -> list[KeyRecord]:
        """Return the first keys whose ids begin with ``prefix``."""
        query = f"{_KEYS} WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
        with _store_errors(self.path):
            rows = self._writer.execute(query, (prefix, f"{prefix}\x7f", limit)).fetchall()
        return [record_of(row) for row in rows]

    def count(self) -> int:
        """Return how many keys are not revoked."""
        with _store_errors(self.path):
            ((count,),) = self._writer.execute(
                "SELECT count(*) FROM api_key WHERE revoked IS NULL"
            ).fetchall()
        return int(count)

    def names(self, limit: int) -> list[str]:
        """Return names of keys that are not revoked."""
        query = "SELECT name FROM api_key WHERE revoked IS NULL ORDER BY name LIMIT ?"
        with _store_errors(self.path):
            return [name for (name,) in self._writer.execute(query, (limit,))]

    def page(self, limit: int, after: str, *, revoked: bool) -> KeyPage:
        """Return keys in the order of name and id, those after the key with the id ``after``."""
        which = "1" if revoked else "revoked IS NULL"
        query = (
            f"{_KEYS} WHERE {which} AND (? = '' OR "
            "(name, id) > (SELECT name, id FROM api_key WHERE id = ?)) ORDER BY name, id LIMIT ?"
        )
        with _store_errors(self.path):
            rows = self._writer.execute(query, (after, after, limit + 1)).fetchall()
            ((total,),) = self._writer.execute(f"SELECT count(*) FROM api_key WHERE {which}").fetchall()
        return KeyPage([record_of(row) for row in rows[:limit]], total, len(rows) > limit)

    def add(self, record: KeyRecord) -> bool:
        """Add a key. Return False if its id exists. Raises sqlite3.IntegrityError if its name is taken."""
        with self._transaction() as database:
            database.execute("DELETE FROM api_key WHERE revoked < ?", (record.created - FORGOTTEN_AFTER,))
            database.execute("DELETE FROM key_person WHERE id NOT IN (SELECT id FROM api_key)")
            if database.execute("SELECT 1 FROM api_key WHERE id = ?", (record.id,)).fetchall():
                return False
            ((count,),) = database.execute("SELECT count(*) FROM api_key").fetchall()
            if count >= MOST_KEYS:
                raise StoreFull(
                    say("There are {count} {count:key|keys}, which is the limit. Revoke some.", count=count)
                )
            database.execute(f"INSERT INTO api_key VALUES ({_PLACES})", row_of(record))
            _write_person(database, record)
        return True

    def put(self, records: Iterable[KeyRecord]) -> None:
        """Add or replace keys as they are at another place, which is the truth about them."""
        with self._transaction() as database:
            for record in records:
                if record.revoked is None:
                    taken = "DELETE FROM api_key WHERE name = ? AND revoked IS NULL AND id <> ?"
                    database.execute(taken, (record.name, record.id))
                database.execute(f"INSERT OR REPLACE INTO api_key VALUES ({_PLACES})", row_of(record))
                _write_person(database, record)

    def active(self) -> list[KeyRecord]:
        """Return the keys that are not revoked."""
        with _store_errors(self.path):
            rows = self._writer.execute(f"{_KEYS} WHERE revoked IS NULL")
            return [record_of(row) for row in rows]

    def change(self, record: KeyRecord) -> KeyRecord | None:
        """Replace a key by its changed record, and return it as the file has it now; None if it is gone.

        The last use stays, and a key that was revoked in the meantime stays revoked.
        """
        with self._transaction() as database:
            row = dict(zip(COLUMNS.split(", "), row_of(record), strict=True))
            names = [name for name in row if name not in ("id", "hash", "used", "revoked")]
            changes = ", ".join(f"{name} = :{name}" for name in names)
            database.execute(
                f"UPDATE api_key SET {changes}, revoked = coalesce(revoked, :revoked) WHERE id = :id", row
            )
            _write_person(database, record)
            rows = database.execute(_ONE, (record.id,)).fetchall()
        return record_of(rows[0]) if rows else None

    def record_uses(self, uses: Mapping[str, float]) -> None:
        """Record the times of last use of keys."""
        with self._transaction() as database:
            database.executemany(
                "UPDATE api_key SET used = max(coalesce(used, 0), ?) WHERE id = ?",
                [(when, id) for id, when in uses.items()],
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _store_errors(self.path):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")
            with contextlib.suppress(sqlite3.OperationalError):  # a reader is there: the next commit does it
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _write_person(database: sqlite3.Connection, record: KeyRecord) -> None:
    if record.person:
        database.execute("INSERT OR REPLACE INTO key_person VALUES (?, ?)", (record.id, record.person))
    else:
        database.execute("DELETE FROM key_person WHERE id = ?", (record.id,))


def row_of(record: KeyRecord) -> tuple[Any, ...]:
    """Return a key as a row, in the order of :data:`COLUMNS`: without its person."""
    patterns = record.patterns
    lists = [msgspec.json.encode(each).decode() for each in (patterns.allow, patterns.deny)]
    return (
        record.id, record.hash, record.name, *lists, patterns.read_only, record.profile, record.tier,
        record.created, record.expires, record.used, record.revoked,
    )  # fmt: skip


_strings = msgspec.json.Decoder(tuple[str, ...]).decode


def record_of(row: tuple[Any, ...]) -> KeyRecord:
    """Return a row as a record: :data:`COLUMNS`, and the person. A row that cannot be read allows nothing."""
    id, hash, name, allow, deny, read_only, profile, tier, created, expires, used, revoked, person = row
    try:
        patterns = PermissionPatterns(_strings(allow), _strings(deny), bool(read_only))
    except msgspec.MsgspecError:
        patterns = PermissionPatterns()
    return KeyRecord(id, hash, name, patterns, profile, tier, created, expires, used, revoked, person or "")


def revoked(record: KeyRecord, when: float) -> KeyRecord:
    """Return the record, revoked at that time."""
    return replace(record, revoked=when)


# -- the file ------------------------------------------------------------------------------------


def _create_file(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        why = StoreFull if error.errno == errno.ENOSPC else StoreReadOnly
        raise why(say("{path} cannot be created: {reason}.", path=path, reason=error.strerror)) from None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _checked_identity(path: Path) -> tuple[int, int]:
    """Return device and inode of the file, which must be the user's alone."""
    status = os.stat(path)
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigurationError(
            say(
                "{path} belongs to another user (uid {owner}), so its keys are not used.",
                path=path,
                owner=status.st_uid,
            )
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise ConfigurationError(
            say(
                "Other users can read or write {path}, so its keys are not used. Make it private with: "
                "chmod 600 {path}",
                path=path,
            )
        )
    return status.st_dev, status.st_ino


def _connect_database(path: Path, busy: float = 5) -> sqlite3.Connection:
    from urllib.parse import quote  # a hub without keys does not need it

    url = f"file:{quote(os.fspath(path.absolute()))}?mode=rw"
    return sqlite3.connect(url, uri=True, timeout=busy, isolation_level=None, check_same_thread=False)


def _prepare_schema(database: sqlite3.Connection, path: Path) -> None:
    ((version,),) = database.execute("PRAGMA user_version").fetchall()
    if version > VERSION:
        raise StoreNewer(
            say(
                "A newer version of Tabane wrote {path} (version {found}, this one reads {known}). "
                "Update Tabane.",
                path=path,
                found=version,
                known=VERSION,
            )
        )
    database.execute("PRAGMA journal_mode = WAL").fetchall()
    database.execute("PRAGMA synchronous = FULL")
    if version < VERSION:
        database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if not database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'key_person'").fetchall():
        database.execute(_PEOPLE)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@contextlib.contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    """Turn errors of the database into errors that say what to do. An IntegrityError stays one."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise _store_error(path, error) from None


def _store_error(path: Path, error: sqlite3.Error) -> StoreError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith("SQLITE_FULL"):
        return StoreFull(say("The disk is full, so {path} cannot be written.", path=path))
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return StoreReadOnly(say("{path} cannot be written. Check its permissions.", path=path))
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusy(say("Another process is writing {path}. Try again.", path=path))
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreCorrupt(
            say(
                "{path} is damaged, so no key is accepted. Restore it from a backup, or delete it.", path=path
            )
        )
    return StoreError(say("{path} could not be used: {reason}.", path=path, reason=error))
