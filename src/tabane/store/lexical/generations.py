"""What is newer than the index: what came between two of its commits, to be searched and then committed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tabane.store.lexical.coding import PreparedTokens
from tabane.store.lexical.memory_segment import MemorySegment, SegmentEntry

if TYPE_CHECKING:
    from tabane.store.collection_state import CollectionChange

COMMITTED_AFTER = 2.0  # seconds
_UNPREPARED = PreparedTokens()


@dataclass(slots=True)
class PendingGeneration:
    """What came between two commits. ``waiting`` is not in the tail yet: the next search puts it there."""

    tail: MemorySegment
    waiting: list[SegmentEntry] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    settled: int = 0  # how many of ``removed`` belong to what is in the tail
    buried: int = 0  # how many of ``removed`` the tails know of
    last: int = 0  # row
    tombstone: int = 0
    began: float = 0.0
    rows: int = 0

    def take(self, change: CollectionChange, ahead: Mapping[int, PreparedTokens]) -> None:
        """A write. ``ahead``: what was analysed before it, by the identity of the texts."""
        if not self.rows and not self.removed:
            self.began = time.monotonic()
        self.waiting.extend(
            SegmentEntry(row, record, *ahead.get(id(record.texts), _UNPREPARED))
            for row, record in change.upserted
        )
        self.removed.extend(change.deleted)
        self.last = change.state.next - 1
        self.tombstone = change.tombstone
        self.rows += len(change.upserted)

    def settle(self) -> None:
        """Let the tail have what waits: what was removed by the same writes counts from now on too."""
        entries, self.waiting = self.waiting, []
        self.tail.add(entries)
        self.settled = len(self.removed)

    def follow(self, other: PendingGeneration) -> None:
        """Take in the one before, which was not committed after all."""
        other.settle()
        self.waiting = [*other.tail.entries.values(), *self.waiting]
        self.removed = [*other.removed, *self.removed]
        self.settled = self.buried = 0
        self.rows += other.rows
        self.last, self.tombstone = max(self.last, other.last), max(self.tombstone, other.tombstone)
        self.began = time.monotonic()

    @property
    def empty(self) -> bool:
        return not self.rows and not self.removed

    @property
    def size(self) -> int:
        return self.rows + len(self.removed)

    @property
    def remaining(self) -> float:
        """Seconds until it is to be committed."""
        return self.began + COMMITTED_AFTER - time.monotonic()


def bury(generations: Sequence[PendingGeneration]) -> set[int]:
    """Take removed rows out of all tails; the answer is every row that the index may still hold.

    As of when they were settled: what was removed since has its successors nowhere yet.
    """
    dead: set[int] = set()
    for generation in generations:
        unknown = generation.removed[generation.buried : generation.settled]
        generation.buried += len(unknown)
        for each in generations:
            each.tail.remove(unknown)
        dead.update(generation.removed[: generation.settled])
    return dead
