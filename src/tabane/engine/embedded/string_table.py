"""Table of the strings of fields: each distinct string of a field is stored once, with a code.

Codes are unique in a collection and never reused; 0 means no string. The table is in the database, and a new
string is written with the first record that has it. So columns need 4 bytes a record, and no strings are kept
in memory.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from tabane.engine.embedded.read_thread import give_way, select_among

_REMEMBERED = 20_000  # codes kept in memory for the writer
_LOOKED_AT = 512  # strings between two pauses for others
_TOGETHER = 32  # strings of a statement
_LAST = 0x10FFFF


class StringTable:
    """The strings of one collection, in the table ``string_<id>``."""

    def __init__(self, number: int) -> None:
        self._table = f"string_{number}"
        self._find = f"SELECT code FROM {self._table} WHERE field = ? AND text = ?"
        self._known: dict[tuple[str, str], int] = {}
        self.sweeps = 0
        """A counter that changes before strings are dropped, and again after the commit.

        If a reader finds it unchanged since before its transaction, every code still means the same string.
        """

    def create(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            f"CREATE TABLE {self._table} (code INTEGER PRIMARY KEY AUTOINCREMENT, "
            "field TEXT NOT NULL, text TEXT NOT NULL, UNIQUE (field, text))"
        )

    def coded(
        self, connection: sqlite3.Connection, field: str, text: str, new: dict[tuple[str, str], int]
    ) -> int:
        """Return the code of a string, created if needed. Codes that are not cached are added to ``new``.

        ``new`` is cached after the commit of its transaction, because a rollback removes its codes.
        """
        pair = (field, text)
        code = self._known.get(pair) or new.get(pair)
        if code is None:
            row = connection.execute(self._find, pair).fetchone()
            code = new[pair] = row[0] if row else self._insert(connection, pair)
        return code

    def code_all(
        self,
        connection: sqlite3.Connection,
        pairs: Iterable[tuple[str, str]],
        new: dict[tuple[str, str], int],
    ) -> None:
        """Look up and create the codes of many strings together: :meth:`coded` finds them in ``new``."""
        unknown = list(dict.fromkeys(pair for pair in pairs if pair not in self._known and pair not in new))
        for first in range(0, len(unknown), _TOGETHER):
            part = unknown[first : first + _TOGETHER]
            places = ", ".join(["(?, ?)"] * len(part))
            # IN (VALUES …) would look at all strings; a CROSS JOIN takes its tables in this order.
            query = (
                f"SELECT field, text, code FROM (VALUES {places}) CROSS JOIN {self._table} "
                "ON field = column1 AND text = column2"
            )
            rows = connection.execute(query, [*itertools.chain.from_iterable(part)])
            new.update(((field, text), code) for field, text, code in rows)
            missing = [pair for pair in part if pair not in new]
            if missing:
                new.update(zip(missing, self._insert_all(connection, missing), strict=True))

    def _insert_all(self, connection: sqlite3.Connection, pairs: Sequence[tuple[str, str]]) -> range:
        """Insert strings in one statement. Return their codes, which follow each other."""
        places = ", ".join(["(?, ?)"] * len(pairs))
        statement = f"INSERT INTO {self._table} (field, text) VALUES {places}"
        last = int(connection.execute(statement, [*itertools.chain.from_iterable(pairs)]).lastrowid or 0)
        return range(last - len(pairs) + 1, last + 1)

    def _insert(self, connection: sqlite3.Connection, pair: tuple[str, str]) -> int:
        cursor = connection.execute(f"INSERT INTO {self._table} (field, text) VALUES (?, ?)", pair)
        return int(cursor.lastrowid or 0)

    def remember(self, new: dict[tuple[str, str], int]) -> None:
        """Cache codes after their commit. A full cache is emptied first."""
        if len(self._known) + len(new) > _REMEMBERED:
            self._known.clear()
        if len(new) <= _REMEMBERED:
            self._known.update(new)

    def forget(self) -> None:
        self._known.clear()
        self.sweeps += 1

    def found(self, connection: sqlite3.Connection, field: str, texts: Iterable[str]) -> list[int]:
        """Return the codes of the strings that have one."""
        query = f"SELECT code FROM {self._table} WHERE field = ? AND text IN"
        return [code for (code,) in select_among(connection, query, list(texts), (field,))]

    def named(self, connection: sqlite3.Connection, field: str, texts: Iterable[str]) -> dict[int, str]:
        """Return those of the strings that have a code, by it."""
        query = f"SELECT code, text FROM {self._table} WHERE field = ? AND text IN"
        return dict(select_among(connection, query, list(texts), (field,)))

    def between(
        self,
        connection: sqlite3.Connection,
        field: str,
        low: tuple[str, str] | None,
        high: tuple[str, str] | None,
    ) -> list[int]:
        """Return the codes of strings within bounds. A bound is an operator (``>``, ``<=`` …) and a text."""
        bounds = [bound for bound in (low, high) if bound is not None]
        conditions = "".join(f" AND text {operator} ?" for operator, _ in bounds)
        query = f"SELECT code FROM {self._table} WHERE field = ?{conditions}"
        return [row[0] for row in connection.execute(query, (field, *(text for _, text in bounds)))]

    def beginning(self, connection: sqlite3.Connection, field: str, prefix: str) -> list[int]:
        """Return the codes of a field's strings with that prefix."""
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
        """Return how many strings of a field sort before this one."""
        query = f"SELECT count(*) FROM {self._table} WHERE field = ? AND text < ?"
        return int(connection.execute(query, (field, text)).fetchone()[0])

    def text(self, connection: sqlite3.Connection, code: int) -> str | None:
        found = connection.execute(f"SELECT text FROM {self._table} WHERE code = ?", (code,)).fetchone()
        return str(found[0]) if found else None

    def last(self, connection: sqlite3.Connection) -> int:
        """Return the highest code."""
        return int(connection.execute(f"SELECT coalesce(max(code), 0) FROM {self._table}").fetchone()[0])

    def codes(self, connection: sqlite3.Connection, after: int, limit: int) -> list[int]:
        query = f"SELECT code FROM {self._table} WHERE code > ? ORDER BY code LIMIT ?"
        return [row[0] for row in connection.execute(query, (after, limit))]

    def drop(self, connection: sqlite3.Connection, codes: Sequence[int]) -> None:
        """Remove strings that no record has any more. After the commit, call :meth:`forget`."""
        self.sweeps += 1
        connection.executemany(f"DELETE FROM {self._table} WHERE code = ?", [(code,) for code in codes])


def _successor(prefix: str) -> str:
    """Return the first string after all strings with that prefix, by code point. Empty if there is none."""
    while prefix:
        point = ord(prefix[-1]) + 1
        prefix = prefix[:-1]
        if point <= _LAST:
            # Surrogates cannot be in a text: use the first code point after them.
            return prefix + chr(0xE000 if 0xD800 <= point <= 0xDFFF else point)
    return ""
