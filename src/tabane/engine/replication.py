"""The protocol of a local replica's source: a collection whose truth is elsewhere, and the values it gives.

The truth gives each write a change number, and each new record a row, in the order of commits. A replica that
has all rows, and all logged changes up to a number, contains what the truth contained at that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tabane.search.records import EmbeddingSpace, StoredRecord

MOST_REPLICATED = 2000  # records and keys of a page


@dataclass(frozen=True, slots=True)
class NumberedSpace:
    """A space and its number, which stays the same when the space is renamed."""

    number: int
    space: EmbeddingSpace


@dataclass(frozen=True, slots=True)
class ReplicaPosition:
    """How far a replica is: it has the records up to ``row``, as they were after ``change``.

    ``mark`` names what it holds then, and ``coming`` what it will hold after the next page. A replica with
    another mark is not the one that the truth knows: one of them was emptied or restored.
    """

    change: int
    row: int
    mark: str
    coming: str


@dataclass(frozen=True, slots=True)
class ChangedRecords:
    """The changes up to ``position``: current records, and keys that have none any more.

    ``complete``: the page goes up to the newest change. ``spaces``: those of the moment of reading, to which
    the vectors belong.
    """

    position: ReplicaPosition
    complete: bool
    spaces: tuple[NumberedSpace, ...]
    records: Sequence[StoredRecord] = ()
    gone: Sequence[str] = ()


class ReplicationFeed(Protocol):
    """The changes of one collection. ``name`` is that of the replica. Failures raise StoreError."""

    async def newest(self) -> int:
        """Return the number of the last committed change."""
        ...

    async def join(self, name: str) -> ReplicaPosition:
        """Return how far a replica is. A new one is before the first record. Changes are kept for it."""
        ...

    async def after(self, name: str, position: ReplicaPosition, most: int) -> ChangedRecords | None:
        """Return what changed behind its position; about ``most`` records and keys. None: it is unknown."""
        ...

    async def advance(self, name: str, position: ReplicaPosition) -> bool:
        """Note the position of a page that was applied. Return False if the replica is unknown."""
        ...

    async def leave(self, name: str) -> None:
        """Keep no changes for a replica any more."""
        ...
