"""Rows that are inserted together: each statement gives up the interpreter, and takes it back."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

TOGETHER = 16  # rows of a statement


class RowInserts:
    """Rows for one table, in the order they were added. They are in the table after :meth:`flush`.

    Everything runs inside a transaction of the caller's.
    """

    def __init__(self, connection: sqlite3.Connection, table: str, columns: Sequence[str]) -> None:
        self._connection = connection
        self._statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "
        self._marks = f"({', '.join('?' * len(columns))})"
        self._values: list[Any] = []
        self._rows = 0

    def add(self, *values: Any) -> None:
        """Add a row, a value for each column."""
        self._values += values
        self._rows += 1
        if self._rows == TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Insert the rows that are not in the table yet."""
        if self._rows:
            statement = self._statement + ", ".join([self._marks] * self._rows)
            self._connection.execute(statement, self._values)
            self._values, self._rows = [], 0
