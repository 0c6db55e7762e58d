"""Which record has which vector, and which spaces there are: tables in the database of records.

``vector_<collection>`` says which vector the record of a row has in a space. ``given_up_<collection>``
lists vectors that no record has any more and that are still to be deleted. Everything here runs in the
writing thread, inside a transaction of the caller.

The embedding spaces of collections: a table in the database of records, so that one commit changes them.
The vectors of a space are found by its birth, not by its name: a space that replaces another one only
changes its name in this table. A space that is dropped loses its name, and its data is deleted later.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tabane.engine.embedded.collection_state import CollectionSpaces, SpaceStorage, VectorPlacement
from tabane.engine.embedded.database import TOGETHER, RowInserts
from tabane.engine.embedded.vectors.vector_database import VectorDatabase
from tabane.engine.input_checks import check_room_for_space, unlike_space
from tabane.search.records import EmbeddingSpace, Shape

_FIND = "SELECT name, dimension, model, number, birth FROM space WHERE collection = ? AND "


class SpaceTable:
    """The spaces of one collection, read and changed inside a transaction of the caller's."""

    def __init__(self, number: int, shape: Shape, file: VectorDatabase) -> None:
        self._number = number
        self._shape = replace(shape, spaces=())
        self._file = file

    def read(self, connection: sqlite3.Connection) -> CollectionSpaces:
        """Return those there are. For any thread."""
        query = f"{_FIND} name IS NOT NULL ORDER BY made"
        found = connection.execute(query, (self._number,))
        return CollectionSpaces(self._shape, [_storage_of(*row) for row in found])

    def add(self, connection: sqlite3.Connection, space: EmbeddingSpace) -> bool:
        """Make the space; False if it is there. Raises BadArguments if another one of its name is."""
        spaces = self.read(connection)
        there = spaces.get(space.name)
        if there is not None:
            if there.space.takes(space):
                return False
            raise unlike_space(self._shape.name, there.space, space)
        check_room_for_space(self._shape.name, len(spaces.storages), space)
        self._insert(connection, self._file.make(self._shape.name, space))
        return True

    def drop(self, connection: sqlite3.Connection, name: str) -> bool:
        """Let go of the space; False if there is none."""
        query = "UPDATE space SET name = NULL WHERE collection = ? AND name = ?"
        return connection.execute(query, (self._number, name)).rowcount > 0

    def succeed(self, connection: sqlite3.Connection, name: str, by: str) -> bool:
        """Let ``by`` have that name. Raises BadArguments if ``by`` is not there."""
        storage = self.read(connection).named(by)
        if name == by:
            return False
        self.drop(connection, name)
        connection.execute("UPDATE space SET name = ? WHERE birth = ?", (name, storage.birth))
        return True

    def adopt(self, connection: sqlite3.Connection, spaces: Sequence[EmbeddingSpace]) -> None:
        """Take over the spaces of a shape from when the file of vectors was who knew their names."""
        kept = {(name, dimension): place for name, dimension, *place in self._file.storages(self._shape.name)}
        for space in spaces:
            place = kept.get((space.name, space.dimension))
            storage = SpaceStorage(space, *place) if place else self._file.make(self._shape.name, space)
            self._insert(connection, storage)

    def restore(self, connection: sqlite3.Connection) -> None:
        """Spaces whose vectors were lost with their file begin empty; vectors of no space are deleted."""
        for storage in self.read(connection).storages:
            if not self._file.holds(storage):
                afresh = self._file.make(self._shape.name, storage.space)
                connection.execute(
                    "UPDATE space SET number = ?, birth = ? WHERE birth = ?",
                    (afresh.number, afresh.birth, storage.birth),
                )
                self._insert(connection, storage, name=None)
        known = {birth for (birth,) in connection.execute("SELECT birth FROM space")}
        for name, dimension, number, birth in self._file.storages(self._shape.name):
            if birth not in known:
                self._file.drop(SpaceStorage(EmbeddingSpace(name, dimension), number, birth))

    def dropped(self, connection: sqlite3.Connection) -> tuple[SpaceStorage, int] | None:
        """Return a space that was dropped and is not swept yet, and up to which row its vectors are."""
        query = (
            "SELECT '', dimension, model, number, birth, swept FROM space "
            "WHERE collection = ? AND name IS NULL LIMIT 1"
        )
        found = connection.execute(query, (self._number,)).fetchone()
        return (_storage_of(*found[:-1]), found[-1]) if found else None

    def swept(self, connection: sqlite3.Connection, storage: SpaceStorage, row: int) -> None:
        connection.execute("UPDATE space SET swept = ? WHERE birth = ?", (row, storage.birth))

    def forget(self, connection: sqlite3.Connection, storage: SpaceStorage) -> None:
        """Nothing is left of a space that was dropped."""
        connection.execute("DELETE FROM space WHERE birth = ?", (storage.birth,))

    def _insert(self, connection: sqlite3.Connection, storage: SpaceStorage, name: str | None = "") -> None:
        space = storage.space
        connection.execute(
            "INSERT INTO space (collection, name, dimension, model, number, birth) VALUES (?, ?, ?, ?, ?, ?)",
            (
                self._number,
                space.name if name == "" else name,
                space.dimension,
                space.model,
                storage.number,
                storage.birth,
            ),
        )


