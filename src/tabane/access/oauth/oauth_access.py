"""Access of a caller with an OAuth token: a live object, which ends with its tokens."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from tabane.access.oauth.claims import TokenClaims
from tabane.access.oauth.scopes import ScopePermission
from tabane.access.oauth.signing_keys import SigningKey, SigningKeys
from tabane.operations.access import CallTarget

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


class OAuthAccess:
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
        """Return whether any token is valid now."""
        now = self._clock()
        return any(now < token.until for token in self._tokens.values())

    @property
    def revision(self) -> int:
        """Return a number that changes when the access begins or ends."""
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
