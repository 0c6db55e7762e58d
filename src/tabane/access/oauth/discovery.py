"""Discovery: where the authorization server publishes its keys (RFC 8414 and OpenID Connect Discovery)."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from tabane.access.oauth.fetching import AuthorizationServerRequests, FetchFailed
from tabane.settings.oauth import is_safe_url

MOST_METADATA = 128 << 10

_ABSENT = (400, 401, 403, 404, 405, 406, 410)
"""Statuses after which the next place is tried."""


class IssuerMetadata(msgspec.Struct):
    issuer: str
    jwks_uri: str


_metadata = msgspec.json.Decoder(IssuerMetadata)


def places(issuer: str) -> tuple[str, ...]:
    """Return where an issuer may publish its metadata, in the order of MCP's authorization page."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    found = (
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    )
    return tuple(dict.fromkeys(found))


async def discover_jwks_url(issuer: str, requests: AuthorizationServerRequests) -> str:
    """Return the URL of the keys. Raises FetchFailed if no place has metadata of that very issuer."""
    problem = FetchFailed("no metadata")
    for place in places(issuer):
        try:
            return _jwks_url(await requests.get(place, MOST_METADATA), issuer, place)
        except FetchFailed as failed:
            problem = failed
            if failed.status not in _ABSENT:
                break
    raise problem


def _jwks_url(document: bytes, issuer: str, place: str) -> str:
    try:
        found = _metadata.decode(document)
    except (ValueError, RecursionError) as error:
        raise FetchFailed(f"{place}: the metadata cannot be read ({error})") from None
    if found.issuer != issuer:
        # RFC 8414, 3.3: metadata of another issuer must not be used.
        raise FetchFailed(
            f"{place}: the metadata is of the issuer {ascii(found.issuer)[:200]}, not of {issuer}"
        )
    if not is_safe_url(found.jwks_uri):
        raise FetchFailed(f"{place}: jwks_uri must begin with https://, not {ascii(found.jwks_uri)[:200]}")
    return found.jwks_uri
