"""Texts, rows and vectors in the formats of PostgreSQL, COPY and pgvector.

Rows in the binary format of COPY, and vectors in that of pgvector. Source:
https://www.postgresql.org/docs/current/sql-copy.html ("Binary Format"). It is several times as fast as
text for vectors and arrays, and exact for floats.

Texts as PostgreSQL stores them, and the marks by which records are found in one index. Its strings cannot
contain the null character. So that and U+0001 are written as two characters, and the order of strings and
their prefixes remain the same.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import psycopg
from psycopg import sql

from tabane.engine.vector_request import Array
from tabane.search.analysis import substring_spelling

_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_END = struct.pack(">h", -1)
_BLOCK = 100_000  # bytes
_NULL = struct.pack(">i", -1)
_COUNT = struct.Struct(">h")
_LENGTH = struct.Struct(">i")
_INT4 = np.dtype([("length", ">i4"), ("value", ">i4")])
_OID_OF_INT4, _OID_OF_TEXT = 23, 25

Cell = bytes | None


def encoded(rows: Iterable[Sequence[Cell]]) -> Iterator[bytes]:
    """Yield rows of encoded cells as one stream, in blocks: the server reads one while the next is made."""
    parts, size = [_HEADER], 0
    for row in rows:
        parts.append(_COUNT.pack(len(row)))
        for cell in row:
            if cell is None:
                parts.append(_NULL)
            else:
                parts += (_LENGTH.pack(len(cell)), cell)
                size += len(cell)
        if size >= _BLOCK:
            yield b"".join(parts)
            parts, size = [], 0
    parts.append(_END)
    yield b"".join(parts)


def copy_rows(
    connection: psycopg.Connection,
    table: sql.Identifier,
    columns: sql.Composable,
    rows: Iterable[Sequence[Cell]],
) -> None:
    """Insert rows of encoded cells by COPY, in its binary format."""
    command = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(table, columns)
    with connection.cursor().copy(command) as copy:
        for block in encoded(rows):
            copy.write(block)


def int8(value: int) -> bytes:
    """Return an integer of 64 bits."""
    return struct.pack(">q", value)


def float8(value: float) -> bytes:
    """Return a float of 64 bits."""
    return struct.pack(">d", value)


def boolean(value: bool) -> bytes:
    """Return a boolean."""
    return b"\x01" if value else b"\x00"


def int4s(values: Sequence[int]) -> bytes:
    """Return an array of int4."""
    if not values:
        return struct.pack(">iii", 0, 0, _OID_OF_INT4)
    elements = np.empty(len(values), dtype=_INT4)
    elements["length"] = 4
    elements["value"] = values
    return struct.pack(">iiiii", 1, 0, _OID_OF_INT4, len(values), 1) + elements.tobytes()


def texts(values: Sequence[str]) -> bytes:
    """Return an array of text that is not empty."""
    encoded = [value.encode() for value in values]
    head = struct.pack(">iiiii", 1, 0, _OID_OF_TEXT, len(values), 1)
    return head + b"".join(_LENGTH.pack(len(each)) + each for each in encoded)


def vector(given: bytes) -> bytes:
    """Return a vector of pgvector from float32, little-endian."""
    numbers = np.frombuffer(given, dtype="<f4")
    return struct.pack(">hh", len(numbers), 0) + numbers.astype(">f4").tobytes()


def numbers_of(vector: bytes) -> bytes:
    """Return float32, little-endian, from a vector of pgvector."""
    return np.frombuffer(vector, dtype=">f4", offset=4).astype("<f4").tobytes()


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


def spelled(text: str) -> str:
    """Return a text in the case and width in which substrings are compared."""
    return substring_spelling(text).replace("\0", _NULL_INSIDE)


def token_key(space: str, token: str) -> str:
    """Return the name of a token of a space in the lexical index."""
    return f"{space} {token[:_LONGEST_TOKEN]}".replace("\0", _NULL_INSIDE)


def pair_marks(spelling: str) -> set[int]:
    """Return the marks of a spelled text: one for each pair of neighboring characters."""
    codes: Array = np.frombuffer(spelling.encode("utf-32-le"), dtype="<u4")
    mixed: Array = codes[:-1] * _FIRST + codes[1:] * _SECOND  # modulo 2**32
    mixed ^= mixed >> np.uint32(15)
    marks: list[int] = (mixed * _FIRST).view("<i4").tolist()
    return set(marks)


def value_mark(field: str, value: str) -> int:
    """Return the mark of a string in a field."""
    return signed_number(zlib.crc32(f"{field}\0{value}".encode()))


def value_marks(field: str, values: Iterable[str]) -> set[int]:
    """Return the marks of strings in a field."""
    return {value_mark(field, value) for value in values}


def signed_number(number: int) -> int:
    """Return 32 bits without a sign as the integer of PostgreSQL."""
    return number - (1 << 32) if number >= 1 << 31 else number
