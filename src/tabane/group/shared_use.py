"""The use of tools and the usage by day that the hubs of a group add up: values, and protocols.

Each hub keeps its own amounts, which only grow, under its mark. The sum over all marks is the amount of the
group. So an amount may be kept any number of times, and none is lost or counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

ToolWeight = tuple[str, str, float]
"""(holder, public name of the tool, weight)"""

MOST_WEIGHTS = 5_000
"""Pairs of holder and tool that are kept for a hub, and that a hub reads of all others."""

UsageGrouping = Literal["tool", "server", "key", "client", "day"]


class SharedToolUse(Protocol):
    """Keeps how much the callers of each hub used each tool. Raises StoreError if it cannot be reached."""

    async def mine(self, mark: str) -> list[ToolWeight]:
        """Return what is kept of a hub."""
        ...

    async def exchange(self, mark: str, weights: Sequence[ToolWeight], least: float) -> list[ToolWeight]:
        """Keep weights of a hub, never smaller ones than before. Return the sums of all other hubs.

        Forget weights of any hub that are smaller than ``least``.
        """
        ...


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


@dataclass(frozen=True, slots=True)
class UsageConditions:
    """Days from ``first`` to ``last``, both included. The rest are patterns in which ``*`` is special.

    ``key`` also matches labels. ``holder`` is exactly one caller; None: all.
    """

    first: str
    last: str
    server: str = ""
    tool: str = ""
    key: str = ""
    client: str = ""
    holder: str | None = None


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


class SharedUsage(Protocol):
    """Keeps the usage of all hubs by day. Raises StoreError if it cannot be reached."""

    async def days(self, mark: str) -> Mapping[str, int]:
        """Return how many calls of a hub are kept for each day."""
        ...

    async def keep(self, mark: str, rows: Sequence[UsageRow]) -> None:
        """Keep rows of a hub, if they have more calls than before."""
        ...

    async def forget_before(self, day: str) -> None:
        """Forget the earlier days of all hubs, also of those that are gone."""
        ...

    async def page(self, wanted: UsageConditions, by: UsageGrouping, offset: int, limit: int) -> UsagePage:
        """Return groups of the usage of all hubs: days from the latest one, others by their calls."""
        ...

    async def used_tools(self, wanted: UsageConditions) -> list[tuple[str, str, int]]:
        """Return each tool and server that was called at any hub, and the number of calls."""
        ...
