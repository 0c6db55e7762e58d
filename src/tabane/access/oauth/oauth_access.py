"""Access of a caller with an OAuth token: a live object, which ends with its tokens.

Scopes of tokens stand for permissions.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from tabane.access.oauth.claims import TokenClaims
from tabane.access.oauth.signing_keys import SigningKey, SigningKeys
from tabane.access.permissions import PermissionPatterns, PermissionRules
from tabane.errors import BadArguments, ConfigurationError
from tabane.messages import say
from tabane.operations.caller import Access, CallTarget

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
        """Return whether one of the scopes allows a target."""
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
        """The scopes that clients are told to ask for: those without administration."""
        return tuple(name for name, patterns in self._named.items() if "@admin" not in patterns.allow)

    def grants(self, scopes: Iterable[str]) -> tuple[PermissionPatterns, ...]:
        """Return what those scopes allow, in a fixed order."""
        found = (self._grant_of_scope(scope) for scope in sorted(scopes))
        return tuple(patterns for patterns in found if patterns is not None)[:_MOST_GRANTS]

    def _grant_of_scope(self, scope: str) -> PermissionPatterns | None:
        if scope in self._named or not self._open:
            return self._named.get(scope)
        if scope.startswith(_TOOL):
            pattern = scope.removeprefix(_TOOL)
            try:
                return None if pattern.startswith("@") else PermissionPatterns.checked([pattern])
            except BadArguments:
                return None
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


MOST_TOKENS = 8
"""Tokens of one access at the same time: a client renews its token before the old one expires."""

_LABEL = 80


@dataclass(frozen=True, slots=True)
class LiveToken:
    """A token that is valid ``until`` that time.

    ``key`` has signed it, if it was checked by its signature.
    """

    until: float
    key: SigningKey | None = None


class OAuthAccess(Access):
    """Access of a user through one client, with the granted scopes.

    All tokens of the same user, client and scopes share one access. So a session goes on when its client
    renews the token, and ends when the last of its tokens has expired or was revoked.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_permission",
        "_revision",
        "_tokens",
        "client",
        "holder",
        "label",
        "tier",
    )
    holder: str
    label: str
    tier: str
    everything = False

    def __init__(
        self,
        claims: TokenClaims,
        permission: ScopePermission,
        tier: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.holder, self.label, self.client = holder_of(claims), label_of(claims), claims.client
        self.tier = tier
        self._permission, self._clock = permission, clock
        self._tokens: dict[bytes, LiveToken] = {}
        self._revision = 0

    def __repr__(self) -> str:
        return f"OAuthAccess({self.holder!r})"

    @property
    def live(self) -> bool:
        """Whether any token is valid now."""
        now = self._clock()
        return any(now < token.until for token in self._tokens.values())

    @property
    def revision(self) -> int:
        """A number that changes when the access begins or ends."""
        live = self.live
        if live != self._revision % 2:
            self._revision += 1
        return self._revision

    def allows(self, target: CallTarget) -> bool:
        return self.live and self._permission.allows(target)

    def sees_server(self, server: str) -> bool:
        return self.live and self._permission.sees_server(server)

    def keep(self, digest: bytes, token: LiveToken) -> None:
        """Note a token that was verified. The one that expires first gives way to a new one."""
        self._tokens[digest] = token
        if len(self._tokens) > MOST_TOKENS:
            del self._tokens[min(self._tokens, key=lambda known: self._tokens[known].until)]

    def drop(self, digest: bytes) -> None:
        """Forget a token that is not valid any more."""
        self._tokens.pop(digest, None)

    def end(self) -> None:
        """Forget all tokens: the authorization server is not trusted any more."""
        self._tokens.clear()

    def keep_signed_by(self, keys: SigningKeys) -> None:
        """Forget the tokens whose key was removed."""
        self._tokens = {
            digest: token
            for digest, token in self._tokens.items()
            if token.key is None or keys.holds(token.key)
        }


def holder_of(claims: TokenClaims) -> str:
    """Return the name of the caller for limits, audit and usage.

    A client that acts for itself may have no subject. No subject reads as a client: it has no bare slash.
    """
    if claims.sub:
        return "oauth:" + quote(claims.sub, safe="-._~@|:+")
    return "oauth:client/" + quote(claims.client, safe="-._~@|:+")


def label_of(claims: TokenClaims) -> str:
    """Return the name that a person knows the caller by, on one line."""
    named = (claims.preferred_username, claims.username, claims.email, claims.name, claims.sub, claims.client)
    first = next((name for name in named if isinstance(name, str) and name.strip()), "")
    return "".join(c for c in first.strip() if c.isprintable())[:_LABEL]
