"""The embedding spaces of collections: a table in the database of records, so that one commit changes them.

The vectors of a space are found by its birth, not by its name: a space that replaces another one only
changes its name in this table. A space that is dropped loses its name, and its data is deleted later.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace

from tabane.engine.embedded.collection_state import CollectionSpaces, SpaceStorage
from tabane.engine.embedded.vectors.vector_database import VectorDatabase
from tabane.engine.request_checks import check_room_for_space, unlike_space
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
