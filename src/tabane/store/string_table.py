"""The strings of fields as numbers: each distinct string of a field is stored once, with a code.

Codes are unique in a collection and never used again; 0 means no string. The table is in the database, and
a new string is written with the record that brings it. So columns need 4 bytes a record, and no strings are
held in memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from tabane.store.read_thread import give_way, select_among

_REMEMBERED = 20_000  # codes kept in memory for the writer
_LOOKED_AT = 512  # strings between two pauses for others
_LAST = 0x10FFFF


class StringTable:
    """The strings of one collection, in the table ``string_<id>``."""

    def __init__(self, number: int) -> None:
        self._table = f"string_{number}"
        self._find = f"SELECT code FROM {self._table} WHERE field = ? AND text = ?"
        self._known: dict[tuple[str, str], int] = {}
        self.sweeps = 0
        """Another number before strings are dropped, and another one after that is committed.

        Who read it before a transaction, and finds it unchanged later, knows every code still stands for
        the string that it stood for.
        """

    def create(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            f"CREATE TABLE {self._table} (code INTEGER PRIMARY KEY AUTOINCREMENT, "
            "field TEXT NOT NULL, text TEXT NOT NULL, UNIQUE (field, text))"
        )

    def coded(
        self, connection: sqlite3.Connection, field: str, text: str, new: dict[tuple[str, str], int]
    ) -> int:
        """Return the code of a string, made if it has none. What is not remembered yet goes into ``new``.

        ``new`` is remembered once its transaction is committed: one that is undone takes its codes back.
        """
        pair = (field, text)
        code = self._known.get(pair) or new.get(pair)
        if code is None:
            found = connection.execute(self._find, pair).fetchone()
            code = new[pair] = found[0] if found else self._made(connection, pair)
        return code

    def _made(self, connection: sqlite3.Connection, pair: tuple[str, str]) -> int:
        cursor = connection.execute(f"INSERT INTO {self._table} (field, text) VALUES (?, ?)", pair)
        return int(cursor.lastrowid or 0)

    def remember(self, new: dict[tuple[str, str], int]) -> None:
        """Keep codes in memory, after their commit; the memory is emptied when it is full."""
        if len(self._known) + len(new) > _REMEMBERED:
            self._known.clear()
        if len(new) <= _REMEMBERED:
            self._known.update(new)

    def forget(self) -> None:
        self._known.clear()
        self.sweeps += 1

    def found(self, connection: sqlite3.Connection, field: str, texts: Iterable[str]) -> list[int]:
        """Return the codes of those of the strings that are known."""
        query = f"SELECT code FROM {self._table} WHERE field = ? AND text IN"
        return [code for (code,) in select_among(connection, query, list(texts), (field,))]

    def between(
        self,
        connection: sqlite3.Connection,
        field: str,
        low: tuple[str, str] | None,
        high: tuple[str, str] | None,
    ) -> list[int]:
        """The codes of a field's strings within bounds: each an operator (``>``, ``<=`` …) and a string."""
        bounds = [bound for bound in (low, high) if bound is not None]
        conditions = "".join(f" AND text {operator} ?" for operator, _ in bounds)
        query = f"SELECT code FROM {self._table} WHERE field = ?{conditions}"
        return [row[0] for row in connection.execute(query, (field, *(text for _, text in bounds)))]

    def beginning(self, connection: sqlite3.Connection, field: str, prefix: str) -> list[int]:
        """Return the codes of a field's strings that begin so."""
        end = _successor(prefix)
        return self.between(connection, field, (">=", prefix), ("<", end) if end else None)

    def in_order(self, connection: sqlite3.Connection, field: str) -> Iterator[tuple[int, str]]:
        """Yield all strings of a field with their codes, by code point."""
        query = f"SELECT code, text FROM {self._table} WHERE field = ? ORDER BY text"
        for number, pair in enumerate(connection.execute(query, (field,))):
            if not number % _LOOKED_AT:
                give_way(connection)
            yield pair

    def before(self, connection: sqlite3.Connection, field: str, text: str) -> int:
        """Return how many strings of a field come before this one."""
        query = f"SELECT count(*) FROM {self._table} WHERE field = ? AND text < ?"
        return int(connection.execute(query, (field, text)).fetchone()[0])

    def text(self, connection: sqlite3.Connection, code: int) -> str | None:
        found = connection.execute(f"SELECT text FROM {self._table} WHERE code = ?", (code,)).fetchone()
        return str(found[0]) if found else None

    def last(self, connection: sqlite3.Connection) -> int:
        """Return the highest code there is."""
        return int(connection.execute(f"SELECT coalesce(max(code), 0) FROM {self._table}").fetchone()[0])

    def codes(self, connection: sqlite3.Connection, after: int, limit: int) -> list[int]:
        query = f"SELECT code FROM {self._table} WHERE code > ? ORDER BY code LIMIT ?"
        return [row[0] for row in connection.execute(query, (after, limit))]

    def drop(self, connection: sqlite3.Connection, codes: Sequence[int]) -> None:
        """Remove strings that no record has any more; after the commit, :meth:`forget` what is remembered."""
        self.sweeps += 1
        connection.executemany(f"DELETE FROM {self._table} WHERE code = ?", [(code,) for code in codes])


def _successor(prefix: str) -> str:
    """Return the first string after all that begin so, by code point; empty if there is none."""
    while prefix:
        point = ord(prefix[-1]) + 1
        prefix = prefix[:-1]
        if point <= _LAST:
            # Half characters are no text: what comes after the last one before them.
            return prefix + chr(0xE000 if 0xD800 <= point <= 0xDFFF else point)
    return ""
