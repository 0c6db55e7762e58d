"""A bounded cache of computed vectors on disk, by 32-byte keys: tables in the database of a domain.

Entries that were not used for the longest time are deleted first. Time is counted in *turns*, which advance
with the amount of data that is put in. An entry remembers the turn of its last use, so that a use costs at
most one small write a turn, together with the next vectors that are put in.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator, Sequence

from tabane.engine.embedded.database import Database
from tabane.engine.embedded.read_thread import select_among
from tabane.engine.input_checks import MOST_ROWS
from tabane.errors import BadArguments
from tabane.messages import say

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
        await database.run(found._prepare, rows=MOST_ROWS)
        await found._make_room()
        return found

    @property
    def size(self) -> int:
        """Return the approximate size in the file, in bytes."""
        return self._size

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the vector of each key, None if there is none. At most 10,000 keys of 32 bytes."""
        _check(keys)
        found = await self._database.read(lambda connection: self._found(connection, keys))
        with self._using:
            self._used.update(number for number, turn, _ in found.values() if turn < self.turn)
        if len(self._used) >= _USED:
            await self._database.run(self._note_uses, rows=MOST_ROWS)
        return [found[key][2] if key in found else None for key in keys]

    async def put(self, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        """Store vectors by key, replacing those with the same keys. Up to 1 MB each."""
        _check([key for key, _ in vectors])
        if any(len(vector) > LARGEST for _, vector in vectors):
            raise BadArguments(say("a vector has at most {most} {most:byte|bytes}", most=LARGEST), "vectors")
        for part in _parts(vectors):
            await self._database.run(
                lambda connection, part=part: self._put(connection, part),  # type: ignore[misc]
                rows=len(part),
                committed=self._grown,
            )
        if self._size > self._most:
            await self._make_room()

    # In the writing thread

    def _prepare(self, connection: sqlite3.Connection) -> None:
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

    def _put(self, connection: sqlite3.Connection, part: Sequence[tuple[bytes, bytes]]) -> tuple[int, int]:
        """Return how much larger it has become, and how much was put in."""
        self._note_uses(connection)
        grown = put = 0
        for key, vector in part:
            size = _size_of(vector)
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

    def _grown(self, by: tuple[int, int]) -> None:
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
        excess, found = self._size - self._wanted, 0
        for number, size in connection.execute(query).fetchall():
            if found >= excess:
                break
            connection.execute("DELETE FROM kept_vector WHERE number = ?", (number,))
            connection.execute("DELETE FROM kept WHERE number = ?", (number,))
            found += size
        return found

    def _smaller(self, by: int) -> None:
        self._size -= by

    @property
    def _wanted(self) -> int:
        """Return how large it is once there is room again."""
        return self._most - self._most // _ROOM

    # Elsewhere

    async def _make_room(self) -> None:
        async with self._evicting:
            if self._size > self._most:
                await self._shrink()

    async def _shrink(self) -> None:
        freed = 1
        while self._size > self._wanted and freed:
            freed = await self._database.run(self._forget, rows=MOST_ROWS, committed=self._smaller)

    @staticmethod
    def _found(connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, tuple[int, int, bytes]]:
        """By key: number, turn of the last use that was written down, vector."""
        query = "SELECT key, number, turn, vector FROM kept JOIN kept_vector USING (number) WHERE key IN"
        return {
            key: (number, turn, vector) for key, number, turn, vector in select_among(connection, query, keys)
        }


def _check(keys: Sequence[bytes]) -> None:
    if len(keys) > MOST_AT_ONCE or any(len(key) != KEY for key in keys):
        message = say(
            "there can be at most {most} {most:key|keys}, of {size} {size:byte|bytes} each",
            most=MOST_AT_ONCE,
            size=KEY,
        )
        raise BadArguments(message, "keys")


def _size_of(vector: bytes) -> int:
    """About what it takes in the file: its share of a page, or pages of its own.

    A row that does not fit into a page leaves some 500 bytes there (SQLite's file format, 1.6).
    """
    length = len(vector) + 12
    if length <= _PAGE:
        return _ENTRY + _PAGE // max(1, (_PAGE - 8) // length)
    return _ENTRY + _LEFT + -(-(length - _LEFT) // _PAGE) * _PAGE


def _parts(vectors: Sequence[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
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
