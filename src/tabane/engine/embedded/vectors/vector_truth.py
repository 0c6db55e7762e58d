"""Which record has which vector, and which spaces there are: tables in the database of records.

``vector_<collection>`` says which vector the record of a row has in a space, by its number there, and the
CRC-32 of that vector. A vector that no record has is none any more: its place in the file is free when most
are. Everything here runs in the writing thread, inside a transaction of the caller.

The embedding spaces of collections: a table in the database of records, so that one commit changes them.
The vectors of a space are found by its birth, not by its name: a space that replaces another one only
changes its name in this table. A space that is dropped loses its name, and its data is deleted later.
"""

from __future__ import annotations

import secrets
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from tabane.engine.embedded import failures
from tabane.engine.embedded.collection_state import CollectionSpaces, SpaceStorage, VectorPlacement
from tabane.engine.embedded.columns import Array
from tabane.engine.embedded.database import TOGETHER, RowInserts
from tabane.engine.embedded.vectors.vector_files import VectorFile, VectorFiles
from tabane.engine.input_checks import check_room_for_space, unlike_space
from tabane.engine.vector_request import Matrix
from tabane.search.records import EmbeddingSpace, Shape

_FIND = "SELECT name, dimension, model, birth, generation FROM space WHERE "
_INSERT = (
    "INSERT INTO space (collection, name, dimension, model, number, birth, generation) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)


class SpaceTable:
    """The spaces of one collection, read and changed inside a transaction of the caller's."""

    def __init__(self, number: int, shape: Shape, files: VectorFiles) -> None:
        self._number = number
        self._shape = replace(shape, spaces=())
        self._files = files

    def read(self, connection: sqlite3.Connection) -> CollectionSpaces:
        """Return those there are. For any thread."""
        query = f"{_FIND} collection = ? AND name IS NOT NULL ORDER BY made"
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
        storage = SpaceStorage(space, secrets.randbits(62), 1)
        self._files.make(storage)
        place = (self._number, space.name, space.dimension, space.model, 0, storage.birth, 1)
        connection.execute(_INSERT, place)
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

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Open the files of the spaces. Those whose file is gone begin empty, and that is told.

        Raises StoreError.
        """
        for storage in self.read(connection).storages:
            if self._files.prepare(storage):
                file = self._files.file(storage)
                assert file is not None
                if file.slot(following(connection, storage)) > file.room:
                    raise failures.corrupt(file.path, "its end is missing")
            else:
                owners = f"SELECT count(*) FROM vector_{self._number} WHERE space = ?"
                (count,) = connection.execute(owners, (storage.birth,)).fetchone()
                self._files.note_lost(self._files.path(storage), storage.space.name, count)
                afresh = SpaceStorage(storage.space, secrets.randbits(62), 1)
                self._files.make(afresh)
                connection.execute(
                    "UPDATE space SET birth = ?, generation = 1, next = 1 WHERE birth = ?",
                    (afresh.birth, storage.birth),
                )
                space = storage.space
                dropped = (self._number, None, space.dimension, space.model, 0, storage.birth, 1)
                connection.execute(_INSERT, dropped)

    def dropped(self, connection: sqlite3.Connection) -> tuple[SpaceStorage, int] | None:
        """Return a space that was dropped and is not swept yet, and up to which row its vectors are."""
        query = (
            "SELECT '', dimension, model, birth, generation, swept FROM space "
            "WHERE collection = ? AND name IS NULL LIMIT 1"
        )
        found = connection.execute(query, (self._number,)).fetchone()
        return (_storage_of(*found[:-1]), found[-1]) if found else None

    def swept(self, connection: sqlite3.Connection, storage: SpaceStorage, row: int) -> None:
        connection.execute("UPDATE space SET swept = ? WHERE birth = ?", (row, storage.birth))

    def forget(self, connection: sqlite3.Connection, storage: SpaceStorage) -> None:
        """Nothing is left of a space that was dropped."""
        connection.execute("DELETE FROM space WHERE birth = ?", (storage.birth,))


def all_spaces(connection: sqlite3.Connection) -> list[SpaceStorage]:
    """Return the spaces of all collections, with those that were dropped or have no file yet."""
    found = connection.execute(f"{_FIND} true")
    return [_storage_of(name or "", *rest) for name, *rest in found]


def following(connection: sqlite3.Connection, storage: SpaceStorage) -> int:
    """Return the number that the next vector of a space gets."""
    query = "SELECT next FROM space WHERE birth = ?"
    return int(connection.execute(query, (storage.birth,)).fetchone()[0])


def any_spaces(connection: sqlite3.Connection, collection: str) -> bool:
    """Return whether a collection has spaces, or had some that are not swept yet."""
    query = (
        "SELECT 1 FROM space JOIN collection ON collection.id = space.collection "
        "WHERE collection.name = ? LIMIT 1"
    )
    return connection.execute(query, (collection,)).fetchone() is not None


def _storage_of(name: str, dimension: int, model: str, birth: int, generation: int) -> SpaceStorage:
    return SpaceStorage(EmbeddingSpace(name, dimension, model), birth, generation)


_MOST_WRONG = 100  # vectors of a file, for the others to be trusted
_SWEPT_ROWS = 2000  # rows that are looked at in a step, for vectors of a space that was dropped


class VectorTruth:
    """The vectors of one collection. Made by :meth:`prepared`."""

    def __init__(self, number: int, files: VectorFiles, shape: Shape) -> None:
        self.files = files
        self.list = SpaceTable(number, shape, files)
        self.spaces = self.list.read
        self.table = f"vector_{number}"
        self._find = f"SELECT space, id FROM {self.table} WHERE row = ?"

    @classmethod
    def prepared(
        cls, connection: sqlite3.Connection, files: VectorFiles, number: int, shape: Shape
    ) -> VectorTruth:
        """Create the table, and open the files of the spaces. Raises StoreError."""
        found = cls(number, files, shape)
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {found.table} (row INTEGER NOT NULL, space INTEGER NOT NULL, "
            "id INTEGER NOT NULL, crc INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (row, space)) WITHOUT ROWID"
        )
        found.list.prepare(connection)
        return found

    def same(
        self, connection: sqlite3.Connection, spaces: CollectionSpaces, row: int, vectors: Mapping[str, bytes]
    ) -> bool:
        """Return whether the record of a row has these vectors and no others."""
        there = dict(self._of_row(connection, spaces, row))
        return {storage.space.name for storage in there} == vectors.keys() and all(
            self.files.vector(storage, number) == vectors[storage.space.name]
            for storage, number in there.items()
        )

    def put(
        self, connection: sqlite3.Connection, spaces: CollectionSpaces, row: int, vectors: Mapping[str, bytes]
    ) -> list[VectorPlacement]:
        """Give the record of a row vectors in spaces if it has none. Raises BadArguments."""
        placed = []
        for name, vector in vectors.items():
            storage = spaces.fitting(name, vector)
            number = self.write(connection, storage, [vector])
            place = (row, storage.birth, number, zlib.crc32(vector))
            connection.execute(f"INSERT INTO {self.table} (row, space, id, crc) VALUES (?, ?, ?, ?)", place)
            placed.append(VectorPlacement(name, number, row))
        return placed

    def write(self, connection: sqlite3.Connection, storage: SpaceStorage, vectors: Sequence[bytes]) -> int:
        """Write vectors down together. Return the number of the first; those of the others follow it."""
        taken = (len(vectors), storage.birth)
        connection.execute("UPDATE space SET next = next + ? WHERE birth = ?", taken)
        first = following(connection, storage) - len(vectors)
        self.files.put(storage, first, vectors)
        return first

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
                replaced.append(VectorPlacement(storage.space.name, number, 0))
        return replaced + self.put(connection, spaces, row, vectors)

    def _of_row(
        self, connection: sqlite3.Connection, spaces: CollectionSpaces, row: int
    ) -> list[tuple[SpaceStorage, int]]:
        """Return the vectors of a record by space; those of spaces that were dropped are none any more."""
        found = connection.execute(self._find, (row,)).fetchall()
        return [(storage, number) for birth, number in found if (storage := spaces.born(birth)) is not None]

    def remove(self, connection: sqlite3.Connection, row: int) -> None:
        """Forget the vectors of a deleted record."""
        connection.execute(f"DELETE FROM {self.table} WHERE row = ?", (row,))

    def owners(self, connection: sqlite3.Connection, wrong: WrongVectors) -> list[int]:
        """Return the rows of the records that have these vectors."""
        query = f"SELECT row FROM {self.table} WHERE space = ? AND id = ?"
        pairs = [(wrong.storage.birth, number) for number in wrong.numbers]
        return [row for pair in pairs for (row,) in connection.execute(query, pair)]

    def forget(self, connection: sqlite3.Connection, wrong: WrongVectors) -> None:
        """Let their records lack these vectors."""
        pairs = [(wrong.storage.birth, number) for number in wrong.numbers]
        connection.executemany(f"DELETE FROM {self.table} WHERE space = ? AND id = ?", pairs)

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

    def sweep_dropped(self, connection: sqlite3.Connection) -> bool:
        """Delete something of a space that was dropped. False if nothing is left of any, or it is refused.

        First it is forgotten which rows had vectors there, then the file and the space go.
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
        else:
            if not self.files.drop(storage):  # nobody looks for it, whether or not this is committed
                return False
            self.list.forget(connection, storage)
        return True

    # Reading, in any thread

    def placing(self, connection: sqlite3.Connection, storage: SpaceStorage) -> VectorOwnership:
        """Return which vector of a space is whose, while the connection's transaction lasts."""
        return VectorOwnership(self, connection, storage)

    def file(self, storage: SpaceStorage) -> VectorFile:
        """Return the file of a space that is there."""
        file = self.files.file(storage)
        assert file is not None
        return file

    def owned(self, connection: sqlite3.Connection, storage: SpaceStorage) -> Array:
        """Return the numbers of the vectors that records have, in order."""
        query = f"SELECT id FROM {self.table} WHERE space = ?"
        numbers = (number for (number,) in connection.execute(query, (storage.birth,)))
        return np.sort(np.fromiter(numbers, np.int64))

    def numbers(
        self, connection: sqlite3.Connection, storage: SpaceStorage, rows: Sequence[int | None]
    ) -> list[int]:
        """Return the vectors of records by row, 0 if there is none."""
        query = f"SELECT id FROM {self.table} WHERE row = ? AND space = ?"
        found = (connection.execute(query, (row, storage.birth)).fetchone() for row in rows)
        return [int(each[0]) if each else 0 for each in found]


class VectorInserts:
    """Vectors of new records, written together. Nothing of them is to be found before :meth:`flush`."""

    def __init__(self, truth: VectorTruth, connection: sqlite3.Connection, spaces: CollectionSpaces) -> None:
        self._truth, self._connection, self._spaces = truth, connection, spaces
        self._owners = RowInserts(connection, truth.table, ("row", "space", "id", "crc"))
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
        first = self._truth.write(self._connection, storage, [vector for _, vector in waiting])
        for number, (row, vector) in enumerate(waiting, first):
            self._owners.add(row, storage.birth, number, zlib.crc32(vector))
            self._placed.append(VectorPlacement(storage.space.name, number, row))


class WrongVectors(Exception):
    """A few vectors of a space, by number, are not what was written. The others can be used."""

    def __init__(self, path: str, storage: SpaceStorage, numbers: Sequence[int]) -> None:
        super().__init__(path, storage, numbers)
        self.path, self.storage, self.numbers = path, storage, numbers


class VectorOwnership:
    """Which vector of one space belongs to which record, at one moment."""

    def __init__(self, truth: VectorTruth, connection: sqlite3.Connection, storage: SpaceStorage) -> None:
        self._truth, self._connection, self._storage_of = truth, connection, storage

    @property
    def following(self) -> int:
        """Return the number that the next vector gets."""
        return following(self._connection, self._storage_of)

    def all(self) -> tuple[Array, Array]:
        """Return the numbers of all vectors, and their rows, in no order."""
        pairs = self._of_all("id, row")
        return pairs[:, 0], pairs[:, 1]

    def check(self, file: VectorFile, first: int) -> None:
        """Compare the vectors from slot ``first`` on with their checksums.

        Raises WrongVectors if some are others, StoreCorrupt if many are: then the file is another one.
        """
        newer = file.head.storage.generation != self._storage_of.generation
        wrong = []
        for number, crc in self._of_all("id, crc", file.number(first)).tolist():
            vector = file.vector(number)
            if vector is None and newer:
                continue  # it is of no record any more
            if vector is None or zlib.crc32(vector) != crc:
                wrong.append(number)
            if len(wrong) > _MOST_WRONG:
                raise failures.corrupt(file.path, "many of its vectors are not what was written")
        if wrong:
            raise WrongVectors(file.path, self._storage_of, wrong)

    def fits(self, rows: Array, data: Matrix) -> bool:
        """Return whether each record's vector is at the slot of its row in ``rows``. Reads all."""
        pairs = self._of_all("row, crc")
        order = np.argsort(rows, kind="stable")
        places = np.searchsorted(rows[order], pairs[:, 0])
        if len(places) and int(places.max()) >= len(rows):
            return False
        slots = order[places]
        found = zip(slots.tolist(), pairs[:, 1].tolist(), strict=True)
        return np.array_equal(rows[slots], pairs[:, 0]) and all(
            zlib.crc32(data[slot].tobytes()) == crc for slot, crc in found
        )

    def _of_all(self, columns: str, least: int = 0) -> Array:
        """Return two columns of all vectors from that number on, in no order."""
        query = f"SELECT {columns} FROM {self._truth.table} WHERE space = ? AND id >= ?"
        pairs = self._connection.execute(query, (self._storage_of.birth, least)).fetchall()
        return np.fromiter(chain.from_iterable(pairs), np.int64, 2 * len(pairs)).reshape(-1, 2)

    def agree(self, numbers: Sequence[int], rows: Sequence[int]) -> bool:
        """Return whether none of these rows is known to have another vector."""
        found = self._truth.numbers(self._connection, self._storage_of, rows)
        return all(known in (0, number) for known, number in zip(found, numbers, strict=True))
