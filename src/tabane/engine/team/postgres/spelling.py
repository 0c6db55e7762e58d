"""Texts as PostgreSQL stores them, and the marks by which records are found in one index; pure.

Its strings cannot contain the null character. So that and U+0001 are written as two characters, and the order
of strings and their prefixes remain the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np

from tabane.engine.unit_vectors import Array
from tabane.search.analysis import substring_spelling

_NULL_INSIDE = "\U0002fffe"  # no character: it stands for the null character where order does not matter
_LONGEST_TOKEN = 200  # characters: longer ones would not fit into an index
MOST_MARKS = 64  # of a needle
_FIRST, _SECOND = np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B)  # odd: each pair is mixed into all bits


def stored(text: str) -> str:
    """Return a string as it is stored."""
    if "\0" not in text and "\1" not in text:
        return text
    return text.replace("\1", "\1\2").replace("\0", "\1\1")


def given(text: str) -> str:
    """Return the string that was stored as this one."""
    return text if "\1" not in text else text.replace("\1\1", "\0").replace("\1\2", "\1")


def spelt(text: str) -> str:
    """Return a text in the case and width in which substrings are compared."""
    return substring_spelling(text).replace("\0", _NULL_INSIDE)


def token_key(space: str, token: str) -> str:
    """Return the name of a token of a space in the lexical index."""
    return f"{space} {token[:_LONGEST_TOKEN]}".replace("\0", _NULL_INSIDE)


def pair_marks(spelling: str) -> set[int]:
    """Return the marks of a spelt text: one for each pair of neighboring characters."""
    codes: Array = np.frombuffer(spelling.encode("utf-32-le"), dtype="<u4")
    mixed: Array = codes[:-1] * _FIRST + codes[1:] * _SECOND  # modulo 2**32
    mixed ^= mixed >> np.uint32(15)
    marks: list[int] = (mixed * _FIRST).view("<i4").tolist()
    return set(marks)


def value_mark(field: str, value: str) -> int:
    """Return the mark of a string in a field."""
    return _signed(zlib.crc32(f"{field}\0{value}".encode()))


def value_marks(field: str, values: Iterable[str]) -> set[int]:
    return {value_mark(field, value) for value in values}


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number