def any_spaces(connection: sqlite3.Connection, collection: str) -> bool:
    """Return whether a collection has spaces, or had some that are not swept yet."""
    query = (
        "SELECT 1 FROM space JOIN collection ON collection.id = space.collection "
        "WHERE collection.name = ? LIMIT 1"
    )
    return connection.execute(query, (collection,)).fetchone() is not None


def _storage_of(name: str, dimension: int, model: str, number: int, birth: int) -> SpaceStorage:
    return SpaceStorage(EmbeddingSpace(name, dimension, model), number, birth)


SWEPT = 500  # vectors of a step
_NEWEST = 1000  # vectors among which the last one is looked for
_SWEPT_ROWS = 2000  # rows that are looked at in a step, for vectors of a space that was dropped


class VectorTruth:
    """The vectors of one collection. Made by :meth:`prepared`."""

    def __init__(self, number: int, file: VectorDatabase, shape: Shape) -> None:
        self.file = file
        self.list = SpaceTable(number, shape, file)
        self.spaces = self.list.read
        self.table = f"vector_{number}"
        self._given_up = f"given_up_{number}"
        self._find = f"SELECT space, id FROM {self.table} WHERE row = ?"

    @classmethod
    def prepared(
        cls,
        connection: sqlite3.Connection,
        file: VectorDatabase,
        number: int,
        shape: Shape,
        older: Sequence[EmbeddingSpace] = (),
    ) -> VectorTruth:
        """Create the tables, take over ``older`` spaces, delete vectors that belong to no record."""
        found = cls(number, file, shape)
        for statement in (
            f"CREATE TABLE IF NOT EXISTS {found.table} (row INTEGER NOT NULL, space INTEGER NOT NULL, "
            "id INTEGER NOT NULL, PRIMARY KEY (row, space)) WITHOUT ROWID",
            f"CREATE TABLE IF NOT EXISTS {found._given_up} (space INTEGER NOT NULL, id INTEGER NOT NULL, "
            "PRIMARY KEY (space, id)) WITHOUT ROWID",
        ):
            connection.execute(statement)
        found.list.adopt(connection, older)
        found.list.restore(connection)
        for storage in found.spaces(connection).storages:
            if not found._last_is_known(connection, storage):
                file.remove_after(storage, found._last(connection, storage))
        return found

    def _last_is_known(self, connection: sqlite3.Connection, storage: SpaceStorage) -> bool:
        """Whether the last vector in the file was given up, or is one of the newest records': as a rule it
        is, and spares looking at all of them.
        """
        place = (storage.birth, self.file.last(storage))
        newest = f"SELECT space, id FROM {self.table} ORDER BY row DESC LIMIT {_NEWEST}"
        return any(
            connection.execute(f"SELECT 1 FROM {table} WHERE space = ? AND id = ?", place).fetchone()
            for table in (self._given_up, f"({newest})")
        )

    def _last(self, connection: sqlite3.Connection, storage: SpaceStorage) -> int:
        """Return the last vector of a space that a record has, or that is still to be deleted."""
        found = [
            connection.execute(f"SELECT max(id) FROM {table} WHERE space = ?", (storage.birth,)).fetchone()[0]
            for table in (self.table, self._given_up)
        ]
        return max(number or 0 for number in found)

    def same(
        self, connection: sqlite3.Connection, spaces: CollectionSpaces, row: int, vectors: Mapping[str, bytes]
    ) -> bool:
        """Return whether the record of a row has these vectors and no others."""
        there = dict(self._of_row(connection, spaces, row))
        return {storage.space.name for storage in there} == vectors.keys() and all(
            self.file.same(storage, number, vectors[storage.space.name]) for storage, number in there.items()
        )

    def put(
        self, connection: sqlite3.Connection, spaces: CollectionSpaces, row: int, vectors: Mapping[str, bytes]
    ) -> list[VectorPlacement]:
        """Give the record of a row vectors in spaces if it has none. Raises BadArguments."""
        placed = []
        for name, vector in vectors.items():
            storage = spaces.fitting(name, vector)
            number = self.file.put(storage, vector)
            connection.execute(
                f"INSERT INTO {self.table} (row, space, id) VALUES (?, ?, ?)", (row, storage.birth, number)
            )
            placed.append(VectorPlacement(name, number, row, vector))
        return placed

    def inserts(self, connection: sqlite3.Connection, spaces: CollectionSpaces) -> VectorInserts:
        """Return what gives vectors to many records that have none."""
        return VectorInserts(self, connection, spaces)

    def attach(
        self, connection: sqlite3.Connection, spaces: CollectionSpaces, row: int, vectors: Mapping[str, bytes]
    ) -> list[VectorPlacement]:
        """Give the record of a row vectors, in place of those it has in the same spaces."""
        replaced = []
        for storage, number in self._of_row(connection, spaces, row):
            if storage.space.name in vectors:
                place = (row, storage.birth)
                connection.execute(f"DELETE FROM {self.table} WHERE row = ? AND space = ?", place)
                connection.execute(f"INSERT INTO {self._given_up} VALUES (?, ?)", (storage.birth, number))
                replaced.append(VectorPlacement(storage.space.name, number, 0))
        return replaced + self.put(connection, spaces, row, vectors)

    def _of_row(
        self, connection: sqlite3.Connection, spaces: CollectionSpaces, row: int
    ) -> list[tuple[SpaceStorage, int]]:
        """Return the vectors of a record by space; those of spaces that were dropped are none any more."""
        found = connection.execute(self._find, (row,)).fetchall()
        return [(storage, number) for birth, number in found if (storage := spaces.born(birth)) is not None]

    def remove(self, connection: sqlite3.Connection, row: int) -> None:
        """List the vectors of a deleted record for deletion."""
        # Pair by pair: one statement for all of them keeps a journal of its own, which slows down with each.
        for pair in connection.execute(self._find, (row,)).fetchall():
            connection.execute(f"INSERT INTO {self._given_up} VALUES (?, ?)", pair)
        connection.execute(f"DELETE FROM {self.table} WHERE row = ?", (row,))

    def move(
        self, connection: sqlite3.Connection, spaces: CollectionSpaces, row: int, target: int
    ) -> list[VectorPlacement]:
        """Return the record of a row has another row from now on."""
        found = self._of_row(connection, spaces, row)
        connection.execute(f"UPDATE {self.table} SET row = ? WHERE row = ?", (target, row))
        return [VectorPlacement(storage.space.name, number, target) for storage, number in found]

    def shift(self, connection: sqlite3.Connection, by: int) -> None:
        """Subtract a number from all rows."""
        connection.execute(f"UPDATE {self.table} SET row = row - ?", (by,))
        connection.execute("UPDATE space SET swept = 0")

    def sweep(self, connection: sqlite3.Connection) -> bool:
        """Delete some of the vectors that were given up. True if there may be more.

        Alone in its commit: what is deleted here was given up by one that is on the disk.
        """
        query = f"SELECT space, id FROM {self._given_up} LIMIT {SWEPT}"
        found = connection.execute(query).fetchall()
        for storage in self.spaces(connection).storages:
            self.file.remove(storage, [number for space, number in found if space == storage.birth])
        connection.executemany(f"DELETE FROM {self._given_up} WHERE space = ? AND id = ?", found)
        return len(found) == SWEPT

    def sweep_dropped(self, connection: sqlite3.Connection) -> bool:
        """Delete something of a space that was dropped. False if nothing is left of any.

        Alone in its commit, as :meth:`sweep` is. First it is forgotten which rows had vectors there, then
        the vectors go, then the space.
        """
        found = self.list.dropped(connection)
        if found is None:
            return False
        storage, swept = found
        lowest, highest = connection.execute(f"SELECT min(row), max(row) FROM {self.table}").fetchone()
        if highest is not None and swept < highest:
            first = max(swept, lowest - 1)
            end = first + _SWEPT_ROWS
            connection.execute(
                f"DELETE FROM {self.table} WHERE row > ? AND row <= ? AND space = ?",
                (first, end, storage.birth),
            )
            self.list.swept(connection, storage, end)
        elif not self.file.empty(storage):
            connection.execute(f"DELETE FROM {self._given_up} WHERE space = ?", (storage.birth,))
            self.file.drop(storage)
            self.list.forget(connection, storage)
        return True

    # Reading, in any thread

    def placing(self, connection: sqlite3.Connection, storage: SpaceStorage) -> VectorOwnership:
        """Return which vector of a space is whose, while the connection's transaction lasts."""
        return VectorOwnership(self, connection, storage)

    def places(self, connection: sqlite3.Connection, storage: SpaceStorage) -> list[tuple[int, int]]:
        """Number and row of all vectors of a space, in no order."""
        query = f"SELECT id, row FROM {self.table} WHERE space = ?"
        return connection.execute(query, (storage.birth,)).fetchall()

    def numbers(
        self, connection: sqlite3.Connection, storage: SpaceStorage, rows: Sequence[int | None]
    ) -> list[int]:
        """Return the vectors of records by row, 0 if there is none."""
        query = f"SELECT id FROM {self.table} WHERE row = ? AND space = ?"
        found = (connection.execute(query, (row, storage.birth)).fetchone() for row in rows)
        return [int(each[0]) if each else 0 for each in found]

    def lacking(
        self, connection: sqlite3.Connection, storage: SpaceStorage, after: int, most: int
    ) -> list[int]:
        """Return rows behind ``after`` whose records have no vector in a space, in order."""
        query = (
            f"SELECT r.row FROM {self.table.replace('vector', 'record')} r LEFT JOIN {self.table} v "
            "ON v.row = r.row AND v.space = ? WHERE r.row > ? AND v.id IS NULL ORDER BY r.row LIMIT ?"
        )
        return [row for (row,) in connection.execute(query, (storage.birth, after, most))]


