"""Operations on the audit log and on usage: parameters with their times and conditions, and declarations."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from fnmatch import translate
from functools import lru_cache
from re import Pattern, compile
from typing import Annotated, Literal

from msgspec import Meta, Struct

from tabane.audit.entry import AuditEntry, UsageGroup
from tabane.audit.index_requests import EntryFilter
from tabane.audit.log_lines import line_holds, needles_of
from tabane.audit.lookups import Lookups, is_lookup
from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.operations import NoParameters, Opener, Operation, Privilege, Reference, bound
from tabane.text import time_zones

Moment = Annotated[
    str,
    Meta(
        min_length=1, max_length=40, description="ISO 8601, a date, today, yesterday, or ago: 30m, 24h, 7d."
    ),
]
NamePattern = Annotated[
    str, Meta(min_length=1, max_length=500, description="A name; * stands for any characters.")
]
EntryLimit = Annotated[int, Meta(ge=1, le=1000, extra_json_schema={"default": 50})]
Offset = Annotated[int, Meta(ge=0, le=100_000_000)]
QueryCursor = Annotated[str, Meta(max_length=4096, description="next_cursor of the page before.")]
Result = Literal["ok", "failed", "refused", "limited", "cancelled", "success", "failure"]
Level = Literal["info", "warning", "error"]


WithLookups = Annotated[
    bool,
    Meta(description="Whether look-ups of Tabane itself are included, such as hub_status and list_servers."),
]


class AuditPeriod(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A period; all times if nothing is given."""

    start: Moment | None = None
    end: Moment | None = None


