"""The row of one collection: its counters and spaces; and the log of its changes for followers.

The row is locked by each transaction that writes. So numbers of rows and changes are given out in the order
of commits, also to several hubs: whoever has seen a number has seen all lower ones. A sequence would not do
that.

A follower copies a collection to another place. Rows of new records ascend in the order of commits, so no
log of them is needed. Removed rows, and rows that got other vectors, are logged while there is a
follower. The log also knows how far each of them is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import groupby
from secrets import token_hex
from typing import Any

import psycopg
from msgspec import structs
from psycopg import sql
from psycopg.types.json import Jsonb

from tabane.engine.team.postgres import formats
from tabane.search.records import MOST_FIELDS, EmbeddingSpace, Shape, unfit_vector

EPOCH = 0  # rows are 64-bit numbers, so they are never numbered again


@dataclass(frozen=True, slots=True)
class StoredSpace:
    """A space, the number of its table, and how many vectors it has."""

    space: EmbeddingSpace
    number: int
    vectors: int = 0


@dataclass(frozen=True, slots=True)
class LexicalState:
    """The counts of the lexical index, also of deleted records that are still in it.

    ``lengths``: space → tokens. ``parts``: how many writes each level of the index has.
    """

    records: int = 0
    dead: int = 0
    lengths: Mapping[str, int] = field(default_factory=dict)
    parts: tuple[int, ...] = (0, 0, 0)

    def average(self, space: str) -> float:
        """Return the average length of a text in a space, in tokens."""
        return self.lengths.get(space, 0) / max(1, self.records) or 1.0


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """The row of a collection at one moment. ``next`` is the next row number.

    ``log_from``: the change behind which changes are logged for followers; None if there are none.
    """

    next: int
    changes: int
    next_space: int
    spaces: tuple[StoredSpace, ...]
    lexical: LexicalState
    log_from: int | None = None

    def named(self, name: str, shape: Shape) -> StoredSpace:
        """Return the space of that name. Raises BadArguments."""
        for each in self.spaces:
            if each.space.name == name:
                return each
        self.shaped(shape).space(name)
        raise AssertionError

    def get(self, name: str) -> StoredSpace | None:
        """Return the space of that name; None if there is none."""
        return next((each for each in self.spaces if each.space.name == name), None)

    def is_whole(self, space: StoredSpace) -> bool:
        """Return whether every record has a vector of the space."""
        return self.lexical.records - self.lexical.dead == space.vectors

    def fitting(self, name: str, vector: bytes, shape: Shape) -> StoredSpace:
        """Return the space if it takes this vector. Raises BadArguments."""
        found = self.named(name, shape)
        if len(vector) != 4 * found.space.dimension:
            raise unfit_vector(found.space)
        return found

    def shaped(self, shape: Shape) -> Shape:
        """Return the shape with the current spaces."""
        return replace(shape, spaces=tuple(each.space for each in self.spaces))

    def with_space(self, space: EmbeddingSpace) -> CollectionRow:
        """Return the state with one more space, under the next number."""
        added = StoredSpace(space, self.next_space)
        return replace(self, spaces=(*self.spaces, added), next_space=self.next_space + 1)

    def without(self, name: str) -> CollectionRow:
        """Return the state without the space of that name."""
        return replace(self, spaces=tuple(each for each in self.spaces if each.space.name != name))

    def renamed(self, name: str, to: str) -> CollectionRow:
        """Rename a space, in its place. A space that has the new name is dropped."""
        kept = self.without(to) if to != name else self
        spaces = (
            replace(each, space=structs.replace(each.space, name=to)) if each.space.name == name else each
            for each in kept.spaces
        )
        return replace(kept, spaces=tuple(spaces))

    def counted(self, more: Mapping[int, int]) -> CollectionRow:
        """Return the state with more vectors: number of the space → how many more."""
        spaces = (replace(each, vectors=each.vectors + more.get(each.number, 0)) for each in self.spaces)
        return replace(self, spaces=tuple(spaces))


class StateTable:
    """The rows of collections, by their number."""

    _COLUMNS = sql.SQL("next, changes, next_space, spaces, lexical, log_from")
    _READ = sql.SQL("SELECT {} FROM collection WHERE id = %s").format(_COLUMNS)
    _LOCK = sql.SQL("UPDATE collection SET changes = changes + 1 WHERE id = %s RETURNING {}").format(_COLUMNS)
    _LAST = "SELECT changes FROM collection WHERE id = %s"
    _ANALYSIS = "SELECT analysis FROM collection WHERE id = %s"
    _ANALYZED = "UPDATE collection SET analysis = %s WHERE id = %s"
    _SAVE = "UPDATE collection SET next = %s, next_space = %s, spaces = %s, lexical = %s WHERE id = %s"

    def __init__(self, number: int) -> None:
        self.number = number

    def read(self, connection: psycopg.Connection) -> CollectionRow:
        """Return the state at the moment of the transaction."""
        return self.answer(self.ask(connection))

    def ask(self, connection: psycopg.Connection) -> psycopg.Cursor:
        """Send the question for the state, whose answer :meth:`answer` reads."""
        return connection.execute(self._READ, (self.number,))

    @staticmethod
    def answer(reading: psycopg.Cursor) -> CollectionRow:
        """Return the state that :meth:`ask` asked for. Raises LookupError if the collection was deleted."""
        return _parse_state(reading.fetchone())

    def last_change(self, connection: psycopg.Connection) -> int:
        """Return the number of the last committed change."""
        found = connection.execute(self._LAST, (self.number,)).fetchone()
        if found is None:
            raise LookupError("the collection was deleted")
        return int(found[0])

    def lock(self, connection: psycopg.Connection) -> CollectionRow:
        """Take the next change number, and with it the turn to write until the transaction ends."""
        return _parse_state(connection.execute(self._LOCK, (self.number,)).fetchone())

    def analysis(self, connection: psycopg.Connection) -> int:
        """Return the version of the analysis that made the lexical index."""
        found = connection.execute(self._ANALYSIS, (self.number,)).fetchone()
        return int(found[0]) if found else 0

    def set_analysis(self, connection: psycopg.Connection, version: int) -> None:
        """Note the version of the analysis that made the lexical index."""
        connection.execute(self._ANALYZED, (version, self.number))

    def save(self, connection: psycopg.Connection, state: CollectionRow) -> None:
        """Save all but the change number."""
        spaces = [
            {
                "name": each.space.name,
                "dimension": each.space.dimension,
                "model": each.space.model,
                "number": each.number,
                "vectors": each.vectors,
            }
            for each in state.spaces
        ]
        lexical = {
            "records": state.lexical.records,
            "dead": state.lexical.dead,
            "lengths": dict(state.lexical.lengths),
            "parts": list(state.lexical.parts),
        }
        values = (state.next, state.next_space, Jsonb(spaces), Jsonb(lexical), self.number)
        connection.execute(self._SAVE, values)


def _parse_state(found: tuple[Any, ...] | None) -> CollectionRow:
    if found is None:
        raise LookupError("the collection was deleted")
    following, changes, next_space, spaces, lexical, log_from = found
    index = LexicalState(**{**lexical, "parts": tuple(lexical["parts"])}) if lexical else LexicalState()
    stored = tuple(
        StoredSpace(
            EmbeddingSpace(each["name"], each["dimension"], each["model"]), each["number"], each["vectors"]
        )
        for each in spaces
    )
    return CollectionRow(following, changes, next_space, stored, index, log_from)


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
