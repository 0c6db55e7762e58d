"""Claims of an access token, from a JWT or from introspection; the trusted issuer, and the checks for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tabane.access.oauth.refusals import TokenRefused, quoted
from tabane.settings import Settings
from tabane.settings.addresses import ASYMMETRIC


@dataclass(frozen=True, slots=True)
class OAuthIssuer:
    """``audience`` is the value of ``aud`` that tokens for this hub have. Times are in seconds.

    ``always_introspect``: tokens that are JWTs are checked by introspection too, so that a revoked one is
    refused. ``ca`` is a file of certificates that are trusted in addition to the system's.
    """

    url: str
    audience: str
    jwks_url: str = ""
    introspection_url: str = ""
    client_id: str = ""
    always_introspect: bool = False
    algorithms: frozenset[str] = frozenset(ASYMMETRIC)
    scopes: tuple[str, ...] = ()
    tier: str = "authenticated"
    skew: float = 30
    timeout: float = 5
    ca: Path | None = None


def issuer_of(settings: Settings, resource: str) -> OAuthIssuer | None:
    """Return the authorization server of the settings; None if there is none.

    ``resource`` is the hub's own URL of MCP, the default audience.
    """
    if not settings.oauth_issuer:
        return None
    return OAuthIssuer(
        url=settings.oauth_issuer,
        audience=settings.oauth_audience or resource,
        jwks_url=settings.oauth_jwks_url,
        introspection_url=settings.oauth_introspection_url,
        client_id=settings.oauth_client_id,
        always_introspect=settings.oauth_introspect == "always",
        algorithms=frozenset(settings.oauth_algorithms or ASYMMETRIC),
        scopes=settings.oauth_scopes,
        tier=settings.oauth_tier,
        skew=settings.oauth_skew,
        timeout=settings.oauth_timeout,
        ca=settings.oauth_ca,
    )


_MOST_SUBJECT = 512
_MOST_SCOPES = 256

_ID_TOKEN_KINDS = ("id", "refresh", "logout")


class TokenClaims(msgspec.Struct):
    """The claims that are looked at. Times are seconds since 1970.

    ``typ`` is what Keycloak says of the kind of a token in its claims, ``token_use`` what Cognito says.
    ``scp`` is what Entra and Okta call the scope.
    """

    iss: str | None = None
    aud: str | list[str] | None = None
    exp: int | float | None = None
    nbf: int | float | None = None
    iat: int | float | None = None
    sub: str | None = None
    client_id: str | None = None
    azp: str | None = None
    scope: str | list[str] | None = None
    scp: str | list[str] | None = None
    active: bool | None = None
    token_type: str | None = None
    typ: Any = None
    token_use: Any = None
    nonce: Any = None
    at_hash: Any = None
    c_hash: Any = None
    s_hash: Any = None
    events: Any = None
    cnf: Any = None
    name: Any = None
    preferred_username: Any = None
    username: Any = None
    email: Any = None

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes, whatever they are called."""
        found: list[str] = []
        for given in (self.scope, self.scp):
            found += given.split() if isinstance(given, str) else given or ()
        return frozenset(found[:_MOST_SCOPES])

    @property
    def client(self) -> str:
        """The client that the token was issued to; "" if the token does not say."""
        return self.client_id or self.azp or ""


_claims = msgspec.json.Decoder(TokenClaims)


def parse_claims(document: bytes) -> TokenClaims:
    """Return the claims. Raises TokenRefused if they are not JSON, or of wrong types."""
    try:
        return _claims.decode(document)
    except (ValueError, RecursionError) as error:
        raise TokenRefused("malformed", quoted(str(error))) from None


def check_claims(claims: TokenClaims, issuer: OAuthIssuer, now: float) -> None:
    """Raise TokenRefused unless the claims are those of a bearer token for this hub that is valid ``now``."""
    if claims.iss != issuer.url:
        raise TokenRefused("issuer", f"iss {quoted(claims.iss)}, not {quoted(issuer.url)}")
    if claims.exp is None:
        raise TokenRefused("expired", "it has no exp")
    check_audience(claims, issuer)
    check_times(claims, issuer.skew, now)
    check_bearer(claims)


def check_audience(claims: TokenClaims, issuer: OAuthIssuer) -> None:
    """Raise TokenRefused unless the token was issued for this hub (RFC 8707)."""
    audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud or []
    if issuer.audience not in audiences:
        raise TokenRefused("audience", f"aud {quoted(claims.aud)}, not {quoted(issuer.audience)}")


def check_times(claims: TokenClaims, skew: float, now: float) -> None:
    """Raise TokenRefused unless the token is valid ``now``, give or take ``skew`` seconds."""
    if claims.exp is not None and claims.exp + skew <= now:
        raise TokenRefused("expired", f"exp is {now - claims.exp:.0f} s ago")
    for name, begins in (("nbf", claims.nbf), ("iat", claims.iat)):
        if begins is not None and begins - skew > now:
            raise TokenRefused("early", f"{name} is {begins - now:.0f} s ahead")


def check_bearer(claims: TokenClaims) -> None:
    """Raise TokenRefused unless whoever shows the token may use it, and somebody is named in it."""
    if claims.cnf is not None or (claims.token_type or "bearer").lower() not in ("bearer", "access_token"):
        raise TokenRefused("bound", f"token_type {quoted(claims.token_type)}")
    if not (claims.sub or claims.client):
        raise TokenRefused("subject")
    if max(len(claims.sub or ""), len(claims.client)) > _MOST_SUBJECT:
        raise TokenRefused("subject", f"its subject has more than {_MOST_SUBJECT} characters")


def check_kind(claims: TokenClaims, declared: bool) -> None:
    """Raise TokenRefused for an ID token, a refresh token or a token about an event.

    ``declared``: the header says that it is an access token. Many authorization servers do not say it. Then
    the claims decide: only access tokens have a scope, and only ID tokens have a nonce or hashes.
    """
    kinds = {str(kind).lower() for kind in (claims.typ, claims.token_use)}
    if kinds.intersection(_ID_TOKEN_KINDS) or claims.events is not None:
        raise TokenRefused("type", f"typ {quoted(claims.typ)}, token_use {quoted(claims.token_use)}")
    if declared:
        return
    if any(claim is not None for claim in (claims.nonce, claims.at_hash, claims.c_hash, claims.s_hash)):
        raise TokenRefused("type", "it is an ID token")
    if claims.scope is None and claims.scp is None:
        raise TokenRefused("type", "it has no scope, as an ID token has none")
