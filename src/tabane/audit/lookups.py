"""Look-ups of Tabane itself: operations that only say how the hub is, and call no tool.

Pages and commands ask them all the time, so they would hide the calls of tools in a list of entries. A test
holds the names to the table of operations. What a caller was refused is no look-up: it stays visible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tabane.audit.entry import AuditEntry

Lookups = Literal["", "without", "only"]
"""Whether look-ups belong to what is asked for: all entries, without them, or nothing else."""

LOOKUPS = (
    *("analyze_usage", "audit_head", "check_definition", "check_init", "explain_flow", "explain_policy"),
    *("find_servers", "follow_job", "get_activity", "get_audit_stats", "get_login", "get_rate_limit_stats"),
    *("get_tool", "get_usage_stats", "health_check", "hub_status", "keys_list", "keys_show"),
    *("list_approvals", "list_assistants", "list_definition_changes", "list_flow_labels", "list_flow_trails"),
    *("list_hidden_tools", "list_jobs", "list_live_calls", "list_models", "list_questions", "list_servers"),
    *("list_settings", "list_tasks", "list_tools", "model_status", "next_approval", "passphrase_state"),
    *("preview_setup", "profiles_list", "query_audit_logs", "scan_servers", "server_logs", "show_definition"),
    *("show_definition_change", "show_live_call", "show_project", "show_server", "show_task", "test_model"),
    *("check_stores", "list_pages", "list_watched", "run_doctor"),
)
"""Operations that read: those of administration, and those of the hub that are not offered over MCP. Also
check-ups, which leave repairs to ``apply_fix``, and the lists of pages and of watched folders."""

_NAMES = frozenset(LOOKUPS)


def is_lookup(entry: AuditEntry) -> bool:
    """Return whether an entry is a look-up that succeeded."""
    return entry.type == "call" and not entry.server and entry.outcome == "ok" and entry.name in _NAMES


def condition(lookups: Lookups, column: str, rest: str, mark: str) -> tuple[str, tuple[str, ...]]:
    """Return a condition in SQL and its values; none if all entries are wanted.

    ``column`` has the name of the operation, ``rest`` is what else is true of a look-up, and ``mark`` is the
    placeholder of a value.
    """
    if not lookups:
        return "", ()
    found = f"({rest} AND {column} IN ({', '.join([mark] * len(LOOKUPS))}))"
    return found if lookups == "only" else f"NOT {found}", LOOKUPS
