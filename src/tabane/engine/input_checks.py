"""Checks of the vectors and records that callers pass, and their division into commits of limited size."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.engine import LARGEST_EXCHANGE, LARGEST_VECTORS, MOST_EXCHANGED
from tabane.search.records import EmbeddingSpace, Record, Shape, checked, checked_key
from tabane.search.records import checked_vector as checked_slowly

T = TypeVar("T")

MOST_ROWS = 100  # of a commit, so that others wait for one at most; a job with more rows has its own commit
ALONE = MOST_ROWS + 1  # rows of a job that shares its commit with no other
_CHECKED_AT_ONCE = 50  # in less than a millisecond


async def checked_records(records: Sequence[Record], shape: Shape, models: Mapping[str, str]) -> list[Record]:
    """Check records, in a thread if they are many, and in slices with pauses for others.

    Vectors of other ``models`` than the spaces of the shape have are left out, whatever their length.
    """
    there = {space.name: space.model for space in shape.spaces}
    passed = {name for name, model in models.items() if there.get(name) != model}

    def slice_from(first: int) -> list[Record]:
        part = [_without(record, passed) for record in records[first : first + _CHECKED_AT_ONCE]]
        valid = {space.name for space in shape.spaces if _all_valid(part, space)}

        def fit(vector: bytes, space: EmbeddingSpace) -> bytes:
            return vector if space.name in valid else checked_vector(vector, space)

        return [checked(record, shape, fit) for record in part]

    def slices() -> list[Record]:
        ready: list[Record] = []
        for first in range(0, len(records), _CHECKED_AT_ONCE):
            ready += slice_from(first)
            time.sleep(0)  # a thread that waits for the interpreter gets it now, not 5 ms later
        return ready

    return slice_from(0) if len(records) <= _CHECKED_AT_ONCE else await asyncio.to_thread(slices)


async def checked_exchange(records: Sequence[Record], gone: Sequence[str]) -> tuple[list[str], int]:
    """Check an exchange of checked records. Return the keys to delete, and the rows for the writer."""
    return await _quickly(len(records) + len(gone), lambda: _sized(records, gone))


async def _quickly(records: int, work: Callable[[], T]) -> T:
    """Run work on so many records. It runs in a thread if it is too long for the event loop."""
    return work() if records <= _CHECKED_AT_ONCE else await asyncio.to_thread(work)


def _without(record: Record, spaces: set[str]) -> Record:
    """Return the record without its vectors in these spaces."""
    kept = {name: vector for name, vector in record.vectors.items() if name not in spaces}
    return record if len(kept) == len(record.vectors) else msgspec.structs.replace(record, vectors=kept)


def _sized(records: Sequence[Record], gone: Sequence[str]) -> tuple[list[str], int]:
    keys = [checked_key(key) for key in gone]
    return keys, rows_of_exchange(records, keys)


def _all_valid(records: Sequence[Record], space: EmbeddingSpace) -> bool:
    """Return whether all vectors of a space pass the quick check of :func:`checked_vector`."""
    vectors = [record.vectors[space.name] for record in records if space.name in record.vectors]
    if not vectors or any(type(each) is not bytes or len(each) != 4 * space.dimension for each in vectors):
        return False
    import numpy as np  # a store without vectors does without it

    numbers = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), space.dimension)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", numbers, numbers)
    return bool(((squares > 0) & (squares < np.inf)).all())


def checked_vector(vector: bytes, space: EmbeddingSpace) -> bytes:
    """Return the vector, if it has the length of its space and finite numbers, not all 0.

    If the sum of squares is neither 0 nor infinite as float32, all numbers are valid. Otherwise the numbers
    may be very small or very large, and the slower check decides.
    """
    if len(vector) == 4 * space.dimension:
        import numpy as np  # a store without vectors does without it

        numbers = np.frombuffer(vector, dtype="<f4")
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.dot(numbers, numbers)
        if 0 < squares < np.inf:
            return bytes(vector)
    return checked_slowly(vector, space)


def checked_attachment(
    vectors: Mapping[int, Mapping[str, bytes]], shape: Shape, model: str
) -> dict[int, dict[str, bytes]]:
    """Return vectors for rows, without those of spaces that have another model than this one, if known."""
    taken = {space.name for space in shape.spaces if space.model == model}
    return {
        row: {
            name: checked_vector(vector, shape.space(name))
            for name, vector in of_row.items()
            if not model or name in taken
        }
        for row, of_row in vectors.items()
    }


MOST_BYTES = 1_000_000  # of a commit that others share


MOST_OF_LONG = 1000  # records that are written in turns with others, before there must be room again
MOST_BYTES_OF_LONG = 16_000_000


def is_long(records: Sequence[Record]) -> bool:
    """Return whether records are too many, or too large, for a commit that others share."""
    return len(records) > MOST_ROWS or sum(map(_weight, records)) > MOST_BYTES


def cut(
    records: Sequence[Record], rows: int = MOST_ROWS, size_of_part: int = MOST_BYTES
) -> Iterator[list[Record]]:
    """Yield the records in order, in parts of at most so many rows and bytes: by default 100 and 1 MB.

    A larger record is its own part.
    """
    part: list[Record] = []
    size = 0
    for record in records:
        weight = _weight(record)
        if part and (len(part) == rows or size + weight > size_of_part):
            yield part
            part, size = [], 0
        part.append(record)
        size += weight
    if part:
        yield part


def _weight(record: Record) -> int:
    return len(record.payload) + sum(map(len, record.texts.values())) + _vectors(record)


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
