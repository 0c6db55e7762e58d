"""Discovery of the authorization server of a server: RFC 9728, RFC 8414 and OpenID Connect Discovery."""

from __future__ import annotations

from msgspec import Struct

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say
from tabane.servers.server import Server
from tabane.upstreams.logins.challenges import BearerChallenge, bearer_challenge
from tabane.upstreams.logins.fetching import LoginHttp, LoginRequestFailed
from tabane.upstreams.logins.metadata import (
    AuthorizationServer,
    InvalidMetadata,
    ResourceMetadata,
    authorization_server,
    authorization_server_urls,
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
