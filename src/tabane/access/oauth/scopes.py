"""Scopes of tokens, and the permissions that they stand for.

Without the setting ``oauth_scopes``:

    tabane:read            read-only tools, and reading in every source
    tabane:*               all tools and sources, but not administration
    tabane:admin           administration
    tabane:tool:PATTERN    the tools whose public names match, such as tabane:tool:github__*
    tabane:source:NAME     one source: posts, documents, pages, tools or docs

With it, exactly the scopes that it lists. An entry is ``SCOPE = PATTERN …``, with the patterns of API keys
and profiles. A pattern after ``!`` denies, and ``read-only`` removes everything that changes data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tabane.access.permissions import PermissionPatterns, PermissionRules
from tabane.errors import BadArguments, ConfigurationError
from tabane.messages import say
from tabane.operations.access import CallTarget

READ_ONLY = "read-only"

DEFAULT_SCOPES: Mapping[str, PermissionPatterns] = {
    "tabane:read": PermissionPatterns(("*",), read_only=True),
    "tabane:*": PermissionPatterns(("*",)),
    "tabane:admin": PermissionPatterns(("@admin",)),
}

_TOOL, _SOURCE = "tabane:tool:", "tabane:source:"
_GRANTABLE_SOURCES = ("posts", "documents", "pages", "tools", "docs")
_MOST_GRANTS = 64
"""Scopes of one token that count."""

_entry = re.compile(r"([\x21\x23-\x3c\x3e-\x5b\x5d-\x7e]+)\s*=\s*(.*)").fullmatch


class ScopePermission:
    """The union of several scopes: whatever one of them allows."""

    def __init__(self, grants: Iterable[PermissionPatterns]) -> None:
        self._rules = tuple(map(PermissionRules, grants))

    def allows(self, target: CallTarget) -> bool:
        return any(rules.allows(target) for rules in self._rules)

    def sees_server(self, server: str) -> bool:
        """Return whether a tool of that server may be allowed."""
        return any(rules.sees_server(server) for rules in self._rules)


class ScopeTable:
    """The scopes that mean something. ``entries`` are those of the setting ``oauth_scopes``.

    Raises ConfigurationError if an entry is wrong.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        given = dict(map(parse_scope_entry, entries))
        self._named: Mapping[str, PermissionPatterns] = given or DEFAULT_SCOPES
        self._open = not given
        """Whether scopes may contain a pattern."""

    @property
    def advertised(self) -> tuple[str, ...]:
        """Return the scopes that clients are told to ask for: those without administration."""
        return tuple(name for name, patterns in self._named.items() if "@admin" not in patterns.allow)

    def grants(self, scopes: Iterable[str]) -> tuple[PermissionPatterns, ...]:
        """Return what those scopes allow, in a fixed order."""
        found = (self._grant(scope) for scope in sorted(scopes))
        return tuple(patterns for patterns in found if patterns is not None)[:_MOST_GRANTS]

    def _grant(self, scope: str) -> PermissionPatterns | None:
        if scope in self._named or not self._open:
            return self._named.get(scope)
        if scope.startswith(_TOOL):
            return _tools(scope.removeprefix(_TOOL))
        source = scope.removeprefix(_SOURCE)
        named = scope.startswith(_SOURCE) and source in _GRANTABLE_SOURCES
        return PermissionPatterns((f"@{source}",)) if named else None


def parse_scope_entry(entry: str) -> tuple[str, PermissionPatterns]:
    """Return a scope and what it allows. Raises ConfigurationError that quotes the entry."""
    match = _entry(entry.strip())
    words = match[2].split() if match else []
    if match is None or not words:
        raise ConfigurationError(
            say(
                "oauth_scopes: {entry} has no scope and patterns. Write it like this: "
                '"tools.read = read-only github__* @posts".',
                entry=ascii(entry[:200]),
            )
        )
    patterns = [word for word in words if word != READ_ONLY]
    allow = [word for word in patterns if not word.startswith("!")] or ["*"]
    deny = [word[1:] for word in patterns if word.startswith("!")]
    try:
        return match[1], PermissionPatterns.checked(allow, deny, read_only=READ_ONLY in words)
    except BadArguments as error:
        raise ConfigurationError(
            say("oauth_scopes: scope {scope}: {problem}", scope=match[1], problem=error.message)
        ) from None


def _tools(pattern: str) -> PermissionPatterns | None:
    """Return the permission of a scope that contains a pattern; None if that is not one of tools."""
    if pattern.startswith("@"):
        return None
    try:
        return PermissionPatterns.checked([pattern])
    except BadArguments:
        return None
