"""Whose vectors are whose: a table of the records' own file, written in their transactions.

``vector_<collection>`` says which vector the record of a row has in a space; ``given_up_<collection>``
lists vectors that no record has any more and that are still to be deleted. Everything here runs in the
writing thread, inside a transaction of the caller's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabane.store.vectors.file import Held, VectorFile

if TYPE_CHECKING:
    from tabane.search.records import Space

SWEPT = 500  # vectors of a step


@dataclass(frozen=True, slots=True)
class Placed:
    """A vector that came (``vector`` is there), whose record moved to ``row``, or that lost it (row 0)."""

    space: str
    number: int
    row: int
    vector: bytes | None = None


class VectorTruth:
    """The vectors of one collection. Made by :meth:`prepared`."""

    def __init__(self, number: int, file: VectorFile, spaces: Sequence[Held]) -> None:
        self.file = file
        self.spaces = {held.space.name: held for held in spaces}
        self._births = {held.birth: held for held in spaces}
        self.table = f"vector_{number}"
        self._given_up = f"given_up_{number}"
        self._find = f"SELECT space, id FROM {self.table} WHERE row = ?"

    @classmethod
    def prepared(
        cls,
        connection: sqlite3.Connection,
        file: VectorFile,
        number: int,
        collection: str,
        spaces: Sequence[Space],
    ) -> VectorTruth:
        """Make what is new, forget spaces that are no more, sweep vectors that belong to nobody."""
        found = cls(number, file, file.hold(collection, spaces))
        for statement in (
            f"CREATE TABLE IF NOT EXISTS {found.table} (row INTEGER NOT NULL, space INTEGER NOT NULL, "
            "id INTEGER NOT NULL, PRIMARY KEY (row, space)) WITHOUT ROWID",
            f"CREATE TABLE IF NOT EXISTS {found._given_up} (space INTEGER NOT NULL, id INTEGER NOT NULL, "
            "PRIMARY KEY (space, id)) WITHOUT ROWID",
        ):
            connection.execute(statement)
        births = ", ".join(str(birth) for birth in found._births)
        for table in (found.table, found._given_up):
            connection.execute(f"DELETE FROM {table} WHERE space NOT IN ({births})")
        for held in spaces_of(found):
            file.remove_after(held, found.last(connection, held))
        return found

    @staticmethod
    def forget(connection: sqlite3.Connection, number: int) -> None:
        """The collection has no spaces any more: if it has some one day, they begin empty."""
        connection.execute(f"DROP TABLE IF EXISTS vector_{number}")
        connection.execute(f"DROP TABLE IF EXISTS given_up_{number}")

    def last(self, connection: sqlite3.Connection, held: Held) -> int:
        """The last vector of a space that a record has, or that is still to be deleted."""
        found = [
            connection.execute(f"SELECT max(id) FROM {table} WHERE space = ?", (held.birth,)).fetchone()[0]
            for table in (self.table, self._given_up)
        ]
        return max(number or 0 for number in found)

    def same(self, connection: sqlite3.Connection, row: int, vectors: Mapping[str, bytes]) -> bool:
        """Whether the record of a row has these vectors and no others."""
        there = {
            self._births[space].space.name: (self._births[space], number)
            for space, number in connection.execute(self._find, (row,))
        }
        return there.keys() == vectors.keys() and all(
            self.file.same(*there[name], vector) for name, vector in vectors.items()
        )

    def put(self, connection: sqlite3.Connection, row: int, vectors: Mapping[str, bytes]) -> list[Placed]:
        """Give the record of a row vectors in spaces where it has none."""
        placed = []
        for name, vector in vectors.items():
            held = self.spaces[name]
            number = self.file.put(held, vector)
            connection.execute(
                f"INSERT INTO {self.table} (row, space, id) VALUES (?, ?, ?)", (row, held.birth, number)
            )
            placed.append(Placed(name, number, row, vector))
        return placed

    def attach(self, connection: sqlite3.Connection, row: int, vectors: Mapping[str, bytes]) -> list[Placed]:
        """Give the record of a row vectors, in place of those it has in the same spaces."""
        replaced = [
            Placed(self._births[space].space.name, number, 0)
            for space, number in connection.execute(self._find, (row,)).fetchall()
            if self._births[space].space.name in vectors
        ]
        for each in replaced:
            birth = self.spaces[each.space].birth
            connection.execute(f"DELETE FROM {self.table} WHERE row = ? AND space = ?", (row, birth))
            connection.execute(f"INSERT INTO {self._given_up} VALUES (?, ?)", (birth, each.number))
        return replaced + self.put(connection, row, vectors)

    def remove(self, connection: sqlite3.Connection, row: int) -> None:
        """The record of a row is no more: its vectors are to be deleted by and by."""
        connection.execute(
            f"INSERT INTO {self._given_up} SELECT space, id FROM {self.table} WHERE row = ?", (row,)
        )
        connection.execute(f"DELETE FROM {self.table} WHERE row = ?", (row,))

    def move(self, connection: sqlite3.Connection, row: int, target: int) -> list[Placed]:
        """The record of a row has another row from now on."""
        found = connection.execute(self._find, (row,)).fetchall()
        connection.execute(f"UPDATE {self.table} SET row = ? WHERE row = ?", (target, row))
        return [Placed(self._births[space].space.name, number, target) for space, number in found]

    def shift(self, connection: sqlite3.Connection, by: int) -> None:
        """All rows are smaller by so many."""
        connection.execute(f"UPDATE {self.table} SET row = row - ?", (by,))

    def sweep(self, connection: sqlite3.Connection) -> bool:
        """Delete some of the vectors that were given up. True where there may be more.

        Alone in its commit: what is deleted here was given up by one that is on the disk.
        """
        query = f"SELECT space, id FROM {self._given_up} LIMIT {SWEPT}"
        found = connection.execute(query).fetchall()
        for held in spaces_of(self):
            self.file.remove(held, [number for space, number in found if space == held.birth])
        connection.executemany(f"DELETE FROM {self._given_up} WHERE space = ? AND id = ?", found)
        return len(found) == SWEPT

    # Reading, in any thread

    def places(self, connection: sqlite3.Connection, held: Held) -> list[tuple[int, int]]:
        """Number and row of all vectors of a space, in no order."""
        query = f"SELECT id, row FROM {self.table} WHERE space = ?"
        return connection.execute(query, (held.birth,)).fetchall()

    def numbers(self, connection: sqlite3.Connection, held: Held, rows: Sequence[int | None]) -> list[int]:
        """The vectors of records by row, 0 where there is none."""
        query = f"SELECT id FROM {self.table} WHERE row = ? AND space = ?"
        found = (connection.execute(query, (row, held.birth)).fetchone() for row in rows)
        return [int(each[0]) if each else 0 for each in found]

    def lacking(self, connection: sqlite3.Connection, held: Held, after: int, most: int) -> list[int]:
        """Rows behind ``after`` whose records have no vector in a space, in order."""
        query = (
            f"SELECT r.row FROM {self.table.replace('vector', 'record')} r LEFT JOIN {self.table} v "
            "ON v.row = r.row AND v.space = ? WHERE r.row > ? AND v.id IS NULL ORDER BY r.row LIMIT ?"
        )
        return [row for (row,) in connection.execute(query, (held.birth, after, most))]


def spaces_of(truth: VectorTruth) -> list[Held]:
    return list(truth.spaces.values())
