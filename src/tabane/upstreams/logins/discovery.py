"""Discovery of a server's authorization server (RFC 9728, RFC 8414, OpenID Connect), and our client there.

The client is configured, described by a document, or registered.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from urllib.parse import urlsplit

from msgspec import Struct

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say
from tabane.net.target import is_loopback
from tabane.servers.server import Server
from tabane.servers.server_keys import OAuthOptions
from tabane.upstreams.logins.fetching import LoginHttp, LoginRequestFailed
from tabane.upstreams.logins.login_book import KeptClient
from tabane.upstreams.logins.metadata import (
    AuthorizationServer,
    BearerChallenge,
    InvalidMetadata,
    ResourceMetadata,
    authorization_server,
    authorization_server_urls,
    bearer_challenge,
    is_safe,
    origin_of,
    resource_for,
    resource_metadata,
    resource_metadata_urls,
)


class LoginPlace(Struct, frozen=True):
    """Where a login at a server happens, and the resource that its tokens are for."""

    server: AuthorizationServer
    resource: str
    metadata: ResourceMetadata | None
    challenge: BearerChallenge


async def discover(server: Server, http: LoginHttp, challenge: BearerChallenge | None) -> LoginPlace:
    """Return where to log in. ``challenge`` is what the server answered to a call, if that is known.

    Raises UpstreamUnavailable with the reason.
    """
    options = server.login_options
    try:
        seen = challenge or await _challenge_of(server, http)
        metadata = await _resource(server, http, seen)
        resource = resource_for(server.url, options.resource, metadata)
        issuer = options.issuer or _issuer(server, metadata)
        return LoginPlace(await _authorization_server(http, issuer), resource, metadata, seen)
    except LoginRequestFailed as failed:
        raise _failure(server.name, failed.why) from None
    except InvalidMetadata as invalid:
        raise _failure(server.name, invalid.why) from None
    except UpstreamUnavailable as unusable:
        raise _failure(server.name, unusable.message) from None


async def offers_login(server: Server, http: LoginHttp) -> bool:
    """Return whether a server that refused a request, without saying why, has metadata for a login."""
    for find in (resource_metadata_urls(server.url), authorization_server_urls(origin_of(server.url))):
        for url in find:
            try:
                answer = await http.get(url)
            except LoginRequestFailed:
                continue
            if answer.status == 200 and ("authorization_servers" in answer.document
                                         or "token_endpoint" in answer.document):  # fmt: skip
                return True
    return False


async def _challenge_of(server: Server, http: LoginHttp) -> BearerChallenge:
    try:
        answer = await http.look(server.url)
    except TimeoutError:
        return BearerChallenge()
    return (bearer_challenge(answer.challenges) if answer.status == 401 else None) or BearerChallenge()


async def _resource(server: Server, http: LoginHttp, challenge: BearerChallenge) -> ResourceMetadata | None:
    """Return the metadata of the server, None if it has none. The address that it named comes first."""
    named = [challenge.metadata] if challenge.metadata else []
    if named and not is_safe(named[0], loopback=http.loopback):
        raise InvalidMetadata(say("it names metadata at a URL that is not safe: HTTPS is required"))
    fault: Message | None = None
    for url in dict.fromkeys((*named, *resource_metadata_urls(server.url))):
        try:
            answer = await http.get(url)
            if answer.status == 200 and answer.document:
                return resource_metadata(answer.document)
        except LoginRequestFailed as failed:
            fault = fault or failed.why
            continue
        if answer.status >= 500 or answer.status == 429:
            # It says nothing about whether there is metadata.
            fault = fault or say("{url} answers with status {status}", url=url[:300], status=answer.status)
    if fault is not None:
        raise InvalidMetadata(fault)
    return None


def _issuer(server: Server, metadata: ResourceMetadata | None) -> str:
    """Return the issuer to use: the first that the server names, else the server's own site."""
    if metadata is None:
        return origin_of(server.url)
    if not metadata.authorization_servers:
        raise InvalidMetadata(say("its metadata names no authorization server"))
    return metadata.authorization_servers[0]


async def _authorization_server(http: LoginHttp, issuer: str) -> AuthorizationServer:
    if not is_safe(issuer, loopback=http.loopback):
        raise InvalidMetadata(
            say(
                "its authorization server {issuer} is not at a safe URL: HTTPS is required",
                issuer=issuer[:300],
            )
        )
    fault: LoginRequestFailed | None = None
    for url in authorization_server_urls(issuer):
        try:
            answer = await http.get(url)
        except LoginRequestFailed as failed:
            fault = fault or failed
            continue
        if answer.status == 200 and answer.document:
            return authorization_server(answer.document, issuer, loopback=http.loopback)
    if fault is not None:
        raise fault
    raise InvalidMetadata(
        say("the authorization server {issuer} has no metadata (RFC 8414)", issuer=issuer[:300])
    )


def _failure(server: str, why: Message) -> UpstreamUnavailable:
    return UpstreamUnavailable(say("The login at {server!n} cannot begin: {why}.", server=server, why=why))


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
        if place.takes_metadata_documents:
            why = say(
                "the authorization server {issuer} knows clients by a document that they host, and registers "
                'none. Set "clientMetadataUrl" in its "oauth", or the setting login_client_metadata_url',
                issuer=place.issuer,
            )
        else:
            why = say(
                "the authorization server {issuer} registers no clients by itself. Register a client there, "
                'and set "clientId" in its "oauth"',
                issuer=place.issuer,
            )
        raise UpstreamUnavailable(why)
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
    host = urlsplit(redirect).hostname
    wanted = {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect] if redirect else [],
        "grant_types": list(grants),
        "response_types": ["code"] if "authorization_code" in grants else [],
        "token_endpoint_auth_method": method,
        "application_type": "native" if host is None or is_loopback(host) else "web",
        **({"scope": " ".join(scopes)} if scopes else {}),
    }
    try:
        answer = await http.post_json(place.registration_endpoint, wanted)
    except LoginRequestFailed as failed:
        raise UpstreamUnavailable(_registration_refused(place, failed.why)) from None
    given = answer.document.get("client_id")
    if answer.status not in (200, 201) or not _is_credential(given):
        why = answer.explanation() or answer.error()
        raise UpstreamUnavailable(_registration_refused(place, _status(answer.status, why)))
    secret = answer.document.get("client_secret")
    named = answer.document.get("token_endpoint_auth_method")
    expires = answer.document.get("client_secret_expires_at")
    if isinstance(expires, bool) or not isinstance(expires, int | float) or not 0 < expires < _LATEST:
        expires = 0.0
    return KeptClient(
        str(given),
        str(secret) if _is_credential(secret) else "",
        _usable_method(place, named if isinstance(named, str) else method, has_secret=_is_credential(secret)),
        registered=True,
        redirect=redirect,
        grants=grants,
        expires=float(expires),
    )


def _usable_method(place: AuthorizationServer, method: str, *, has_secret: bool) -> str:
    if method not in METHODS:
        raise UpstreamUnavailable(
            _registration_refused(place, say("it wants {method}, which needs a key", method=method[:50]))
        )
    return method if has_secret else "none"


def _is_credential(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()


def _status(status: int, why: str) -> Message:
    return say("{status}: {why}", status=status, why=why) if why else say("status {status}", status=status)


def _registration_refused(place: AuthorizationServer, why: Message) -> Message:
    return say(
        "the authorization server {issuer} does not register Tabane ({why}). Register a client there, and "
        'set "clientId" in its "oauth"',
        issuer=place.issuer,
        why=why,
    )
