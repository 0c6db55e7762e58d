"""Declarations of the queries on the audit log and on usage. Handlers are imported on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tabane.audit import parameters as given
from tabane.operations import Face, Operation, Privilege

if TYPE_CHECKING:
    from tabane.audit.queries import AuditQueries
    from tabane.messages import Lang

PERSON = frozenset({Face.RPC, Face.CLI})
ADMIN, OWN = "admin", "hub"
"""Sources: administration, and what each identified caller may ask about itself."""


def audit_queries_table(queries: Callable[[], AuditQueries]) -> list[Operation]:
    """Return the operations. ``queries`` is called with the first of them."""
    return [
        _read(
            "query_audit_logs", "Entries of the audit log, newest first.",
            given.QueryAuditLogs, lambda c, p: queries().query_audit_logs(c, p), _entries, ADMIN,
        ),
        _read(
            "get_audit_stats", "Entries of the audit log by type, outcome, tool, server, key and client.",
            given.GetAuditStats, lambda c, p: queries().get_audit_stats(c, p), _counts, ADMIN,
        ),
        _read(
            "get_usage_stats",
            "Calls, errors, latencies and tokens by tool, server, key, client or day. "
            "A caller without administration gets their own usage.",
            given.GetUsageStats, lambda c, p: queries().get_usage_stats(c, p), _usage, OWN,
        ),
        _read(
            "analyze_usage",
            "Tools that nobody uses and what they cost, slow and failing tools, tokens by client.",
            given.AnalyzeUsage, lambda c, p: queries().analyze_usage(c, p), _analysis, ADMIN,
        ),
    ]  # fmt: skip


def _read(name: str, description: str, params: Any, handler: Any, text: Any, source: str) -> Operation:
    return Operation(
        name,
        description,
        params,
        handler,
        PERSON,
        Privilege.READ,
        text=text,
        read_only=True,
        camel_case=True,
        source=source,
    )


def _entries(result: Any, lang: Lang) -> str:
    from tabane.audit import rendered_text

    return rendered_text.entries(result, lang)


def _counts(result: Any, lang: Lang) -> str:
    from tabane.audit import rendered_text

    return rendered_text.counts(result, lang)


def _usage(result: Any, lang: Lang) -> str:
    from tabane.audit import rendered_text

    return rendered_text.usage(result, lang)


def _analysis(result: Any, lang: Lang) -> str:
    from tabane.audit import rendered_text

    return rendered_text.analysis(result, lang)
