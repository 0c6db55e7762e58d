"""Groups of settings by subject, as docs/settings.md and the web page show them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tabane.messages import Message, say
from tabane.settings.option import SettingOption
from tabane.settings.table import OPTIONS


class SettingGroup(NamedTuple):
    """Settings of one subject. ``names`` are settings, or the words that names of settings begin with.

    ``code`` is for programs. No title has the anchor of a setting.
    """

    code: str
    title: Message
    names: tuple[str, ...]


GROUPS = (
    SettingGroup(
        "general",
        say("General"),
        ("home", "config", "servers", "mode", "lang", "extensions", "keyring"),
    ),
    SettingGroup(
        "hub",
        say("Process of the hub"),
        ("idle_end", "grace", "stuck_after", "max_line", "outbox", "max_sessions"),
    ),
    SettingGroup(
        "servers",
        say("Starts and limits of servers"),
        (
            "start_servers", "inherit", "registry_url", "login_client_metadata_url", "list", "start_timeout",
            "download", "downloads", "probe_timeout", "health_interval", "restart", "circuit", "queue_length",
            "catalogue_size",
        ),
    ),
    SettingGroup(
        "calls",
        say("Calls, results and tasks"),
        ("result", "task", "questions_to_page", "learn_result_types"),
    ),
    SettingGroup("scripts", say("Scripts"), ("script",)),
    SettingGroup(
        "safety",
        say("Safety"),
        (
            "flow_policy", "approval_wait", "definition_changes", "poisoned_definitions",
            "credentials_in_calls",
        ),
    ),
    SettingGroup(
        "http",
        say("HTTP and the web page"),
        (
            "http", "host", "hosts", "port", "web", "public_url", "origins", "open_archive", "ping_interval",
            "tls", "trusted_proxies", "proxy_tls",
        ),
    ),
    SettingGroup("oauth", say("OAuth"), ("oauth",)),
    SettingGroup("models", say("Semantic search"), ("model", "reranker", "embedding_cache")),
    SettingGroup("posts", say("Posts"), ("posts",)),
    SettingGroup("documents", say("Documents"), ("documents",)),
    SettingGroup("reader", say("Reader"), ("reader",)),
    SettingGroup("audit", say("Audit log"), ("audit",)),
    SettingGroup("logs", say("Log and traces"), ("log", "otel_endpoint")),
    SettingGroup(
        "database",
        say("Database and several hubs"),
        ("engine", "vector_index", "advertise", "drain_notice", "local_replica"),
    ),
)  # fmt: skip


def grouped() -> Iterator[tuple[SettingGroup, tuple[SettingOption, ...]]]:
    """Return each group with its settings, in the order of the table."""
    for group in GROUPS:
        yield group, tuple(option for option in OPTIONS if group_of(option.name) is group)


def group_of(name: str) -> SettingGroup:
    """Return the group that has the name itself, or else its first words. Raises ValueError if none has."""
    words = name.split("_")
    for end in range(len(words), 0, -1):
        begin = "_".join(words[:end])
        for group in GROUPS:
            if begin in group.names:
                return group
    raise ValueError(f"no group has the setting {name}")
