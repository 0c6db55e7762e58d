"""Checks of the vectors and records that callers pass, and their division into commits of limited size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.engine import LARGEST_EXCHANGE, LARGEST_VECTORS, MOST_EXCHANGED
from tabane.search.records import EmbeddingSpace, Record
from tabane.search.records import checked_vector as checked_slowly

MOST_ROWS = 100  # of a commit, so that others wait for one at most; a job with more rows has its own commit
ALONE = MOST_ROWS + 1  # rows of a job that shares its commit with no other


def checked_vector(vector: bytes, space: EmbeddingSpace) -> bytes:
    """Return the vector, if it has the length of its space and finite numbers, not all 0.

    If the sum of squares is neither 0 nor infinite as float32, all numbers are valid. Otherwise the numbers
    may be very small or very large, and the slower check decides.
    """
    if len(vector) == 4 * space.dimension:
        numbers = np.frombuffer(vector, dtype="<f4")
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.dot(numbers, numbers)
        if 0 < squares < np.inf:
            return bytes(vector)
    return checked_slowly(vector, space)


MOST_BYTES = 1_000_000  # of a commit that others share


def cut(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Yield the records in order, in parts of at most 100 rows and 1 MB. A larger record is its own part."""
    part: list[Record] = []
    size = 0
    for record in records:
        weight = len(record.payload) + sum(map(len, record.texts.values())) + _vectors(record)
        if part and (len(part) == MOST_ROWS or size + weight > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(record)
        size += weight
    if part:
        yield part


def check_count(records: Sequence[Record], gone: Sequence[str]) -> None:
    """Raise :class:`BadArguments` if an exchange has too many records and keys."""
    if len(records) + len(gone) > MOST_EXCHANGED:
        message = say("an exchange has at most {most} {most:record|records} and keys", most=MOST_EXCHANGED)
        raise BadArguments(message, "records")


def rows_of_exchange(records: Sequence[Record], gone: Sequence[str]) -> int:
    """Check an exchange, and return its rows for the writer. A large exchange gets its own commit.

    Raises :class:`BadArguments` if it is too large, or if it both writes and deletes a key.
    """
    twice = {record.key for record in records}.intersection(gone)
    if twice:
        raise BadArguments(say("{key} is given both to be saved and to be removed", key=min(twice)), "gone")
    size, vectors = sum(map(_size, records)), sum(map(_vectors, records))
    if size > LARGEST_EXCHANGE or vectors > LARGEST_VECTORS:
        most = LARGEST_VECTORS if vectors > LARGEST_VECTORS else LARGEST_EXCHANGE
        found = vectors if vectors > LARGEST_VECTORS else size
        message = say(
            "an exchange of {size} {size:byte|bytes} is too large: at most {most}", size=found, most=most
        )
        raise BadArguments(message, "records")
    rows = len(records) + len(gone)
    return rows if size + vectors <= MOST_BYTES else max(rows, ALONE)


def _size(record: Record) -> int:
    return len(record.payload) + len(msgspec.json.encode((record.texts, record.fields)))


def _vectors(record: Record) -> int:
    return sum(map(len, record.vectors.values()))
