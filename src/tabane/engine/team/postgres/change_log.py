"""Change log of a collection: how far each follower is, and which rows changed since then.

A follower copies a collection to another place. Rows of new records ascend in the order of commits, so no
log of them is needed. Removed rows, and rows that got other vectors, are logged while there is a
follower.

The sets of one collection in an index outside of the database, and what its follower notes about them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby
from secrets import token_hex

import msgspec
import psycopg

from tabane.engine.team.postgres import formats
from tabane.engine.team.postgres.collection_state import CollectionRow
from tabane.search.records import MOST_FIELDS

_IDENTITY = (
    "SELECT CASE WHEN has_function_privilege('pg_control_system()', 'execute') "
    "THEN (SELECT system_identifier::text FROM pg_control_system()) END, current_database(), current_schema()"
)
_NOTES = msgspec.json.Decoder(dict[str, str])


def set_prefix(connection: psycopg.Connection, collection: int) -> str:
    """Return what the names of the sets of a collection begin with. No other database has the same."""
    found = connection.execute(_IDENTITY).fetchone()
    return f"{hashlib.sha256(repr(found).encode()).hexdigest()[:12]}_{collection}"


def set_name(prefix: str, space: int) -> str:
    """Return the name of the set of a space."""
    return f"{prefix}_{space}"


def written(notes: Mapping[int, str]) -> str:
    """Return a note of the follower: number of a space → what a search of its set has to pass."""
    return msgspec.json.encode({str(number): note for number, note in notes.items()}).decode()


def read(note: str) -> dict[int, str]:
    """Parse a note that :func:`written` made: number of a space → what a search of its set has to pass."""
    return {int(number): each for number, each in _NOTES.decode(note).items()} if note else {}


FARTHEST_BEHIND = 1_000_000  # changes, after which a follower has to begin again
_MOST_ENTRIES = MOST_FIELDS + 3  # of one change, and one more
REMOVED = 0  # instead of a space: the records of the rows are gone

_ADD = "INSERT INTO change_log (collection, change, space, first, rows, keys) VALUES (%s, %s, %s, %s, %s, %s)"
_READ = (
    "SELECT change, space, rows, keys FROM change_log WHERE collection = %s AND change > %s "
    "ORDER BY change LIMIT %s"
)
_LOCK = "SELECT changes FROM collection WHERE id = %s FOR NO KEY UPDATE"
_COLUMNS = "change, row, mark, coming, note"
_FIND = f"SELECT {_COLUMNS} FROM follower WHERE collection = %s AND name = %s"
_BEGIN = (
    f"INSERT INTO follower (collection, name, {_COLUMNS}) VALUES (%s, %s, %s, 0, %s, %s, '') "
    "ON CONFLICT (collection, name) DO UPDATE SET change = excluded.change, row = 0, mark = excluded.mark, "
    f"coming = excluded.coming, note = '', seen = now() RETURNING {_COLUMNS}"
)
_ADVANCE = (
    "UPDATE follower SET change = %s, row = %s, mark = %s, coming = %s, note = %s, seen = now() "
    "WHERE collection = %s AND name = %s AND coming = %s"
)
_LEAVE = "DELETE FROM follower WHERE collection = %s AND name = %s"
_DROP = "DELETE FROM follower WHERE collection = %s AND change < %s"
_PRUNE = "DELETE FROM change_log WHERE collection = %s AND change <= coalesce(%s, change)"
_LEAST = "SELECT min(change) FROM follower WHERE collection = %s"
_SAVE = "UPDATE collection SET log_from = %s WHERE id = %s AND log_from IS DISTINCT FROM %s"


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """How far a follower is: it has the records up to ``row``, as they were after ``change``.

    ``mark`` names what the follower holds then, and ``coming`` what it will hold after the next step. A copy
    with another mark is not the one that the database knows, so it has to begin again: the copy or the
    database was emptied or restored. ``note`` is the follower's own.
    """

    change: int
    row: int
    mark: str
    coming: str
    note: str = ""

    def moved(self, change: int, row: int, note: str = "") -> FeedPosition:
        """Return the position after a step."""
        return FeedPosition(change, row, self.coming, _fresh(), note)

    def noted(self, note: str) -> FeedPosition:
        """Return the position with a note of the follower."""
        return replace(self, note=note)


@dataclass(frozen=True, slots=True)
class LoggedChanges:
    """Rows that were removed, with their keys, and rows with other vectors, up to ``change``.

    ``complete``: there are no more.
    """

    removed: Mapping[int, str]
    attached: Set[int]
    change: int
    complete: bool


class ChangeLog:
    """The log and the followers of the collection with that number."""

    def __init__(self, number: int) -> None:
        self.number = number

    # Writing, by whoever has locked the collection

    def removed(self, connection: psycopg.Connection, state: CollectionRow, keys: Mapping[int, str]) -> None:
        """Log rows whose records are gone: row → key."""
        self._log(connection, state, REMOVED, list(keys), [formats.stored(key) for key in keys.values()])

    def attached(
        self, connection: psycopg.Connection, state: CollectionRow, space: int, rows: Iterable[int]
    ) -> None:
        """Log rows that got a vector of the space with that number."""
        self._log(connection, state, space, list(rows))

    def _log(
        self,
        connection: psycopg.Connection,
        state: CollectionRow,
        space: int,
        rows: Sequence[int],
        keys: Sequence[str] = (),
    ) -> None:
        if state.log_from is None or not rows:
            return
        connection.execute(_ADD, (self.number, state.changes, space, min(rows), list(rows), list(keys)))
        if state.changes - state.log_from > FARTHEST_BEHIND:
            connection.execute(_DROP, (self.number, state.changes - FARTHEST_BEHIND))
            self._prune(connection)

    # Reading

    def after(self, connection: psycopg.Connection, change: int, most: int, last: int) -> LoggedChanges:
        """Return the logged changes behind ``change``, with about ``most`` rows. No change is divided.

        ``last`` is the last change of the collection.
        """
        limit = most + _MOST_ENTRIES
        found = connection.execute(_READ, (self.number, change, limit)).fetchall()
        changes = [(number, list(entries)) for number, entries in groupby(found, lambda entry: entry[0])]
        if len(found) == limit:  # the last one may have more entries
            changes.pop()
        removed, attached, reached = dict[int, str](), set[int](), change
        for number, entries in changes:
            if len(removed) + len(attached) >= most:
                return LoggedChanges(removed, attached, reached, complete=False)
            for _, space, rows, keys in entries:
                if space == REMOVED:
                    removed.update(zip(rows, map(formats.given, keys), strict=True))
                else:
                    attached.update(rows)
            reached = number
        complete = len(found) < limit
        return LoggedChanges(removed, attached, last if complete else reached, complete)

    # Followers

    def position(self, connection: psycopg.Connection, follower: str) -> FeedPosition | None:
        """Return how far a follower is; None if it is unknown, or was too far behind."""
        found = connection.execute(_FIND, (self.number, follower)).fetchone()
        return FeedPosition(*found) if found else None

    def begin(self, connection: psycopg.Connection, follower: str) -> FeedPosition:
        """Let a follower begin with the first record."""
        changes = self._lock(connection)
        found = connection.execute(_BEGIN, (self.number, follower, changes, _fresh(), _fresh())).fetchone()
        assert found is not None
        self._prune(connection)
        return FeedPosition(*found)

    def advance(self, connection: psycopg.Connection, follower: str, position: FeedPosition) -> bool:
        """Note that a follower has reached a position. Return False if it was dropped or has begun again."""
        self._lock(connection)
        values = (position.change, position.row, position.mark, position.coming, position.note)
        done = connection.execute(_ADVANCE, (*values, self.number, follower, position.mark)).rowcount
        self._prune(connection)
        return bool(done)

    def leave(self, connection: psycopg.Connection, follower: str) -> None:
        """Forget a follower, and what is logged for it alone."""
        self._lock(connection)
        connection.execute(_LEAVE, (self.number, follower))
        self._prune(connection)

    def _lock(self, connection: psycopg.Connection) -> int:
        """Keep writers out until the transaction ends. Return the last change."""
        found = connection.execute(_LOCK, (self.number,)).fetchone()
        if found is None:
            raise LookupError("the collection was deleted")
        return int(found[0])

    def _prune(self, connection: psycopg.Connection) -> None:
        """Delete what all followers have, and note where the log begins."""
        found = connection.execute(_LEAST, (self.number,)).fetchone()
        least = found[0] if found else None
        connection.execute(_PRUNE, (self.number, least))
        connection.execute(_SAVE, (least, self.number, least))


def _fresh() -> str:
    return token_hex(8)
