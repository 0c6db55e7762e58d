"""Keys that are whole numbers, in memory by row: thousands of them are looked up in no time."""

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING

import numpy as np

from tabane.store.columns import Array, GrowableArray
from tabane.store.read_thread import give_way

if TYPE_CHECKING:
    from tabane.store.truth import Truth

_NONE = -1
_AT_ONCE = 4096  # rows between two pauses for others
_LARGEST = 2**63


class NumericKeys:
    """Keys that are whole numbers, by row, in 8 bytes each: to look up thousands of keys takes a tenth of
    a second in a database. A row never has another key, so what was read once holds.
    """

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._numbers = GrowableArray(np.int64)
        self._lock = threading.Lock()
        self._first: int | None = None
        self._other = False

    def behind(self, connection: sqlite3.Connection, following: int) -> int:
        """How many rows :meth:`read_on` would read."""
        with self._lock:
            start = self._start(connection)
        return 0 if self._other else max(0, following - start)

    def _start(self, connection: sqlite3.Connection) -> int:
        if self._first is None:
            self._first = self._truth.state(connection).base
        return self._first + self._numbers.length

    def read_on(self, connection: sqlite3.Connection, following: int) -> None:
        """Read the keys of live rows up to a row. Blocks; pauses for others."""
        while self._read_some(connection, following):
            give_way(connection)

    def _read_some(self, connection: sqlite3.Connection, end: int) -> bool:
        """Read some of them. Return False if there are no more to read."""
        with self._lock:
            start = self._start(connection)
            if self._other or start >= end:
                return False
            following = min(end, start + _AT_ONCE)
            numbers = np.full(following - start, _NONE, dtype=np.int64)
            for row, key in self._truth.keys_between(connection, start, following - 1).items():
                if not _numeric(key):
                    self._other = True
                    return False
                numbers[row - start] = int(key)
            self._numbers.append(numbers)
            return True

    def of(self, rows: Array) -> list[str] | None:
        """The keys of rows; None where some are of another kind, or were not read while they were live."""
        if self._other or self._first is None:
            return None
        places, held = rows - self._first, self._numbers.view()
        if len(places) and not 0 <= int(places.min()) <= int(places.max()) < len(held):
            return None
        numbers = held[places]
        return None if (numbers == _NONE).any() else list(map(str, numbers.tolist()))


def _numeric(key: str) -> bool:
    """Whether the number alone gives the key back."""
    return key.isascii() and key.isdecimal() and (key[0] != "0" or key == "0") and int(key) < _LARGEST
