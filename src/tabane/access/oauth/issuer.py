"""The authorization server that the hub trusts, as the settings describe it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tabane.settings import Settings
from tabane.settings.oauth import ASYMMETRIC


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
