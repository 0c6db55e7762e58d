"""The row of one collection: its counters and spaces. It is locked by each transaction that writes.

So numbers of rows and changes are given out in the order of commits, also to several hubs: whoever has seen a
number has seen all lower ones. A sequence would not do that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
from msgspec import structs
from psycopg import sql
from psycopg.types.json import Jsonb

from tabane.search.records import EmbeddingSpace, Shape, unfit_vector

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
