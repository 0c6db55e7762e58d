"""Values of scripts as JSON, within a budget; pure. Runs in the process of the script.

What a script returns may share its parts: sixty dicts, each with the one before twice, are 2**60 values when
they are written. So each value is paid for before anything is built of it.
"""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from tabane.wire import json

MOST_DEPTH = 64

_LONGEST_NUMBER = 13_000
"""Bits of a number that is written as a text: Python refuses to write a longer one."""


class NoJson(Exception):
    """A value that is no JSON. The text says why, as the end of a sentence that begins with what it is."""


class TooLarge(NoJson):
    """A value beyond the budget."""


class JsonBudget:
    """Bytes and values that the JSON of one value may have."""

    def __init__(self, size: int, values: int = 1 << 40) -> None:
        self.size, self.values = size, values
        self._left, self._values = size, values

    def pay(self, size: int = 1) -> None:
        """Pay for one value that is written in ``size`` bytes at least. Raises TooLarge."""
        self._left -= size + 1
        self._values -= 1
        if self._left < -1:
            raise TooLarge(f"more than {self.size >> 10} KiB")
        if self._values < 0:
            raise TooLarge(f"more than {self.values:,} values")


def bounded_json(value: Any, budget: JsonBudget, *, strict: bool = False) -> bytes:
    """Return a value of a script as JSON. Raises NoJson.

    Sets and tuples become lists, bytes base64, times ISO 8601. What has attributes becomes an object,
    anything else its text; if ``strict``, these raise NoJson, and so do numbers of more than 64 bits.
    """
    written = json.encode(_JsonValues(budget, strict).read(value, 0))
    if len(written) > budget.size:
        raise TooLarge(f"more than {budget.size >> 10} KiB")
    return written


class _JsonValues:
    """Converts one value, and everything inside it."""

    def __init__(self, budget: JsonBudget, strict: bool) -> None:
        self._budget, self._strict = budget, strict

    def read(self, value: Any, depth: int) -> Any:
        if depth > MOST_DEPTH:
            raise NoJson(f"nested more than {MOST_DEPTH} levels deep")
        self._budget.pay(len(value) if isinstance(value, str | bytes) else 1)
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int):
            return self._number(value)
        if isinstance(value, float):
            return value if math.isfinite(value) or self._strict else str(value)
        if isinstance(value, Mapping):
            return {self._key(key, depth): self.read(member, depth + 1) for key, member in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.read(member, depth + 1) for member in value]
        return self._other(value, depth)

    def _number(self, value: int) -> int | str:
        if -(1 << 63) <= value < 1 << (64 if self._strict else 63):
            return value
        if self._strict:
            raise NoJson("no JSON (a whole number has more than 64 bits)")
        return self._digits(value)

    def _digits(self, value: int) -> str:
        if value.bit_length() > _LONGEST_NUMBER:
            raise NoJson("a number with more than 3,900 digits")
        self._budget.pay(value.bit_length() // 4)
        return str(value)

    def _key(self, key: Any, depth: int) -> str:
        if isinstance(key, str):
            self._budget.pay(len(key))
            return key
        if isinstance(key, int) and not isinstance(key, bool):
            return self._digits(key)
        self.read(key, depth + 1)  # pays for what is written below
        return str(key)

    def _other(self, value: Any, depth: int) -> Any:
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, datetime.date | datetime.time):
            return value.isoformat()
        if isinstance(value, Decimal | datetime.timedelta):
            return str(value)
        if self._strict:
            raise NoJson(f"no JSON (a value of type {type(value).__name__})")
        attributes = getattr(value, "attributes", None)  # an instance of a class of the script
        if isinstance(attributes, dict):
            return self.read(attributes, depth + 1)
        parts = getattr(value, "args", None)
        if isinstance(parts, Iterable):  # an exception, whose text shows all of them
            for part in parts:
                self.read(part, depth + 1)
        return str(value)
