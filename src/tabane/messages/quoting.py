"""Names inside sentences and commands, so that they are not read as a part of these. Pure.

Conversions of the fields of a :class:`~tabane.messages.Message`: ``{server!n}`` is a name in a sentence, and
``{server!c}`` a word of a command.
"""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[\w@][\w.@/:-]*")

READ_AS_WORDS = {
    *("add", "all", "and", "any", "audit", "auto", "call", "command", "default", "demo", "disable"),
    *("docs", "doctor", "enable", "every", "false", "find", "health", "help", "hub", "import", "install"),
    *("jobs", "json", "keys", "limits", "list", "logs", "manual", "mcp", "memory", "models", "none"),
    *("not", "null", "off", "on", "open", "or", "other", "policy", "posts", "profiles", "quick", "read"),
    *("remove", "restart", "rpc", "search", "secrets", "server", "servers", "service", "settings", "show"),
    *("skill", "start", "status", "stop", "tabane", "test", "text", "that", "the", "this", "time", "tool"),
    *("tools", "true", "uninstall", "update", "usage", "version"),
}
"""Names that a sentence or a command could mean itself: commands of Tabane, and common words."""


def quoted_name(name: object) -> str:
    """Return a name for a sentence: in quotes if it would be read as a word of it."""
    shown = str(name)
    if shown.lower() in READ_AS_WORDS or _PLAIN.fullmatch(shown) is None:
        return f'"{shown}"'
    return shown


def command_word(name: object) -> str:
    """Return a name as a word of a command for a shell; after ``--`` if it would be read as an option."""
    import shlex  # the bridge has no commands to quote

    shown = str(name)
    return ("-- " if shown.startswith("-") else "") + shlex.quote(shown)
