"""The vectors of older versions: in ``<domain>.vectors.db``, beside the records, with a table for each space.

They are copied into files of this version when a collection is opened. Nothing in that database is changed.
It is deleted when the domain is opened the next time after all of its collections were converted.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from tabane.engine.embedded import failures
from tabane.engine.embedded.collection_state import SpaceStorage, shape_blob, shape_of
from tabane.engine.embedded.columns import Array
from tabane.engine.embedded.database import Database, connected, examine
from tabane.engine.embedded.vectors.vector_files import VectorFile, VectorFiles
from tabane.engine.embedded.vectors.vector_format import older_path_of
from tabane.engine.input_checks import ALONE
from tabane.search.records import EmbeddingSpace, Shape

_STEP = 1000  # vectors


@dataclass(frozen=True, slots=True)
class _OlderSpace:
    """A space whose vectors are to be copied out of ``table``, and which rows of ``owners`` have them."""

    storage: SpaceStorage
    table: str
    owners: str


class OlderVectors:
    """The spaces of one collection that are not in files of this version yet."""

    def __init__(self, database: Database, files: VectorFiles, collection: str) -> None:
        self._database = database
        self._files = files
        self._collection = collection
        self._path = older_path_of(database.path)

    async def convert(self) -> None:
        """Copy the vectors of all spaces. Each space is verified and committed by itself.

        Raises StoreError, and has lost nothing: the next call begins again with what is left.
        """
        for space in await self._database.run(self._waiting, rows=ALONE):
            numbers, checks = await self._database.aside(partial(self._copy, space=space))
            committing = partial(self._commit, space=space, numbers=numbers, checks=checks)
            await self._database.run(committing, rows=ALONE)

    def _waiting(self, connection: sqlite3.Connection) -> list[_OlderSpace]:
        """Return the spaces that have to be copied. Those that were dropped are left."""
        query = "SELECT id, shape FROM collection WHERE name = ?"
        number, shape = connection.execute(query, (self._collection,)).fetchone()
        if shape_of(shape).spaces:
            self._adopt(connection, number, shape_of(shape))
        dropped = "UPDATE space SET generation = 1 WHERE collection = ? AND generation = 0 AND name IS NULL"
        connection.execute(dropped, (number,))
        query = (
            "SELECT name, dimension, model, birth, number FROM space WHERE collection = ? AND generation = 0"
        )
        return [
            _OlderSpace(SpaceStorage(EmbeddingSpace(*space), birth, 1), f"vector_{table}", f"vector_{number}")
            for *space, birth, table in connection.execute(query, (number,))
        ]

    def _adopt(self, connection: sqlite3.Connection, number: int, shape: Shape) -> None:
        """Take over the spaces of a shape from when the file of vectors was what knew their names.

        One that is not there begins empty.
        """
        known: dict[tuple[str, int], tuple[int, int]] = {}
        with self._reading() as older:
            query = "SELECT name, dimension, number, birth FROM space WHERE collection = ?"
            for name, dimension, *place in older.execute(query, (shape.name,)) if older else ():
                known[name, dimension] = (place[0], place[1])
        for space in shape.spaces:
            table, birth = known.get((space.name, space.dimension), (0, secrets.randbits(62)))
            connection.execute(
                "INSERT INTO space (collection, name, dimension, model, number, birth) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (number, space.name, space.dimension, space.model, table, birth),
            )
        connection.execute("UPDATE collection SET shape = ? WHERE id = ?", (shape_blob(shape), number))

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """Yield a connection to the older database, None if it is lost. Raises StoreError."""
        if not os.path.exists(self._path):
            yield None
            return
        try:
            with contextlib.closing(connected(self._path)) as older:
                if self._database.recovered:
                    examine(older, self._path)
                older.execute("PRAGMA query_only = ON")
                older.execute("BEGIN")
                yield older
        except sqlite3.Error as error:
            raise failures.from_sqlite(error, self._path) from error

    def _copy(self, connection: sqlite3.Connection, space: _OlderSpace) -> tuple[Array, Array]:
        """Write the vectors that records have into a file, durably. Return their numbers and checksums."""
        query = f"SELECT id FROM {space.owners} WHERE space = ? ORDER BY id"
        found = (number for (number,) in connection.execute(query, (space.storage.birth,)))
        numbers = np.fromiter(found, np.int64)
        path = self._files.path(space.storage)
        try:
            with self._reading() as older:
                query = "SELECT 1 FROM space WHERE birth = ?"
                if older is None or older.execute(query, (space.storage.birth,)).fetchone() is None:
                    numbers = numbers[:0]
                else:
                    numbers = numbers[np.isin(numbers, _numbers_of(older, space))]
                return numbers, self._copy_verified(older, space, numbers, path)
        except OSError as error:
            self._files.disk.remove(path)
            raise failures.from_system(error, path) from error

    def _copy_verified(
        self, older: sqlite3.Connection | None, space: _OlderSpace, numbers: Array, path: str
    ) -> Array:
        disk, start = self._files.disk, int(numbers[-1]) + 1 if len(numbers) else 1
        file = VectorFile.create(disk, path, space.storage, numbers, start)
        try:
            checks = np.empty(len(numbers), dtype=np.int64)
            for first in range(0, len(numbers), _STEP):
                part = numbers[first : first + _STEP].tolist()
                vectors = _vectors_of(older, space, part)
                file.put(part[0], vectors)
                checks[first : first + len(part)] = [zlib.crc32(vector) for vector in vectors]
            file.sync()
            self._files.sync_folder()
            for number, crc in zip(numbers.tolist(), checks.tolist(), strict=True):
                if zlib.crc32(file.vector(number) or b"") != crc:
                    raise failures.corrupt(path, "it is not what was written")
            return checks
        finally:
            file.close()

    def _commit(
        self, connection: sqlite3.Connection, space: _OlderSpace, numbers: Array, checks: Array
    ) -> None:
        """Note that a space is in its file. Records lack the vectors that are not, and that is told."""
        birth = space.storage.birth
        known = dict(zip(numbers.tolist(), checks.tolist(), strict=True))
        query = f"SELECT id, row FROM {space.owners} WHERE space = ?"
        owners = connection.execute(query, (birth,)).fetchall()
        connection.executemany(
            f"UPDATE {space.owners} SET crc = ? WHERE row = ? AND space = ?",
            ((known[number], row, birth) for number, row in owners if number in known),
        )
        connection.executemany(
            f"DELETE FROM {space.owners} WHERE row = ? AND space = ?",
            ((row, birth) for number, row in owners if number not in known),
        )
        following = int(numbers[-1]) + 1 if len(numbers) else 1
        connection.execute("UPDATE space SET generation = 1, next = ? WHERE birth = ?", (following, birth))
        self._files.note_lost(self._path, space.storage.space.name, len(owners) - len(numbers))


def _numbers_of(older: sqlite3.Connection, space: _OlderSpace) -> Array:
    """Return the numbers of the vectors of the right length that are there."""
    query = f"SELECT id FROM {space.table} WHERE length(vector) = ?"
    found = (number for (number,) in older.execute(query, (4 * space.storage.space.dimension,)))
    return np.fromiter(found, np.int64)


def _vectors_of(older: sqlite3.Connection | None, space: _OlderSpace, numbers: list[int]) -> list[bytes]:
    """Return vectors that are there, in order."""
    assert older is not None
    query = f"SELECT id, vector FROM {space.table} WHERE id BETWEEN ? AND ? ORDER BY id"
    wanted = set(numbers)
    return [vector for number, vector in older.execute(query, (numbers[0], numbers[-1])) if number in wanted]
