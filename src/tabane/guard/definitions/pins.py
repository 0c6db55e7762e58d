"""Pins of one server: which definitions are trusted, which wait for a person, and what a list changes. Pure.

A definition is known by its digest. The digests of one key are trusted (seen first, or accepted by a person),
open (seen later, waiting for a person), or rejected.

The file of pins, ``pins.db`` in the home, is no cache: without it, a server that changed its definitions
would be trusted again. So it is apart from the catalog, and a part of each backup. Definitions may contain
what only their user should read, so the file is readable by its owner alone. It is used from one thread at a
time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct, field, structs

from tabane.errors import StoreNewer
from tabane.guard.definitions.definition import (
    KINDS,
    DefinitionKey,
    KeptFinding,
    Kind,
    SeenDefinition,
    decoded,
    encoded,
    is_high,
)

log = logging.getLogger(__name__)

MOST_VERSIONS = 8
"""Digests that are known of one key. If there are more, the oldest that nobody rejected is forgotten."""

MOST_KNOWN, SPARE = 20_000, 2_000
"""Digests that are known of one server, and so many more until the oldest are forgotten, and new again."""

Why = Literal["first", "added", "changed"]


class PinState(IntEnum):
    """The state of one digest. The numbers are those of the file."""

    TRUSTED = 0
    ACCEPTED = 1
    OPEN = 2
    REJECTED = 3


class Pin(Struct, frozen=True):
    """One digest of one key. ``seen`` is a Unix time. ``findings`` is None if it was not scanned."""

    digest: bytes
    state: PinState
    why: Why
    seen: float
    findings: tuple[KeptFinding, ...] | None = None

    @property
    def is_trusted(self) -> bool:
        """Whether the definition is trusted, from its first sight or by a person."""
        return self.state in (PinState.TRUSTED, PinState.ACCEPTED)

    @property
    def is_suspicious(self) -> bool:
        """Whether something was found in it that no person has accepted."""
        return self.state is PinState.TRUSTED and bool(self.findings)

    @property
    def waits(self) -> bool:
        """Whether a person should look at it."""
        return self.state is PinState.OPEN or self.is_suspicious

    @property
    def is_poisoned(self) -> bool:
        """Whether the scanner found something severe that no person has accepted."""
        return self.state in (PinState.TRUSTED, PinState.OPEN) and is_high(self.findings or ())


class HoldPolicy(NamedTuple):
    """Policy of holding back: changed definitions, and those in which the scanner found something severe."""

    changes: bool = False
    poisoned: bool = False

    def holds(self, pin: Pin) -> bool:
        """Return whether a definition is held back."""
        if pin.state is PinState.REJECTED or (self.changes and pin.state is PinState.OPEN):
            return True
        return self.poisoned and pin.is_poisoned


class PinnedDefinition(NamedTuple):
    """A digest, and the definition that it is of."""

    key: DefinitionKey
    pin: Pin


class ServerPins(Struct):
    """All that is known of the definitions of one server.

    ``fingerprint`` is that of its configuration. ``lists`` are the kinds that it has listed. ``withdrawn``
    says whether it was removed from the servers file. ``order`` of the keys is that of their last change.
    """

    fingerprint: str = ""
    lists: set[Kind] = field(default_factory=set)
    withdrawn: bool = False
    by_key: dict[DefinitionKey, dict[bytes, Pin]] = field(default_factory=dict)
    count: int = 0

    def get(self, key: DefinitionKey, digest: bytes) -> Pin | None:
        return self.by_key.get(key, {}).get(digest)

    def trusted(self, key: DefinitionKey) -> Pin | None:
        """Return the digest of a key that was trusted last; None if there is none."""
        found = [pin for pin in self.by_key.get(key, {}).values() if pin.is_trusted]
        return max(found, key=lambda pin: (pin.state, pin.seen), default=None)

    def all(self) -> Iterator[PinnedDefinition]:
        return (PinnedDefinition(key, pin) for key, pins in self.by_key.items() for pin in pins.values())

    def put(self, key: DefinitionKey, pin: Pin) -> None:
        versions = self.by_key.setdefault(key, {})
        self.count += pin.digest not in versions
        versions[pin.digest] = pin

    def drop(self, key: DefinitionKey, digest: bytes) -> None:
        versions = self.by_key.get(key, {})
        self.count -= versions.pop(digest, None) is not None
        if not versions:
            self.by_key.pop(key, None)


class PinChange(NamedTuple):
    """Pins that came, and pins that are forgotten because there are too many."""

    new: tuple[PinnedDefinition, ...] = ()
    forgotten: tuple[PinnedDefinition, ...] = ()


def begins(pins: ServerPins, kind: Kind, count: int) -> bool:
    """Return whether a list of ``count`` definitions is the first of its kind, and note that it is known.

    What is in the first list of a kind is trusted. A first list of tools that is empty is none: servers list
    nothing until they are connected.
    """
    first = kind not in pins.lists
    if count or kind != "tool":
        pins.lists.add(kind)
    return first


def compared(pins: ServerPins, seen: Iterable[SeenDefinition], now: float, *, first: bool) -> PinChange:
    """Add a part of a list to the pins of its server; return what is new.

    Resources come and go as data does, so each new one is trusted.
    """
    new, keep = [], set()
    for each in seen:
        versions = pins.by_key.get(each.key)
        if versions is not None and each.digest in versions:
            continue
        trusted = first or (versions is None and each.key.kind == "resource")
        why: Why = "first" if trusted else "added" if versions is None else "changed"
        pin = Pin(each.digest, PinState.TRUSTED if trusted else PinState.OPEN, why, now)
        pins.put(each.key, pin)
        new.append(PinnedDefinition(each.key, pin))
        keep.add((each.key, each.digest))
    return PinChange(tuple(new), tuple(_forget(pins, {each.key for each in new}, keep)))


def _forget(
    pins: ServerPins, changed: Iterable[DefinitionKey], keep: set[tuple[DefinitionKey, bytes]]
) -> Iterator[PinnedDefinition]:
    """Drop and yield the oldest pins that are too many, without those that are listed now."""
    for key in changed:
        versions = pins.by_key[key]
        while len(versions) > MOST_VERSIONS:
            trusted = pins.trusted(key)
            others = [pin for pin in versions.values() if pin != trusted and (key, pin.digest) not in keep]
            if not others:
                break
            oldest = min(others, key=lambda pin: (pin.state is PinState.REJECTED, pin.seen))
            pins.drop(key, oldest.digest)
            yield PinnedDefinition(key, oldest)
    if pins.count > MOST_KNOWN + SPARE:
        others_of_all = sorted(
            (each for each in pins.all() if (each.key, each.pin.digest) not in keep),
            key=lambda each: (each.pin.state is PinState.REJECTED, each.pin.seen),
        )
        for each in others_of_all[: pins.count - MOST_KNOWN]:
            pins.drop(each.key, each.pin.digest)
            yield each


def decided(
    pins: ServerPins,
    chosen: Iterable[PinnedDefinition],
    state: PinState,
    shown: Mapping[DefinitionKey, set[bytes]],
) -> PinChange:
    """Accept or reject definitions; return the pins as they are now, and those that it replaces.

    An accepted definition replaces what was trusted before, unless some instance still shows that: servers
    may describe a tool in another way to each client. One that is rejected stays known.
    """
    new, forgotten = [], []
    for key, pin in chosen:
        now = structs.replace(pin, state=state)
        if state is PinState.ACCEPTED:
            for other in list(pins.by_key.get(key, {}).values()):
                if other.is_trusted and other.digest != pin.digest and other.digest not in shown.get(key, ()):
                    pins.drop(key, other.digest)
                    forgotten.append(PinnedDefinition(key, other))
        pins.put(key, now)
        new.append(PinnedDefinition(key, now))
    return PinChange(tuple(new), tuple(forgotten))


def scanned(
    pins: ServerPins, seen: Iterable[SeenDefinition], found: Mapping[DefinitionKey, tuple[KeptFinding, ...]]
) -> tuple[PinnedDefinition, ...]:
    """Add the findings of the scanner to the pins; return those that were not scanned before."""
    new = []
    for key, digest, _ in seen:
        pin = pins.get(key, digest)
        if key in found and pin is not None and pin.findings is None:
            pins.put(key, now := structs.replace(pin, findings=found[key]))
            new.append(PinnedDefinition(key, now))
    return tuple(new)


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
    """Changes to write for one server: pins that came or changed, with the bodies of new ones."""

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
            self._database = self._open_file()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            log.error("%s is damaged, so definitions of servers are pinned again: %s", path, error)
            for end in ("", "-wal", "-shm"):
                with contextlib.suppress(OSError):
                    Path(f"{path}{end}").replace(f"{path}.broken{end}")
            self._database = self._open_file()

    def load(self) -> dict[str, ServerPins]:
        """Return the pins of all servers, without the definitions themselves."""
        return _load_pins(self._database)

    def bodies(self, server: str, key: DefinitionKey) -> dict[bytes, bytes]:
        """Return the definitions that are known of a key, by digest."""
        rows = self._database.execute(
            "SELECT digest, body FROM pin WHERE server = ? AND kind = ? AND name = ?",
            (server, key.kind, _stored_name(key.name)),
        )
        return {digest: zlib.decompress(body) for digest, body in rows if body is not None}

    def write(self, writes: PinWrites) -> None:
        """Write changes in one transaction."""
        server = writes.server
        with self._database:
            if writes.whole:
                self._database.execute("DELETE FROM pin WHERE server = ?", (server,))
            if writes.head is not None:
                head = writes.head
                row = (server, head.fingerprint, ",".join(sorted(head.lists)), head.withdrawn)
                self._database.execute("INSERT OR REPLACE INTO server VALUES (?,?,?,?)", row)
            self._database.executemany(
                "DELETE FROM pin WHERE server = ? AND kind = ? AND name = ? AND digest = ?",
                [(server, key.kind, _stored_name(key.name), pin.digest) for key, pin in writes.forgotten],
            )
            self._database.executemany(_PUT, (_pin_row(server, each, writes.bodies) for each in writes.pins))

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _open_file(self) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.chmod(self._path, 0o600)
        database = sqlite3.connect(self._path, check_same_thread=False, timeout=5)
        try:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version > VERSION:  # the decisions in it must not be lost
                raise StoreNewer.of(self._path, version, VERSION)
            database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" + _SCHEMA)
            if version != VERSION:  # a write, for which a full disk has no room
                database.execute(f"PRAGMA user_version={VERSION}")
        except BaseException:
            database.close()
            raise
        return database


def read_pins(path: Path) -> dict[str, ServerPins]:
    """Return the pins of all servers, without changing the file; none if it does not exist.

    Raises StoreNewer, and sqlite3.Error if it cannot be read.
    """
    if not path.exists():
        return {}
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise StoreNewer.of(path, version, VERSION)
        return _load_pins(database)


def _load_pins(database: sqlite3.Connection) -> dict[str, ServerPins]:
    found: dict[str, ServerPins] = {}
    for name, fingerprint, lists, withdrawn in database.execute("SELECT * FROM server"):
        kinds = {kind for kind in KINDS.values() if kind in lists.split(",")}
        found[name] = ServerPins(fingerprint, kinds, bool(withdrawn))
    rows = database.execute("SELECT server, kind, name, digest, state, why, seen, findings FROM pin")
    for server, kind, name, digest, state, why, seen, findings in rows:
        if server in found:
            kept = None if findings is None else decoded(findings)
            found[server].put(
                DefinitionKey(kind, name.decode("utf-8", "surrogatepass")),
                Pin(digest, PinState(state), why, seen, kept),
            )
    return found


def _stored_name(name: str) -> bytes:
    """Return a name as it is stored: it may have halves of surrogate pairs, which no text of SQLite has."""
    return name.encode("utf-8", "surrogatepass")


def _pin_row(
    server: str, pinned: PinnedDefinition, bodies: Mapping[tuple[DefinitionKey, bytes], bytes]
) -> tuple[object, ...]:
    key, pin = pinned
    body = bodies.get((key, pin.digest))
    return (
        server,
        key.kind,
        _stored_name(key.name),
        pin.digest,
        int(pin.state),
        pin.why,
        pin.seen,
        None if pin.findings is None else encoded(pin.findings),
        None if body is None else zlib.compress(body, 1),
    )
