"""Queries on the audit log and on usage: analysis of usage, and answers for callers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from datetime import tzinfo
from typing import Any, NamedTuple, Protocol

import msgspec

from tabane.audit.index_requests import EntryCounts, EntryQuery, IndexTask, UsageQuery
from tabane.audit.lookups import Lookups
from tabane.audit.table import (
    AnalyzeUsage,
    GetAuditStats,
    GetUsageStats,
    QueryAuditLogs,
    check_order,
    day_of,
    filter_of,
    moment_of,
    time_in,
)
from tabane.errors import BadArguments
from tabane.messages import say
from tabane.operations import Caller, CallTarget
from tabane.text.time_zones import zone_of
from tabane.wire.cursors import CursorCodec, ForeignCursor

LEAST_CALLS = 5
"""Calls of a tool before its latency or its failures say something."""

BYTES_OF_A_TOKEN = 4
"""Bytes of a result that are about one token."""


class OfferedTool(NamedTuple):
    """A tool of a server. ``tokens`` is what its definition costs in a conversation that loads it."""

    name: str
    server: str
    tokens: int


Groups = Iterable[Mapping[str, Any]]


def analyzed(
    offered: list[OfferedTool], used: Set[str], tools: Groups, clients: Groups, most: int
) -> dict[str, Any]:
    """Return the analysis.

    ``used`` are the names of tools that were called, ``tools`` and ``clients`` the usage by each. ``most`` is
    the limit of each list.
    """
    unused = sorted((tool for tool in offered if tool.name not in used), key=lambda t: (-t.tokens, t.name))
    return {
        "offered": {"tools": len(offered), "tokens": sum(tool.tokens for tool in offered)},
        "unused": {"tools": len(unused), "tokens": sum(tool.tokens for tool in unused)},
        "unused_servers": _unused_servers(offered, used)[:most],
        "unused_tools": [tool._asdict() for tool in unused[:most]],
        **_slowest_and_failing([tool for tool in tools if tool["calls"] >= LEAST_CALLS], most),
        "clients": [
            {
                "client": group["client"],
                "calls": group["calls"],
                "tokens": group["bytes"] // BYTES_OF_A_TOKEN,
                "saved": group["saved"],
            }
            for group in clients
        ][:most],
    }


def _unused_servers(offered: list[OfferedTool], used: Set[str]) -> list[dict[str, Any]]:
    """Return the servers of which no tool was called, the most expensive first."""
    servers: dict[str, list[OfferedTool]] = {}
    for tool in offered:
        servers.setdefault(tool.server, []).append(tool)
    rows = [
        {"server": server, "tools": len(tools), "tokens": sum(tool.tokens for tool in tools)}
        for server, tools in servers.items()
        if not any(tool.name in used for tool in tools)
    ]
    return sorted(rows, key=lambda row: (-int(row["tokens"]), row["server"]))


def _slowest_and_failing(tools: list[Mapping[str, Any]], most: int) -> dict[str, Any]:
    timed = [tool for tool in tools if tool["p95_ms"] is not None]
    slowest = sorted(timed, key=lambda tool: (-tool["p95_ms"], tool["tool"]))[:most]
    failing = sorted(
        (tool for tool in tools if tool["errors"]),
        key=lambda tool: (-tool["errors"] / tool["calls"], -tool["errors"], tool["tool"]),
    )[:most]
    return {
        "slowest": [{name: tool[name] for name in ("tool", "calls", "p50_ms", "p95_ms")} for tool in slowest],
        "failing": [
            {name: tool[name] for name in ("tool", "calls", "errors")}
            | {"share": round(tool["errors"] / tool["calls"], 4)}
            for tool in failing
        ],
    }


_USUAL_DAYS = 30
_MOST_TOOLS = 1_000


class AsksIndex(Protocol):
    """The index of this hub in its process, or those of a group of hubs."""

    async def ask(self, task: IndexTask) -> Any:
        """Return the answer to a task."""
        ...


class EntryPlace(NamedTuple):
    """The place of a page of entries: the seq that it begins before."""

    before: int


class UsagePlace(NamedTuple):
    """The place of a page of groups: how many were shown."""

    shown: int


_entries = CursorCodec("audit", EntryPlace)
_groups = CursorCodec("usage", UsagePlace)


class AuditQueries:
    """Answers the operations.

    ``zone`` returns the name of the time zone of dates. ``offered`` returns the tools of all servers.
    ``people`` returns the names of people by the names of holders, as they are now.
    """

    def __init__(
        self,
        index: AsksIndex,
        zone: Callable[[], str],
        offered: Callable[[], Iterable[OfferedTool]],
        people: Callable[[Iterable[str]], Awaitable[Mapping[str, str]]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._index, self._zone_name = index, zone
        self._offered, self._people, self._now = offered, people, now

    @property
    def _zone(self) -> tzinfo:
        return zone_of(self._zone_name())

    async def query_audit_logs(self, caller: Caller, params: QueryAuditLogs) -> dict[str, Any]:
        """Return matching entries, newest first. ``total`` is null on later pages of a search for a text.

        ``exact`` is False if more entries may match than ``total``: a search for a text is counted only in
        the newest entries.
        """
        without: Lookups = "" if params.lookups or params.seq is not None else "without"
        wanted = filter_of(params, self._zone, self._now(), without)
        try:
            before = _entries.decode(params.cursor).before if params.cursor else 0
        except ForeignCursor:
            raise _foreign_cursor() from None
        query = EntryQuery(
            wanted,
            before=before,
            offset=0 if params.cursor else params.offset,
            limit=params.limit,
        )
        if params.seq is not None:
            found = await self._index.ask(msgspec.structs.replace(query, seq=params.seq, before=0, offset=0))
            found = _with_problem(found, caller)
            del found["before"]
            await self._name_people(found["results"])
            return found | {"next_cursor": None}
        found = _with_problem(await self._index.ask(query), caller)
        if without and not params.text and not params.cursor:
            only = msgspec.structs.replace(wanted, lookups="only")
            found["hidden"] = (await self._index.ask(EntryQuery(only, limit=1)))["total"]
        await self._name_people(found["results"])
        before = found.pop("before")
        return found | {"next_cursor": _entries.encode(EntryPlace(before)) if before else None}

    async def _name_people(self, rows: list[dict[str, Any]]) -> None:
        """Add the names of people to entries, or to usage by key. The log itself has the names of keys."""
        people = await self._people(row["key"] for row in rows if "key" in row)
        for row in rows:
            if person := people.get(row.get("key", "")):
                row["person"] = person

    async def get_audit_stats(self, caller: Caller, params: GetAuditStats) -> dict[str, Any]:
        """Return counts of entries by each of their properties."""
        zone = self._zone
        wanted = filter_of(params, zone, self._now(), "" if params.lookups else "without")
        found = _with_problem(await self._index.ask(EntryCounts(wanted)), caller)
        for name in ("earliest", "latest"):
            moment = found[name]
            found[name] = None if moment is None else time_in(moment / 1000, zone)
        return found

    async def get_usage_stats(self, caller: Caller, params: GetUsageStats) -> dict[str, Any]:
        """Return usage in groups. A caller who may not see that of others gets their own."""
        first, last = self._days_between(params.start, params.end)
        try:
            shown = max(0, min(_groups.decode(params.cursor).shown, 1 << 62)) if params.cursor else 0
        except ForeignCursor:
            raise _foreign_cursor() from None
        query = UsageQuery(
            first,
            last,
            by=params.by,
            server=params.server or "",
            tool=params.tool or "",
            key=params.key or "",
            client=params.client or "",
            holder=None if sees_all(caller) else holder_of(caller),
            offset=shown,
            limit=params.limit,
            lookups="" if params.lookups else "without",
            of_servers=params.of_servers,
        )
        found = _with_problem(await self._index.ask(query), caller)
        if not params.lookups:
            only = msgspec.structs.replace(query, lookups="only", of_servers=False, limit=1, offset=0)
            found["hidden"] = (await self._index.ask(only))["sum"]["calls"]
        if params.by == "key":
            await self._name_people(found["results"])
        shown += len(found["results"])
        more = bool(found["results"]) and shown < found["total"]
        return {
            "start": first, "end": last, "by": params.by, **found,
            "next_cursor": _groups.encode(UsagePlace(shown)) if more else None,
        }  # fmt: skip

    async def analyze_usage(self, caller: Caller, params: AnalyzeUsage) -> dict[str, Any]:
        """Return what is never used and what it costs, what is slow, what fails, and who uses how much."""
        first, last = self._days_between(params.start, params.end)
        tools = await self._index.ask(UsageQuery(first, last, limit=_MOST_TOOLS, lookups="without"))
        clients = await self._index.ask(UsageQuery(first, last, by="client", limit=params.limit))
        used = await self._index.ask(UsageQuery(first, last, used_tools=True))
        names = {name for name, _server, _calls in used}
        found = analyzed(list(self._offered()), names, tools["results"], clients["results"], params.limit)
        if "problem" in tools:
            found["problem"] = tools["problem"]
        return {"start": first, "end": last, **_with_problem(found, caller)}

    def _days_between(self, start: str | None, end: str | None) -> tuple[str, str]:
        zone, now = self._zone, self._now()
        last = moment_of(end, zone, now, "end", end=True) if end else now
        usual = last - (_USUAL_DAYS - 1) * 86_400
        first = moment_of(start, zone, now, "start", end=False) if start else usual
        check_order(first, last)
        return day_of(first, zone), day_of(last, zone)


def holder_of(caller: Caller) -> str:
    """Return the name under which a caller's calls are counted."""
    return caller.access.holder


def sees_all(caller: Caller) -> bool:
    """Return whether a caller may see the usage of others: only administration may."""
    target = CallTarget("get_usage_stats", source="admin", kind="operation", changes=False)
    return caller.access.allows(target)


def _with_problem(found: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Return an answer for a caller: the reason why other hubs are missing as a text."""
    problem = found.get("problem")
    return found if problem is None else found | {"problem": problem.render(caller.lang)}


def _foreign_cursor() -> BadArguments:
    return BadArguments(
        say(
            "cursor: it does not belong to this query. Use next_cursor of the previous page, or leave it out."
        ),
        "cursor",
    )
