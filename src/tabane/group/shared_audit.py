"""The index of the audit logs of all hubs of a group: its values, and the protocol of what keeps it.

Each hub keeps its own log, which is the truth. The index has a copy of its entries, without their codes, and
a mark for each hub: how far its log is in the index. Both are changed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

LARGEST_ENTRY = 64 << 10
"""Bytes of an entry in the index. Larger arguments are left out."""

FORGOTTEN_AFTER = 100
"""Days without a new entry after which a hub's entries leave the index. It gives them again if it returns."""

MOST_COUNTED = 100_000
"""Entries up to which the number of matches is exact."""


class LogMark(NamedTuple):
    """A place in the log of a hub: a file, by the seq of its first entry and a hash, and bytes in it.

    ``oldest`` is the seq with which the log begins.
    """

    first: int
    identity: bytes
    end: int
    oldest: int


class IndexedEntry(NamedTuple):
    """An entry. ``time`` is in milliseconds since 1970, ``line`` the entry as JSON without its code."""

    seq: int
    time: int
    type: str
    key: str
    label: str
    client: str
    face: str
    server: str
    name: str
    outcome: str
    line: str


@dataclass(frozen=True, slots=True)
class LogPart:
    """The entries after a mark in the log of a hub, and the mark behind them.

    ``begins``: the log is another one than before, so that all entries of the hub have to go. ``more``: there
    are further entries.
    """

    entries: Sequence[IndexedEntry]
    mark: LogMark
    begins: bool
    more: bool


@dataclass(frozen=True, slots=True)
class EntryConditions:
    """Conditions on entries, as the index of one hub takes them. ``needles``: one of them is in the entry.

    ``hub`` is a pattern of the addresses of hubs, and ``seq`` the number of one entry of each hub.
    """

    start: int | None = None
    end: int | None = None
    type: str = ""
    outcomes: tuple[str, ...] = ()
    key: str = ""
    actor: str = ""
    client: str = ""
    server: str = ""
    tool: str = ""
    action: str = ""
    hub: str = ""
    seq: int | None = None
    needles: tuple[bytes, ...] = ()


class FoundLine(NamedTuple):
    """An entry that was found. ``number`` is its place in the index, ``hub`` the address of its hub."""

    number: int
    hub: str
    line: str


class EntryGroups(NamedTuple):
    """Counts of entries by type, outcome, server, name, key, client, face and hub, and their times."""

    counts: list[tuple[tuple[str, ...], int]]
    earliest: int | None
    latest: int | None


class SharedAudit(Protocol):
    """Keeps the index. Raises StoreError if it cannot be reached."""

    async def mark(self, hub: str) -> LogMark | None:
        """Return how far the log of a hub is in the index; None if nothing of it is."""
        ...

    async def add(self, hub: str, address: str, part: LogPart) -> None:
        """Add entries of a hub, forget those that its log has no more, and move its mark."""
        ...

    async def find(self, wanted: EntryConditions, before: int, offset: int, limit: int) -> list[FoundLine]:
        """Return matching entries, newest first: those older than the entry ``before``, if it is not 0."""
        ...

    async def count(self, wanted: EntryConditions) -> int:
        """Return how many entries match, at most one more than :data:`MOST_COUNTED`."""
        ...

    async def groups(self, wanted: EntryConditions) -> EntryGroups:
        """Return the counts of matching entries."""
        ...
