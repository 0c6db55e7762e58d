"""Entries of the navigation and of the command palette."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tabane.messages import Message, say


class NavigationEntry(NamedTuple):
    """A page in the navigation. It is shown to those who may use the operation ``needs``; "" is everybody.

    ``topic``: the event after which the number beside it, at ``path/-/count``, is another; "" without one.
    """

    path: str
    label: Message
    icon: str
    needs: str
    group: str
    topic: str = ""


ENTRIES = (
    NavigationEntry("/", say("Home"), "home", "", "top"),
    NavigationEntry("/search", say("Search"), "search", "search_everything", "top"),
    NavigationEntry("/activity", say("Activity"), "activity", "list_live_calls", "hub"),
    NavigationEntry("/questions", say("Questions"), "question", "list_questions", "hub", "questions"),
    NavigationEntry("/approvals", say("Approvals"), "check", "list_approvals", "hub", "approvals"),
    NavigationEntry("/flows", say("Flow policy"), "filter", "list_flow_trails", "hub"),
    NavigationEntry("/servers", say("Servers"), "servers", "list_servers", "hub"),
    NavigationEntry("/changes", say("Changes"), "changes", "list_definition_changes", "hub", "definitions"),
    NavigationEntry("/tools", say("Tools"), "tools", "search_tools", "hub"),
    NavigationEntry("/posts", say("Posts"), "posts", "get_database_stats", "archive"),
    NavigationEntry("/documents", say("Documents"), "documents", "list_documents", "archive"),
    NavigationEntry("/reader", say("Reader"), "reader", "read_url_content", "archive"),
    NavigationEntry("/jobs", say("Jobs"), "jobs", "list_jobs", "admin"),
    NavigationEntry("/usage", say("Usage"), "usage", "get_usage_stats", "admin"),
    NavigationEntry("/audit", say("Audit log"), "audit", "query_audit_logs", "admin"),
    NavigationEntry("/keys", say("API keys"), "keys", "keys_list", "admin"),
    NavigationEntry("/profiles", say("Profiles"), "profiles", "profiles_list", "admin"),
    NavigationEntry("/models", say("Models"), "tag", "list_models", "admin"),
    NavigationEntry("/settings", say("Settings"), "settings", "hub_status", "admin"),
    NavigationEntry("/health", say("Health"), "health", "health_check", "admin"),
)

GROUPS = {
    "top": None,
    "hub": say("Hub"),
    "archive": say("Archive"),
    "admin": say("Administration"),
}


def visible(may: Callable[[str], bool]) -> list[NavigationEntry]:
    """Return the entries that somebody sees. ``may`` tells whether an operation is allowed."""
    return [entry for entry in ENTRIES if not entry.needs or may(entry.needs)]
