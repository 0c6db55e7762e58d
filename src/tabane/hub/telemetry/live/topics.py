"""Topics of events: who may see each, and which calls and jobs concern which."""

from __future__ import annotations

from typing import Literal

from tabane.operations import CallTarget

Topic = Literal[
    "calls", "activity", "servers", "catalog", "jobs", "questions", "approvals", "documents", "pages",
    "posts", "keys", "settings", "definitions", "flows", "reset",
]  # fmt: skip

NEEDED: dict[Topic, tuple[str, str]] = {
    "calls": ("list_live_calls", "admin"),
    "activity": ("get_activity", "admin"),
    "servers": ("list_servers", "admin"),
    "catalog": ("list_tools", "hub"),
    "jobs": ("list_jobs", "admin"),
    "questions": ("list_questions", "hub"),
    "approvals": ("list_approvals", "admin"),
    "documents": ("list_documents", "documents"),
    "pages": ("list_pages", "pages"),
    "posts": ("get_database_stats", "posts"),
    "keys": ("keys_list", "admin"),
    "settings": ("hub_status", "admin"),
    "definitions": ("list_definition_changes", "admin"),
    "flows": ("list_flow_trails", "admin"),
}
"""The operation, and its source, that somebody must be allowed to use to get events of a topic."""

TARGETS = {
    topic: CallTarget(name, source=source, kind="operation", changes=False, public=source == "posts")
    for topic, (name, source) in NEEDED.items()
}

_BY_NAME: dict[str, Topic] = {
    **dict.fromkeys(
        ("put_document", "put_documents", "put_file", "put_upload", "delete_document"), "documents"
    ),
    **dict.fromkeys(("watch_documents", "unwatch_documents"), "documents"),
    **dict.fromkeys(("add_documents", "import_chroma"), "documents"),
    **dict.fromkeys(("remember_url", "read_url_content", "forget_page"), "pages"),
    "import_posts": "posts",
    **dict.fromkeys(("save_profile", "remove_profile"), "keys"),
    **dict.fromkeys(("accept_definitions", "reject_definitions"), "definitions"),
    **dict.fromkeys(("forget_flow_trails", "allow_flow", "disallow_flow"), "flows"),
    **dict.fromkeys(("change_setting", "use_model"), "settings"),
}

_BY_BEGINNING: tuple[tuple[str, Topic], ...] = (
    ("keys_", "keys"),
    ("profiles_", "keys"),
    ("set_setting", "settings"),
    ("settings_", "settings"),
)

_LOOKING = frozenset({"keys_list", "keys_show", "profiles_list"})


def topic_of(operation: str) -> Topic | None:
    """Return what an operation changes when a call of it, or a job, has ended; None for nothing."""
    if operation in _LOOKING:
        return None
    found = _BY_NAME.get(operation)
    if found is not None:
        return found
    return next((topic for beginning, topic in _BY_BEGINNING if operation.startswith(beginning)), None)
