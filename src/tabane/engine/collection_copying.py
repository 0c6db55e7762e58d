"""Protocols by which a collection is copied to another place as a whole, such as by a migration.

Records are copied in order of rows, so that equal hits keep their order. The target stores how far it is
in the same commit as the records. So a copy that was killed continues where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tabane.search.records import EmbeddingSpace, StoredRecord

MOST_COPIED = 4000  # records of a batch
_MOST_BYTES = 24_000_000  # of a batch, unless one record is larger


@dataclass(frozen=True, slots=True)
class CollectionContents:
    """Numbers of records and vectors in a collection. ``mark`` changes with each write.

    ``records`` and ``vectors`` are counts, the latter by name of the space.
    """

    mark: str
    records: int = 0
    spaces: tuple[EmbeddingSpace, ...] = ()
    vectors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """How far a copy is: the mark of the source, the last row of the source, and how many records there are.

    ``complete``: all records are there, and the indexes as well.
    """

    mark: str
    row: int = 0
    records: int = 0
    complete: bool = False


IndexedRecords = Callable[[int], None]
"""Is told how many records are in the index by now."""


class CopySource(Protocol):
    """A collection that is read as a whole."""

    async def contents(self) -> CollectionContents:
        """Return the spaces of the collection, and how many records and vectors it has."""
        ...

    async def after(self, row: int, most: int) -> list[StoredRecord]:
        """Return up to ``most`` records behind a row, in order of rows, with their vectors."""
        ...


class CopyTarget(Protocol):
    """A collection that is filled. Nobody else writes to it."""

    async def records(self) -> int:
        """Count the records that are there."""
        ...

    async def progress(self) -> CopyProgress | None:
        """Return how far an unfinished copy is; None if none began."""
        ...

    async def begin(self, contents: CollectionContents) -> None:
        """Create the spaces of the source, and note that a copy began."""
        ...

    async def write(self, records: Sequence[StoredRecord]) -> None:
        """Append records, and note the last row, in one commit. None has a key that is there."""
        ...

    async def finish(self, told: IndexedRecords) -> None:
        """Build the indexes, and note that the copy is complete."""
        ...


def batches(records: Sequence[StoredRecord]) -> Iterator[Sequence[StoredRecord]]:
    """Yield the records in order, in batches whose size is limited in bytes."""
    first = size = 0
    for place, stored in enumerate(records):
        record = stored.record
        weight = len(record.payload) + sum(map(len, record.vectors.values()))
        weight += 4 * sum(map(len, record.texts.values()))
        if place > first and size + weight > _MOST_BYTES:
            yield records[first:place]
            first, size = place, 0
        size += weight
    if first < len(records):
        yield records[first:]
