"""Records that the hubs of a group share: audit entries, use of tools, usage and jobs.

Each hub keeps its own log, which is the truth. The index has a copy of its entries, without their codes,
and a mark for each hub: how far its log is in the index. Both are changed together.

The use of tools and the usage by day that the hubs of a group add up: values, and protocols. Each hub
keeps its own amounts, which only grow, under its mark. The sum over all marks is the amount of the group.
So an amount may be kept any number of times, and none is lost or counted twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


ToolWeight = tuple[str, str, float]
"""(holder, public name of the tool, weight)"""

MOST_WEIGHTS = 5_000
"""Pairs of holder and tool that are kept for a hub, and that a hub reads of all others."""


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The amounts of a hub, a day, a caller, a client, a server and a tool.

    ``label`` is the name that a person gave the caller. ``amounts`` are in the order of their columns;
    ``buckets`` count latencies.
    """

    day: str
    key: str
    label: str
    client: str
    server: str
    tool: str
    amounts: tuple[float, ...]
    buckets: tuple[tuple[int, int], ...]


class UsageSums(NamedTuple):
    """The sums of one group. ``server`` is one of its ``servers``; ``label`` is of the caller ``name``."""

    name: str
    label: str
    server: str
    servers: int
    amounts: tuple[float, ...]
    buckets: list[tuple[int, int]]


class UsagePage(NamedTuple):
    """Some groups, how many there are, and the sums of all of them."""

    groups: list[UsageSums]
    total: int
    amounts: tuple[float, ...]
    buckets: list[tuple[int, int]]


LARGEST_STATE = 64 << 10
"""Bytes of a job's state in all languages. The result of a job is left out if it would be larger."""

MOST_ENDED = 100
"""Jobs that are over and stay known in the group; the oldest go first."""

JOBS_FORGOTTEN_AFTER = 86_400
"""Seconds for which a job is known after its hub told of it for the last time."""


@dataclass(frozen=True, slots=True)
class SharedJob:
    """A job as its hub told of it.

    ``hub`` is the id of the hub, ``address`` where it is reached. ``state`` is JSON: the state of the job in
    each language. ``alive`` is whether the hub is there, and ``told`` the time of the last state in seconds
    since 1970; what keeps the job sets both.
    """

    hub: str
    address: str
    key: str
    running: bool
    state: bytes
    alive: bool = True
    told: float = 0.0
