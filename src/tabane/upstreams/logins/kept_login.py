"""A login as it is kept: the client that Tabane is at an authorization server, and its tokens there."""

from __future__ import annotations

import hashlib

from msgspec import Struct


class KeptTokens(Struct, frozen=True, omit_defaults=True):
    """Tokens for one server. Times are seconds since 1970, and 0 if unknown.

    ``asked`` are the scopes of the request, ``scopes`` those that were granted.
    """

    access: str
    refresh: str = ""
    obtained: float = 0.0
    expires: float = 0.0
    scopes: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"KeptTokens(expires={self.expires}, scopes={self.scopes})"

    @property
    def renew_at(self) -> float:
        """Return when to renew them: a minute before their end, later if they live for a short time."""
        if not self.expires:
            return float("inf")
        return self.expires - min(60.0, 0.2 * max(0.0, self.expires - self.obtained))


class KeptClient(Struct, frozen=True, omit_defaults=True):
    """A client at an authorization server. ``method`` is how it authenticates at the token endpoint.

    ``registered``: Tabane registered it there, with ``redirect`` as the address to which browsers return.
    ``expires`` is when its secret ends, 0 for never.
    """

    id: str
    secret: str = ""
    method: str = "none"
    registered: bool = False
    redirect: str = ""
    grants: tuple[str, ...] = ()
    expires: float = 0.0

    def __repr__(self) -> str:
        return f"KeptClient(method={self.method!r}, registered={self.registered})"


class KeptLogin(Struct, frozen=True, omit_defaults=True):
    """The login at one server. It is used only for the URL (a hash) and the issuer that it was made for.

    ``file`` is the servers file in which the server is.
    """

    url: str
    file: str
    issuer: str
    resource: str
    token_endpoint: str
    revocation_endpoint: str = ""
    audience: str = ""
    client: KeptClient | None = None
    tokens: KeptTokens | None = None

    def __repr__(self) -> str:
        return f"KeptLogin(issuer={self.issuer!r}, client={self.client!r}, tokens={self.tokens!r})"


def url_hash(url: str) -> str:
    """Return a hash of a URL, which may contain secrets."""
    return hashlib.sha256(url.encode()).hexdigest()
