"""Tabane as a client of an authorization server: configured, described by a document, or registered."""

from __future__ import annotations

import time
from collections.abc import Iterable
from urllib.parse import urlsplit

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say
from tabane.net.target import is_loopback
from tabane.servers.oauth_keys import OAuthOptions
from tabane.upstreams.logins.fetching import LoginHttp, LoginRequestFailed
from tabane.upstreams.logins.kept_login import KeptClient
from tabane.upstreams.logins.metadata import AuthorizationServer

CLIENT_NAME = "Tabane"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
METHODS = ("none", "client_secret_basic", "client_secret_post")
"""How a registered client authenticates, the best first: a program on a computer has no secret of its own."""

_LONGEST = 16_384
_LATEST = 1e12
"""Seconds since 1970: what ends later does not end. Larger numbers have no float."""


async def client_at(
    place: AuthorizationServer,
    options: OAuthOptions,
    kept: KeptClient | None,
    http: LoginHttp,
    redirect: str,
    grants: tuple[str, ...],
    scopes: tuple[str, ...],
) -> KeptClient:
    """Return the client to log in as, in the order of the MCP specification; registered if necessary.

    ``kept`` is the one that is registered there already. Raises UpstreamUnavailable.
    """
    if options.client_id:
        return configured_client(place, options)
    if options.client_metadata_url and place.takes_metadata_documents:
        return KeptClient(options.client_metadata_url)
    if kept is not None and _fits(kept, redirect, grants):
        return kept
    if not place.registration_endpoint:
        raise UpstreamUnavailable(_no_client(place, options))
    return await _registered(place, http, redirect, grants, scopes)


def configured_client(place: AuthorizationServer, options: OAuthOptions) -> KeptClient:
    """Return the client of the servers file. It authenticates in the way that the server offers."""
    if options.private_key:
        method = "private_key_jwt"
    elif not options.client_secret:
        method = "none"
    else:
        offered = place.authentication_methods or ("client_secret_basic",)
        method = next((each for each in METHODS[1:] if each in offered), "client_secret_basic")
    return KeptClient(options.client_id, options.client_secret, method)


def _fits(kept: KeptClient, redirect: str, grants: Iterable[str]) -> bool:
    valid = not kept.expires or kept.expires > time.time() + 60
    return kept.registered and valid and kept.redirect == redirect and set(grants) <= set(kept.grants)


async def _registered(
    place: AuthorizationServer,
    http: LoginHttp,
    redirect: str,
    grants: tuple[str, ...],
    scopes: tuple[str, ...],
) -> KeptClient:
    """Register a client (RFC 7591). Raises UpstreamUnavailable."""
    method = next((each for each in METHODS if each in place.authentication_methods), "none")
    wanted = {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect] if redirect else [],
        "grant_types": list(grants),
        "response_types": ["code"] if "authorization_code" in grants else [],
        "token_endpoint_auth_method": method,
        "application_type": _application(redirect),
        **({"scope": " ".join(scopes)} if scopes else {}),
    }
    try:
        answer = await http.post_json(place.registration_endpoint, wanted)
    except LoginRequestFailed as failed:
        raise UpstreamUnavailable(_refused(place, failed.why)) from None
    given = answer.document.get("client_id")
    if answer.status not in (200, 201) or not _is_credential(given):
        why = answer.explanation() or answer.error()
        raise UpstreamUnavailable(_refused(place, _status(answer.status, why)))
    secret = answer.document.get("client_secret")
    named = answer.document.get("token_endpoint_auth_method")
    return KeptClient(
        str(given),
        str(secret) if _is_credential(secret) else "",
        _usable_method(place, named if isinstance(named, str) else method, has_secret=_is_credential(secret)),
        registered=True,
        redirect=redirect,
        grants=grants,
        expires=_expiry(answer.document.get("client_secret_expires_at")),
    )


def _usable_method(place: AuthorizationServer, method: str, *, has_secret: bool) -> str:
    if method not in METHODS:
        raise UpstreamUnavailable(
            _refused(place, say("it wants {method}, which needs a key", method=method[:50]))
        )
    return method if has_secret else "none"


def _application(redirect: str) -> str:
    host = urlsplit(redirect).hostname
    return "native" if host is None or is_loopback(host) else "web"


def _is_credential(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()


def _expiry(value: object) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LATEST
    return float(value) if usable else 0.0  # type: ignore[arg-type]


def _status(status: int, why: str) -> Message:
    return say("{status}: {why}", status=status, why=why) if why else say("status {status}", status=status)


def _refused(place: AuthorizationServer, why: Message) -> Message:
    return say(
        "the authorization server {issuer} does not register Tabane ({why}). Register a client there, and "
        'set "clientId" in its "oauth"',
        issuer=place.issuer,
        why=why,
    )


def _no_client(place: AuthorizationServer, options: OAuthOptions) -> Message:
    if place.takes_metadata_documents:
        return say(
            "the authorization server {issuer} knows clients by a document that they host, and registers "
            'none. Set "clientMetadataUrl" in its "oauth", or the setting login_client_metadata_url',
            issuer=place.issuer,
        )
    return say(
        "the authorization server {issuer} registers no clients by itself. Register a client there, and set "
        '"clientId" in its "oauth"',
        issuer=place.issuer,
    )
