"""Parameters of the queries on the audit log and on usage. Null means absent for every optional parameter."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from tabane.audit.entry import UsageGroup

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


class AuditPeriod(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which time is meant; all of it if nothing is given."""

    start: Moment | None = None
    end: Moment | None = None


class AuditConditions(AuditPeriod, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which entries are meant.

    ``actor`` and ``key`` are a holder or the name that a person gave it. ``action`` is the name of a tool or
    of another event; ``tool`` is that of a call. ``level``: error for what failed, warning for what was
    refused, limited or canceled. ``result``: failure for what failed, was refused or limited. ``text`` is
    looked for in arguments, reasons and names. ``hub`` is the address of a hub of a group, or ``this``.
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
    text: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
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


class QueryAuditLogs(AuditConditions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``seq``: only the entry of that number, if it matches."""

    seq: Annotated[int, Meta(ge=1, le=1 << 62)] | None = None
    limit: EntryLimit = 50
    offset: Offset = 0
    cursor: QueryCursor | None = None


class GetAuditStats(AuditPeriod, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class GetUsageStats(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whole days, 30 of them if no period is given."""

    start: Moment | None = None
    end: Moment | None = None
    by: UsageGroup = "tool"
    server: NamePattern | None = None
    tool: NamePattern | None = None
    key: NamePattern | None = None
    client: NamePattern | None = None
    limit: EntryLimit = 50
    cursor: QueryCursor | None = None


class AnalyzeUsage(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whole days, 30 of them if no period is given. ``limit`` is that of each list."""

    start: Moment | None = None
    end: Moment | None = None
    limit: Annotated[int, Meta(ge=1, le=1000, extra_json_schema={"default": 20})] = 20