class VectorInserts:
    """Vectors of new records, written together. Nothing of them is to be found before :meth:`flush`."""

    def __init__(self, truth: VectorTruth, connection: sqlite3.Connection, spaces: CollectionSpaces) -> None:
        self._file, self._spaces = truth.file, spaces
        self._owners = RowInserts(connection, truth.table, ("row", "space", "id"))
        self._waiting: dict[SpaceStorage, list[tuple[int, bytes]]] = {}
        self._placed: list[VectorPlacement] = []

    def add(self, row: int, vectors: Mapping[str, bytes]) -> None:
        """Add the vectors of a record: space → vector. Raises BadArguments if one does not fit."""
        for name, vector in vectors.items():
            storage = self._spaces.fitting(name, vector)
            waiting = self._waiting.setdefault(storage, [])
            waiting.append((row, vector))
            if len(waiting) == TOGETHER:
                self._write(storage)

    def flush(self) -> list[VectorPlacement]:
        """Write what was added. Return the vectors since the last time, in the order of each space."""
        for storage in self._waiting:
            self._write(storage)
        self._owners.flush()
        placed, self._placed = self._placed, []
        return placed

    def _write(self, storage: SpaceStorage) -> None:
        waiting, self._waiting[storage] = self._waiting[storage], []
        if not waiting:
            return
        first = self._file.put_all(storage, [vector for _, vector in waiting])
        for number, (row, vector) in enumerate(waiting, first):
            self._owners.add(row, storage.birth, number)
            self._placed.append(VectorPlacement(storage.space.name, number, row, vector))


class VectorOwnership:
    """Which vector of one space belongs to which record, at one moment."""

    def __init__(self, truth: VectorTruth, connection: sqlite3.Connection, storage: SpaceStorage) -> None:
        self._truth, self._connection, self._storage_of = truth, connection, storage

    def all(self) -> list[tuple[int, int]]:
        """Return number and row of each vector, in no order."""
        return self._truth.places(self._connection, self._storage_of)

    def agree(self, numbers: Sequence[int], rows: Sequence[int]) -> bool:
        """Return whether none of these rows is known to have another vector."""
        found = self._truth.numbers(self._connection, self._storage_of, rows)
        return all(known in (0, number) for known, number in zip(found, numbers, strict=True))
