"""Conditions of a query on the audit log, as the index takes them; pure."""

from __future__ import annotations

from datetime import datetime, tzinfo
from fnmatch import translate
from functools import lru_cache
from re import Pattern, compile

from tabane.audit.entry import AuditEntry
from tabane.audit.index_requests import EntryFilter
from tabane.audit.parameters import AuditConditions, AuditPeriod
from tabane.audit.periods import moment_of
from tabane.audit.text_scan import line_holds, needles_of
from tabane.errors import BadArguments
from tabane.messages import say

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


def filter_of(given: AuditConditions, zone: tzinfo, now: float) -> EntryFilter:
    """Return the filter of a query. Raises BadArguments for a time that is none."""
    start, end = period_of(given, zone, now)
    return EntryFilter(
        start=None if start is None else round(start * 1000),
        end=None if end is None else int(end * 1000),
        type=given.type or "",
        outcomes=_outcomes(given),
        key=given.key or "",
        actor=given.actor or "",
        client=given.client or "",
        server=given.server or "",
        tool=given.tool or "",
        action=given.action or "",
        text=given.text or "",
        hub=given.hub or "",
    )


def _outcomes(given: AuditConditions) -> tuple[str, ...]:
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
    if not _names_match(wanted, entry):
        return False
    return not wanted.text or line_holds(line, needles_of(wanted.text))


def _names_match(wanted: EntryFilter, entry: AuditEntry) -> bool:
    if (wanted.type and wanted.type != entry.type) or (wanted.tool and entry.type != "call"):
        return False
    holder = (entry.key, entry.label)
    return all(
        any(_pattern(pattern).fullmatch(name) for name in names)
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
def _pattern(pattern: str) -> Pattern[str]:
    return compile(translate(pattern.replace("[", "[[]").replace("?", "[?]")))
