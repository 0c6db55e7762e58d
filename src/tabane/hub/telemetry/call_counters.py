"""Counters of calls for Prometheus: by tool, server and key, with a limited number of series."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

from tabane.operations.access import CallTarget
from tabane.operations.metering import FailureKind, FailureReason, Outcome

OTHER = "other"
"""The label of everything beyond a limit."""

OWN = "(hub)"
"""The label of the hub itself as a server, since a server may be called tabane."""

RESOURCES = "resources/read"
"""The tool that reads of resources count as: their number is not limited."""

METHODS = "(methods)"
"""The tool that methods count as that the hub does not know: clients choose their names."""

_UNNAMED = {"resource": RESOURCES, "method": METHODS}

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets of durations, in seconds."""

MOST_TOOLS = 2000
MOST_SERVERS = 200
MOST_KEYS = 1000
MOST_REASONS = 32
MOST_CHARACTERS = 200
"""Characters of a label; the rest is cut."""

_OUTCOMES: dict[Outcome, int] = {"ok": 0, "failed": 0, "refused": 0, "limited": 0, "cancelled": 0}


ENDS = (
    *("ok", "tool_error", "protocol_error", "timeout", "unavailable", "failed"),
    *("refused", "limited", "cancelled"),
)
"""Ways in which a call of a server ends."""


class ServerCounts:
    """Ends, durations and results of a server's calls. ``buckets`` has a count for each bound, and one."""

    __slots__ = ("buckets", "bytes", "ends", "saved", "seconds")

    def __init__(self) -> None:
        self.ends = dict.fromkeys(ENDS, 0)
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.bytes = self.saved = 0


def _kind(reason: str) -> FailureKind:
    """Return the kind of a failure. A tool that says itself that it failed gives no reason."""
    if isinstance(reason, FailureReason):
        return reason.kind
    return "failed" if reason else "tool_error"


class ToolCounts:
    """The calls of one tool by outcome, and the counts of its server."""

    __slots__ = ("outcomes", "server")

    def __init__(self, server: ServerCounts) -> None:
        self.outcomes = dict(_OUTCOMES)
        self.server = server


class CallCounts(NamedTuple):
    """The counters at one moment. Zeros are left out.

    ``calls`` are (server, tool, outcome, count), ``keys`` are (key, outcome, count).
    """

    calls: list[tuple[str, str, Outcome, int]]
    servers: dict[str, ServerCounts]
    keys: list[tuple[str, Outcome, int]]
    limited: int
    auth_failures: list[tuple[str, int]]


class AuditCounts(NamedTuple):
    """Entries of the audit log, written and dropped, and seconds that the oldest waits for the disk."""

    entries: int
    dropped: int
    lag: float


class CallCounters:
    """Counts every call of the hub. Belongs to the event loop."""

    __slots__ = ("_auth_failures", "_keys", "_servers", "_tools")

    def __init__(self) -> None:
        self._tools: dict[tuple[str, str], ToolCounts] = {}
        self._servers: dict[str, ServerCounts] = {}
        self._keys: dict[str, dict[Outcome, int]] = {}
        self._auth_failures: Counter[str] = Counter()

    def count(
        self,
        target: CallTarget,
        holder: str,
        outcome: Outcome,
        seconds: float,
        size: int,
        saved: int,
        reason: str = "",
    ) -> None:
        """Count a call that ended. ``size`` are the bytes of its result, ``saved`` the tokens that it saved.

        A call that was refused or limited was not made, so it has no duration.
        """
        name = _UNNAMED.get(target.kind, target.name)
        tool = self._tools.get((target.server, name))
        if tool is None:
            tool = self._add_tool(target.server, name)
        tool.outcomes[outcome] += 1
        try:
            self._keys[holder][outcome] += 1
        except KeyError:
            self._add_key(holder)[outcome] += 1
        server = tool.server
        server.ends[outcome if outcome != "failed" else _kind(reason)] += 1
        if outcome == "refused" or outcome == "limited":
            return
        server.buckets[bisect_left(BOUNDS, seconds)] += 1
        server.seconds += seconds
        server.bytes += size
        if saved:
            server.saved += saved

    def count_auth_failure(self, reason: str) -> None:
        """Count a refused key or token. ``reason`` is one word, such as ``expired``."""
        reason = reason[:MOST_CHARACTERS]
        known = reason in self._auth_failures or len(self._auth_failures) < MOST_REASONS
        self._auth_failures[reason if known else OTHER] += 1

    def frozen(self) -> CallCounters:
        """Return counters with the series of this moment, which another thread may read.

        Their numbers are shared and go on: a number is never torn.
        """
        found = CallCounters()
        found._tools, found._servers = self._tools.copy(), self._servers.copy()
        found._keys, found._auth_failures = self._keys.copy(), self._auth_failures.copy()
        return found

    def read(self) -> CallCounts:
        """Return what was counted until now."""
        calls = [
            (server or OWN, tool, outcome, count)
            for (server, tool), found in self._tools.items()
            for outcome, count in found.outcomes.items()
            if count
        ]
        keys = [
            (key, outcome, count)
            for key, outcomes in self._keys.items()
            for outcome, count in outcomes.items()
            if count
        ]
        limited = sum(count for _, outcome, count in keys if outcome == "limited")
        servers = {server or OWN: counts for server, counts in self._servers.items()}
        return CallCounts(calls, servers, keys, limited, sorted(self._auth_failures.items()))

    def _add_tool(self, server: str, name: str) -> ToolCounts:
        """Return the counts of a tool that is new, or those that it shares beyond the limits."""
        if server == OWN or (len(self._servers) >= MOST_SERVERS and server not in self._servers):
            server = OTHER
        key = (server[:MOST_CHARACTERS], name[:MOST_CHARACTERS])
        if len(self._tools) >= MOST_TOOLS:
            key = (key[0], OTHER)
        counts = self._servers.setdefault(key[0], ServerCounts())
        return self._tools.setdefault(key, ToolCounts(counts))

    def _add_key(self, holder: str) -> dict[Outcome, int]:
        name = holder[:MOST_CHARACTERS] if len(self._keys) < MOST_KEYS else OTHER
        return self._keys.setdefault(name, dict(_OUTCOMES))
