"""The store of one domain (posts, documents, the hub's own data, a cache): collections that share a file.

A bounded cache of computed vectors on disk, by 32-byte keys: tables in the database of a domain. Entries
that were not used for the longest time are deleted first. Time is counted in *turns*, which advance with
the amount of data that is put in. An entry remembers the turn of its last use, so that a use costs at
most one small write a turn, together with the next vectors that are put in.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tabane.engine.embedded.clean_points import PAGES
from tabane.engine.embedded.database import MIGRATIONS, Database, Migration, select_among
from tabane.engine.input_checks import MOST_ROWS
from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.records import Shape

if TYPE_CHECKING:
    from tabane.engine.checked_collection import CheckedCollection
    from tabane.engine.embedded.collection import StoredCollection
    from tabane.engine.embedded.collection_table import CollectionTable, LexicalFollower
    from tabane.engine.embedded.vector_process import VectorSearchProcess
    from tabane.engine.embedded.vectors.vector_files import Disk, VectorFiles

MOST_BYTES = 1_000_000_000
KEY = 32  # bytes
LARGEST = 1_000_000  # bytes of a vector
MOST_AT_ONCE = 10_000  # keys

_TURNS = 32  # in as much as fits in all
_ROOM = 8  # an eighth is made free if it is full
_PART = 1_000_000  # bytes of a commit
_FORGOTTEN = 500  # entries of a step
_USED = 2000  # uses that are worth a commit of their own
_ENTRY = 160  # bytes in the file beside the vector: its row, its key twice, its turn twice
_PAGE = 4096  # bytes
_LEFT = 500


class PersistentVectorCache:
    """The storage that :class:`tabane.search.embedding.embedder.CachedEmbedder` asks. Made by :meth:`open`.

    What :meth:`put` answered outlives the process, as long as there is room for it.
    """

    def __init__(self, database: Database, most: int) -> None:
        self._database = database
        self._most = most
        self._used: set[int] = set()  # entries whose last use is of an older turn in the file
        self._using = threading.Lock()
        self._size = 0
        self.turn = 1
        self._put_in_turn = 0
        self._evicting = asyncio.Lock()

    @classmethod
    async def open(cls, database: Database, most: int = MOST_BYTES) -> PersistentVectorCache:
        """Open the cache in a database. Creates its table if needed, and frees room if it is too large."""
        found = cls(database, most)
        await database.run(found._create_tables, rows=MOST_ROWS)
        await found._make_room()
        return found

    @property
    def size(self) -> int:
        """Return the approximate size in the file, in bytes."""
        return self._size

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the vector of each key, None if there is none. At most 10,000 keys of 32 bytes."""
        _check_keys(keys)
        query = "SELECT key, number, turn, vector FROM kept JOIN kept_vector USING (number) WHERE key IN"

        def reading(connection: sqlite3.Connection) -> dict[bytes, tuple[int, int, bytes]]:
            return {
                key: (number, turn, vector)
                for key, number, turn, vector in select_among(connection, query, keys)
            }

        found = await self._database.read(reading)
        with self._using:
            self._used.update(number for number, turn, _ in found.values() if turn < self.turn)
        if len(self._used) >= _USED:
            await self._database.run(self._note_uses, rows=MOST_ROWS)
        return [found[key][2] if key in found else None for key in keys]

    async def put(self, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        """Store vectors by key, replacing those with the same keys. Up to 1 MB each."""
        _check_keys([key for key, _ in vectors])
        if any(len(vector) > LARGEST for _, vector in vectors):
            raise BadArguments(say("a vector has at most {most} {most:byte|bytes}", most=LARGEST), "vectors")
        for part in _vector_parts(vectors):
            await self._database.run(
                lambda connection, part=part: self._write_vectors(connection, part),  # type: ignore[misc]
                rows=len(part),
                committed=self._add_size,
            )
        if self._size > self._most:
            await self._make_room()

    # In the writing thread

    def _create_tables(self, connection: sqlite3.Connection) -> None:
        for statement in (
            "CREATE TABLE IF NOT EXISTS kept (number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, "
            "turn INTEGER NOT NULL, size INTEGER NOT NULL)",
            "CREATE INDEX IF NOT EXISTS kept_turn ON kept (turn)",
            "CREATE TABLE IF NOT EXISTS kept_vector (number INTEGER PRIMARY KEY, vector BLOB NOT NULL)",
        ):
            connection.execute(statement)
        # A turn of its own for this process: how much was put in in the last one is not known any more.
        query = "SELECT coalesce(sum(size), 0), coalesce(max(turn), 0) + 1 FROM kept"
        self._size, self.turn = connection.execute(query).fetchone()

    def _write_vectors(
        self, connection: sqlite3.Connection, part: Sequence[tuple[bytes, bytes]]
    ) -> tuple[int, int]:
        """Store a part. Return by how many bytes the cache grew, and how many were stored."""
        self._note_uses(connection)
        grown = put = 0
        for key, vector in part:
            # A row that does not fit into a page leaves some 500 bytes there (SQLite's file format, 1.6).
            length = len(vector) + 12
            if length <= _PAGE:
                size = _ENTRY + _PAGE // max(1, (_PAGE - 8) // length)
            else:
                size = _ENTRY + _LEFT + -(-(length - _LEFT) // _PAGE) * _PAGE
            there = connection.execute("SELECT number, size FROM kept WHERE key = ?", (key,)).fetchone()
            number, before = there or (None, 0)
            cursor = connection.execute(
                "INSERT OR REPLACE INTO kept (number, key, turn, size) VALUES (?, ?, ?, ?)",
                (number, key, self.turn, size),
            )
            pair = (cursor.lastrowid, vector)
            connection.execute("INSERT OR REPLACE INTO kept_vector (number, vector) VALUES (?, ?)", pair)
            grown, put = grown + size - before, put + size
        return grown, put

    def _add_size(self, by: tuple[int, int]) -> None:
        self._size += by[0]
        self._put_in_turn += by[1]
        if self._put_in_turn * _TURNS >= self._most:
            self._put_in_turn = 0
            self.turn += 1

    def _note_uses(self, connection: sqlite3.Connection) -> None:
        """Write down what was used. One that is lost with the process was a little older then."""
        with self._using:
            used, self._used = self._used, set()
        rows = [(self.turn, number) for number in used]
        connection.executemany("UPDATE kept SET turn = ? WHERE number = ?", rows)

    def _forget(self, connection: sqlite3.Connection) -> int:
        """Delete some of the least recently used entries. Return the freed bytes."""
        self._note_uses(connection)
        query = f"SELECT number, size FROM kept ORDER BY turn, number LIMIT {_FORGOTTEN}"
        excess, found = self._size - self._reduced_size, 0
        for number, size in connection.execute(query).fetchall():
            if found >= excess:
                break
            connection.execute("DELETE FROM kept_vector WHERE number = ?", (number,))
            connection.execute("DELETE FROM kept WHERE number = ?", (number,))
            found += size
        return found

    def _subtract_size(self, by: int) -> None:
        self._size -= by

    @property
    def _reduced_size(self) -> int:
        """Return how large it is once there is room again."""
        return self._most - self._most // _ROOM

    # Elsewhere

    async def _make_room(self) -> None:
        async with self._evicting:
            if self._size > self._most:
                freed = 1
                while self._size > self._reduced_size and freed:
                    freed = await self._database.run(
                        self._forget, rows=MOST_ROWS, committed=self._subtract_size
                    )


def _check_keys(keys: Sequence[bytes]) -> None:
    if len(keys) > MOST_AT_ONCE or any(len(key) != KEY for key in keys):
        message = say(
            "there can be at most {most} {most:key|keys}, of {size} {size:byte|bytes} each",
            most=MOST_AT_ONCE,
            size=KEY,
        )
        raise BadArguments(message, "keys")


def _vector_parts(vectors: Sequence[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    part: list[tuple[bytes, bytes]] = []
    size = 0
    for pair in vectors:
        if part and (len(part) == MOST_ROWS or size + len(pair[1]) > _PART):
            yield part
            part, size = [], 0
        part.append(pair)
        size += len(pair[1])
    if part:
        yield part


# Makes the lexical index of a table, in its folder.
OpenLexicalIndex = Callable[[str, "CollectionTable"], Awaitable["LexicalFollower"]]

# Makes the process that searches the vectors of a collection, None for none.
MakeSearchProcess = Callable[[], "VectorSearchProcess | None"]


class Store:
    """One domain's file and its collections, each opened once. Made by :meth:`open`."""

    def __init__(
        self,
        database: Database,
        lexical: OpenLexicalIndex | None,
        searching: MakeSearchProcess | None = None,
        disk: Disk | None = None,
    ) -> None:
        self.database = database
        self._lexical = lexical
        self._searching = searching
        self._disk = disk
        self._collections: dict[str, CheckedCollection[StoredCollection]] = {}
        self._vectors: VectorFiles | None = None  # opened with the first collection that has some
        self._kept: PersistentVectorCache | None = None
        self._opening = asyncio.Lock()
        self._opening_vectors = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        folder: str,
        domain: str,
        *,
        lexical: OpenLexicalIndex | None = None,
        migrations: Sequence[Migration] = MIGRATIONS,
        pages: int = PAGES,
        searching: MakeSearchProcess | None = None,
        disk: Disk | None = None,
    ) -> Store:
        """Open ``<folder>/<domain>.db``, created if it is new. Raises :class:`~tabane.errors.StoreError`.

        ``pages``: number of changed pages of a file after which a checkpoint is made. ``searching`` makes the
        process that searches vectors of a collection; it starts under load only. ``disk``: writes vectors.
        """
        path = os.path.join(folder, f"{domain}.db")
        database = await asyncio.to_thread(Database.open, path, migrations, pages=pages)
        return cls(database, lexical, searching, disk)

    async def collection(self, shape: Shape) -> CheckedCollection[StoredCollection]:
        """Return the collection of that shape, made if it is new. The same one at every call.

        Spaces of the shape are made if they are not there; those that the shape does not name stay.
        Raises BadArguments if one of them is there with another dimension or model.
        """
        async with self._opening:
            found = self._collections.get(shape.name)
            if found is None:
                found = self._collections[shape.name] = await self._opened(shape)
            elif not found.shape.holds_same(shape):
                await found.engine.close()
                found = self._collections[shape.name] = await self._opened(shape)
        for space in shape.spaces:
            await found.add_space(space)
        return found

    async def _opened(self, shape: Shape) -> CheckedCollection[StoredCollection]:
        table = await self.table(shape)
        from tabane.engine.embedded.collection import checked_collection
        from tabane.engine.embedded.vector_process import search_process

        folder = os.path.splitext(self.database.path)[0] + f".{shape.name}"
        lexical = None if self._lexical is None else await self._lexical(folder, table)
        return checked_collection(table, lexical, (self._searching or search_process)())

    async def table(self, shape: Shape) -> CollectionTable:
        """Open the table of a collection, without its index and maintenance. The caller closes it."""
        # numpy comes with the first collection: a hub that only forwards does without. Importing it takes
        # a fifth of a second, which is no business of the event loop's.
        await asyncio.to_thread(importlib.import_module, "tabane.engine.embedded.collection")
        from tabane.engine.embedded.collection_table import CollectionTable

        return await CollectionTable.open(self.database, shape, self._vector_files)

    async def _vector_files(self) -> VectorFiles:
        async with self._opening_vectors:
            if self._vectors is None:
                from tabane.engine.embedded.vectors.vector_files import VectorFiles
                from tabane.engine.embedded.vectors.vector_truth import all_spaces

                files = VectorFiles(self.database.path, self._disk)
                await self.database.aside(lambda connection: files.remove_others(all_spaces(connection)))
                self.database.accompany(files)
                self._vectors = files
            return self._vectors

    async def kept(self, most: int = 1_000_000_000) -> PersistentVectorCache:
        """Return the cache of computed vectors. Every call returns the same one.

        ``most`` is its limit in bytes. The value of the first call counts.
        """
        async with self._opening:
            if self._kept is None:
                self._kept = await PersistentVectorCache.open(self.database, most)
            return self._kept

    async def check(self) -> list[str]:
        """Return the names of open collections whose columns or index do not agree with their records.

        Raises StoreCorrupt if a file itself is damaged. Reads everything; used by checks only.
        """
        await self.database.examine()
        if self._vectors is not None:
            await asyncio.to_thread(self._vectors.check)
        return [name for name, each in self._collections.items() if not await each.engine.agrees()]

    async def mend(self, name: str) -> CheckedCollection[StoredCollection]:
        """Rebuild all derived data of the collection of that name. Whoever has it may keep it."""
        async with self._opening:
            collection = self._collections.pop(name)
            before = collection.engine
            await before.close()
            await self.database.run(before.table.truth.unseal)
            await before.table.forget_wrong_vectors()
            await asyncio.to_thread(shutil.rmtree, before.table.vector_folder, ignore_errors=True)
            collection.continue_with((await self._opened(before.shape)).engine)
            self._collections[name] = collection
            if collection.engine.lexical is not None:
                await collection.engine.lexical.remake()
            return collection

    async def close(self) -> None:
        """Close all collections and the file. A second call does nothing."""
        for collection in self._collections.values():
            await collection.engine.close()
        self._collections.clear()
        await self.database.close()
        if self._vectors is not None:
            vectors, self._vectors = self._vectors, None
            await asyncio.to_thread(vectors.close)