class CountedConditions(AuditPeriod, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Conditions on entries that the index answers alone.

    ``actor`` and ``key`` are a holder or the name that a person gave it. ``action`` is the name of a tool or
    of another event; ``tool`` is that of a call. ``level``: error for what failed, warning for what was
    refused, limited or canceled. ``result``: failure for what failed, was refused or limited. ``hub`` is the
    address of a hub of a group, or ``this``.
    """

    type: Literal["call", "access", "admin", "audit"] | None = None
    level: Level | None = None
    actor: NamePattern | None = None
    action: NamePattern | None = None
    result: Result | None = None
    key: NamePattern | None = None
    client: NamePattern | None = None
    server: NamePattern | None = None
    tool: NamePattern | None = None
    hub: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=500,
                description="In a group of hubs: the address of one, or this; * stands for any characters.",
            ),
        ]
        | None
    ) = None


class AuditConditions(CountedConditions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Conditions on entries. ``text`` is looked for in arguments, reasons and names."""

    text: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None


class QueryAuditLogs(AuditConditions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``seq``: only the entry of that number, if it matches. Without look-ups, ``hidden`` counts them."""

    seq: Annotated[int, Meta(ge=1, le=1 << 62)] | None = None
    limit: EntryLimit = 50
    offset: Offset = 0
    cursor: QueryCursor | None = None
    lookups: WithLookups = True


class GetAuditStats(CountedConditions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The entries that are counted."""

    lookups: WithLookups = True


class GetUsageStats(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whole days, 30 of them if no period is given. Without look-ups, ``hidden`` counts their calls.

    ``of_servers``: only calls of tools of servers, not those of Tabane itself.
    """

    start: Moment | None = None
    end: Moment | None = None
    by: UsageGroup = "tool"
    server: NamePattern | None = None
    tool: NamePattern | None = None
    key: NamePattern | None = None
    client: NamePattern | None = None
    limit: EntryLimit = 50
    cursor: QueryCursor | None = None
    lookups: WithLookups = True
    of_servers: bool = False


class AnalyzeUsage(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whole days, 30 of them if no period is given. ``limit`` is that of each list."""

    start: Moment | None = None
    end: Moment | None = None
    limit: Annotated[int, Meta(ge=1, le=1000, extra_json_schema={"default": 20})] = 20


_AGO = re.compile(r"([0-9]{1,6}) ?(s|min|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DAYS = {"today": 0, "yesterday": 1}


def moment_of(text: str, zone: tzinfo, now: float, parameter: str, *, end: bool) -> float:
    """Return one end of a period in seconds since 1970 UTC.

    ``7d`` is that long before ``now``; the units are s, m, h, d and w. ``today``, ``yesterday`` and a date
    are the beginning of that day, or its end with ``end``. Raises BadArguments that names the parameter.
    """
    text = text.strip()
    if text == "now":
        return now
    if ago := _AGO.fullmatch(text):
        return now - int(ago[1]) * _SECONDS[ago[2]]
    if text in _DAYS:
        text = (datetime.fromtimestamp(now, zone).date() - timedelta(days=_DAYS[text])).isoformat()
    try:
        return time_zones.bound(text, zone, parameter, end=end)
    except (BadArguments, OverflowError, OSError):
        raise BadArguments(
            say(
                "{parameter}: {text} is not a time. Use a date such as 2026-11-22, a time in ISO 8601, "
                "today, yesterday, or a time ago such as 30m, 24h or 7d.",
                parameter=parameter,
                text=repr(text[:100]),
            ),
            parameter,
        ) from None


def day_of(moment: float, zone: tzinfo) -> str:
    """Return the day of a time as an ISO date."""
    return datetime.fromtimestamp(moment, zone).date().isoformat()


def time_in(moment: float | None, zone: tzinfo) -> str | None:
    """Return a time in ISO 8601 with milliseconds; None for None."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, zone).isoformat(timespec="milliseconds")


OUTCOMES = ("ok", "failed", "refused", "limited", "cancelled", "")
_RESULTS = {"success": ("ok",), "failure": ("failed", "refused", "limited")}
_LEVELS = {"error": ("failed",), "warning": ("refused", "limited", "cancelled"), "info": ("ok", "")}
_NEVER = ("none",)  # no entry has this outcome


def period_of(given: AuditPeriod, zone: tzinfo, now: float) -> tuple[float | None, float | None]:
    """Return both ends of a period in seconds since 1970, None for none. Raises BadArguments."""
    start = moment_of(given.start, zone, now, "start", end=False) if given.start else None
    end = moment_of(given.end, zone, now, "end", end=True) if given.end else None
    check_order(start, end)
    return start, end


def check_order(start: float | None, end: float | None) -> None:
    """Raise BadArguments if a period ends before it starts."""
    if start is not None and end is not None and start > end:
        raise BadArguments(say("start: it must not be later than end."), "start")


def filter_of(given: CountedConditions, zone: tzinfo, now: float, lookups: Lookups = "") -> EntryFilter:
    """Return the filter of a query. Raises BadArguments for a time that is none."""
    start, end = period_of(given, zone, now)
    return EntryFilter(
        start=None if start is None else round(start * 1000),
        end=None if end is None else int(end * 1000),
        type=given.type or "",
        outcomes=_wanted_outcomes(given),
        key=given.key or "",
        actor=given.actor or "",
        client=given.client or "",
        server=given.server or "",
        tool=given.tool or "",
        action=given.action or "",
        text=(given.text or "") if isinstance(given, AuditConditions) else "",
        hub=given.hub or "",
        lookups=lookups,
    )


def _wanted_outcomes(given: CountedConditions) -> tuple[str, ...]:
    if given.result is None and given.level is None:
        return ()
    results = _RESULTS.get(given.result, (given.result,)) if given.result else OUTCOMES
    levels = _LEVELS[given.level] if given.level else OUTCOMES
    return tuple(outcome for outcome in results if outcome in levels) or _NEVER


def matches(wanted: EntryFilter, entry: AuditEntry, line: bytes) -> bool:
    """Return whether an entry matches. ``line`` is the entry as it is in the log."""
    moment = round(datetime.fromisoformat(entry.time).timestamp() * 1000)
    if wanted.start is not None and moment < wanted.start:
        return False
    if wanted.end is not None and moment > wanted.end:
        return False
    if wanted.outcomes and entry.outcome not in wanted.outcomes:
        return False
    if wanted.lookups and is_lookup(entry) is (wanted.lookups == "without"):
        return False
    if not _names_match(wanted, entry):
        return False
    return not wanted.text or line_holds(line, needles_of(wanted.text))


def _names_match(wanted: EntryFilter, entry: AuditEntry) -> bool:
    if (wanted.type and wanted.type != entry.type) or (wanted.tool and entry.type != "call"):
        return False
    holder = (entry.key, entry.label)
    return all(
        any(_compile_pattern(pattern).fullmatch(name) for name in names)
        for pattern, names in (
            (wanted.key, holder),
            (wanted.actor, holder),
            (wanted.client, (entry.client,)),
            (wanted.server, (entry.server,)),
            (wanted.tool, (entry.name,)),
            (wanted.action, (entry.name,)),
        )
        if pattern
    )


@lru_cache(maxsize=64)
def _compile_pattern(pattern: str) -> Pattern[str]:
    return compile(translate(pattern.replace("[", "[[]").replace("?", "[?]")))


class VerifyAuditLog(Struct, frozen=True, forbid_unknown_fields=True):
    """``head``: an entry that the log must contain, as ``audit_head`` returned it earlier."""

    head: (
        Annotated[str, Meta(max_length=100, description="Head of the log that was kept elsewhere")] | None
    ) = None


def _verifying_title(params: VerifyAuditLog) -> Message:
    return say("Verifying the audit log")


_OPERATIONS = (
    Operation(
        "verify_audit_log",
        "Check whether entries of the audit log were changed or removed, and say which one is first.",
        VerifyAuditLog, "audit.operations:AuditOperations.verify",
        kind="job", title=_verifying_title,
    ),
    Operation(
        "audit_head",
        "Return the head of the audit log. Kept elsewhere, it proves later that nothing was cut.",
        NoParameters, "audit.operations:AuditOperations.head", privilege=Privilege.READ,
    ),
    Operation(
        "query_audit_logs", "Entries of the audit log, newest first.",
        QueryAuditLogs, "audit.queries:AuditQueries.query_audit_logs",
        text=Reference("audit.rendered_text:entries"), camel_case=True, privilege=Privilege.READ,
    ),
    Operation(
        "get_audit_stats", "Entries of the audit log by type, outcome, tool, server, key and client.",
        GetAuditStats, "audit.queries:AuditQueries.get_audit_stats",
        text=Reference("audit.rendered_text:counts"), camel_case=True, privilege=Privilege.READ,
    ),
    # Each identified caller may ask about its own usage.
    Operation(
        "get_usage_stats",
        "Calls, errors, latencies and tokens by tool, server, key, client or day. "
        "A caller without administration gets their own usage.",
        GetUsageStats, "audit.queries:AuditQueries.get_usage_stats",
        text=Reference("audit.rendered_text:usage"), camel_case=True, source="hub", privilege=Privilege.READ,
    ),
    Operation(
        "analyze_usage",
        "Tools that nobody uses and what they cost, slow and failing tools, tokens by client.",
        AnalyzeUsage, "audit.queries:AuditQueries.analyze_usage",
        text=Reference("audit.rendered_text:analysis"), camel_case=True, privilege=Privilege.READ,
    ),
)  # fmt: skip


def audit_table(log: Opener, queries: Opener) -> list[Operation]:
    """Return the operations on the log itself, and those that query its index."""
    return bound(_OPERATIONS, AuditOperations=log, AuditQueries=queries)
