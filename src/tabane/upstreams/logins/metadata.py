"""Metadata of servers (RFC 9728) and authorization servers (RFC 8414, OpenID): addresses and checks; pure.

A server names its metadata in a challenge for bearer tokens: the header WWW-Authenticate (RFC 9110, 11.6.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say
from tabane.net.target import is_loopback
from tabane.servers.server import is_web
from tabane.servers.server_keys import is_scope
from tabane.text.lazy_patterns import lazy_pattern

LONGEST = 16 << 10
"""Characters of a header that are read."""

MOST_SCOPES = 200

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PART = lazy_pattern(
    rf'\s*(?:,\s*)*(?:(?P<name>{_TOKEN})\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>{_TOKEN}))'
    rf"|(?P<scheme>{_TOKEN})(?P<token68>\s+[A-Za-z0-9._~+/-]+=*(?=\s*(?:,|$)))?(?=\s|,|$))"
)
_ESCAPED = re.compile(r"\\(.)")


class BearerChallenge(Struct, frozen=True):
    """Challenge of a server for a token (RFC 6750). A member is empty if the server does not name it.

    ``metadata`` is the URL of its metadata (RFC 9728), ``error`` a code such as ``insufficient_scope``.
    """

    metadata: str = ""
    scopes: tuple[str, ...] = ()
    error: str = ""

    @property
    def wants_scopes(self) -> bool:
        """Return whether a token with more scopes would be accepted."""
        return self.error == "insufficient_scope"


def bearer_challenge(headers: Iterable[str]) -> BearerChallenge | None:
    """Return the first challenge for a bearer token; None if there is none."""
    for header in headers:
        for scheme, parameters in _challenges(header[:LONGEST]):
            if scheme == "bearer":
                return BearerChallenge(
                    parameters.get("resource_metadata", ""),
                    scopes_of(parameters.get("scope", "")),
                    parameters.get("error", ""),
                )
    return None


def scopes_of(text: object) -> tuple[str, ...]:
    """Return the scopes in a text with spaces, each once. Invalid ones are left out."""
    if not isinstance(text, str):
        return ()
    found = (word for word in text.split()[:MOST_SCOPES] if is_scope(word))
    return tuple(dict.fromkeys(found))


def _challenges(header: str) -> list[tuple[str, dict[str, str]]]:
    """Return each challenge with its scheme in lower case. A header that breaks off is read up to there."""
    found: list[tuple[str, dict[str, str]]] = []
    position = 0
    while part := _PART.match(header, position):
        position = part.end()
        if part["scheme"]:
            found.append((part["scheme"].lower(), {}))
        elif found:
            quoted = part["quoted"]
            value = part["plain"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
            found[-1][1].setdefault(part["name"].lower(), value)
    return found


LONGEST_URL = 2_000
MOST_ENTRIES = 200

_RESOURCE = "/.well-known/oauth-protected-resource"
_OAUTH = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"


class InvalidMetadata(Exception):
    """Metadata that must not be used, and why."""

    def __init__(self, why: Message) -> None:
        super().__init__(why)
        self.why = why


class ResourceMetadata(Struct, frozen=True):
    """Metadata of a server about itself. ``scopes`` is None if it does not say which scopes it knows."""

    resource: str
    authorization_servers: tuple[str, ...]
    scopes: tuple[str, ...] | None = None


class AuthorizationServer(Struct, frozen=True):
    """Metadata of an authorization server. An empty text is an endpoint that it does not have."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str = ""
    registration_endpoint: str = ""
    device_endpoint: str = ""
    revocation_endpoint: str = ""
    challenge_methods: tuple[str, ...] = ()
    authentication_methods: tuple[str, ...] = ()
    signing_algorithms: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    takes_metadata_documents: bool = False
    names_itself: bool = False
    """Whether each answer to the browser has the parameter ``iss`` (RFC 9207)."""


# -- addresses --------------------------------------------------------------------------------------


def resource_metadata_urls(server: str) -> list[str]:
    """Return where a server's metadata may be: with its path, then without."""
    parts = urlsplit(server)
    paths = [_RESOURCE + parts.path.rstrip("/"), _RESOURCE]
    return list(dict.fromkeys(urlunsplit((parts.scheme, parts.netloc, path, "", "")) for path in paths))


def authorization_server_urls(issuer: str) -> list[str]:
    """Return where an authorization server's metadata may be: RFC 8414, then OpenID with both its paths."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    paths = [_OAUTH + path, _OPENID + path, path + _OPENID]
    return list(dict.fromkeys(urlunsplit((parts.scheme, parts.netloc, each, "", "")) for each in paths))


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def canonical(server: str) -> str:
    """Return the URL of a server as a resource (RFC 8707): no fragment, scheme and host in lower case."""
    parts = urlsplit(server)
    host = parts.netloc.rpartition("@")[2].lower()
    path = "" if parts.path == "/" else parts.path
    return urlunsplit((parts.scheme.lower(), host, path, parts.query, ""))


def covers(resource: str, server: str) -> bool:
    """Return whether a resource is that server, or its site or folder: its tokens are for the server."""
    named, used = urlsplit(resource), urlsplit(server)
    same = (named.scheme.lower(), named.hostname, _port(named)) == (
        used.scheme.lower(), used.hostname, _port(used),
    )  # fmt: skip
    folder = named.path.rstrip("/")
    inside = used.path.rstrip("/") == folder or used.path.startswith(f"{folder}/")
    return same and inside and not (named.query and named.query != used.query)


def is_safe(url: str, *, loopback: bool) -> bool:
    """Return whether a URL may be used for a login: HTTPS; with ``loopback``, also HTTP on this computer."""
    if not url or len(url) > LONGEST_URL or not is_web(url) or "#" in url:
        return False
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None or not url.isprintable():
        return False
    return parts.scheme == "https" or (loopback and is_loopback(parts.hostname or ""))


def _port(parts: Any) -> int:
    return parts.port or (443 if parts.scheme.lower() == "https" else 80)


# -- documents --------------------------------------------------------------------------------------


def resource_metadata(document: Mapping[str, Any]) -> ResourceMetadata:
    """Return the metadata of a server. Raises InvalidMetadata if it names no resource."""
    resource = document.get("resource")
    if not isinstance(resource, str) or len(resource) > LONGEST_URL or not is_web(resource):
        raise InvalidMetadata(say("its metadata does not name its resource"))
    scopes = document.get("scopes_supported")
    return ResourceMetadata(
        resource,
        _texts(document, "authorization_servers"),
        tuple(filter(is_scope, _texts(document, "scopes_supported"))) if isinstance(scopes, list) else None,
    )


def authorization_server(document: Mapping[str, Any], issuer: str, *, loopback: bool) -> AuthorizationServer:
    """Return the metadata of an authorization server. Raises InvalidMetadata.

    ``issuer`` is the one that was looked up: a document of another one is refused (RFC 8414, 3.3).
    ``loopback``: its endpoints may use HTTP on this computer.
    """
    named = document.get("issuer")
    if not isinstance(named, str) or not is_web(named) or not _is_same_issuer(named, issuer):
        raise InvalidMetadata(
            say("its metadata is that of another issuer, {named}", named=str(named)[:LONGEST_URL])
        )

    def endpoint(key: str) -> str:
        url = document.get(key) or ""
        if url and not (isinstance(url, str) and is_safe(url, loopback=loopback)):
            raise InvalidMetadata(say("its {key} is not a safe URL: HTTPS is required", key=key))
        return str(url)

    token = endpoint("token_endpoint")
    if not token:
        raise InvalidMetadata(say("its metadata has no token_endpoint"))
    return AuthorizationServer(
        issuer=named,
        token_endpoint=token,
        authorization_endpoint=endpoint("authorization_endpoint"),
        registration_endpoint=endpoint("registration_endpoint"),
        device_endpoint=endpoint("device_authorization_endpoint"),
        revocation_endpoint=endpoint("revocation_endpoint"),
        challenge_methods=_texts(document, "code_challenge_methods_supported"),
        authentication_methods=_texts(document, "token_endpoint_auth_methods_supported"),
        signing_algorithms=_texts(document, "token_endpoint_auth_signing_alg_values_supported"),
        scopes=tuple(filter(is_scope, _texts(document, "scopes_supported"))),
        grants=_texts(document, "grant_types_supported"),
        takes_metadata_documents=document.get("client_id_metadata_document_supported") is True,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _is_same_issuer(named: str, issuer: str) -> bool:
    """Return whether two issuers are the same text. An empty path is the path ``/``, as in any URL."""
    if named == issuer:
        return True
    roots = [text + "/" if urlsplit(text).path == "" else text for text in (named, issuer)]
    return roots[0] == roots[1]


def _texts(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = document.get(key)
    if not isinstance(found, list):
        return ()
    return tuple(text for text in found[:MOST_ENTRIES] if isinstance(text, str) and len(text) <= LONGEST_URL)


# -- what is asked for ------------------------------------------------------------------------------


def resource_for(server: str, configured: str, metadata: ResourceMetadata | None) -> str:
    """Return the resource for which tokens are requested (RFC 8707).

    Raises UpstreamUnavailable if the metadata is about another server: tokens for it must not be sent here.
    """
    if configured:
        return configured
    if metadata is None:
        return canonical(server)
    if not covers(metadata.resource, server):
        raise UpstreamUnavailable(say(
            "its metadata is about another resource, {resource}. Tokens for that must not be sent to it. If "
            'it is right, set "resource" in its "oauth".', resource=metadata.resource))  # fmt: skip
    return metadata.resource


def scopes_for(
    given: tuple[str, ...] | None,
    wanted: tuple[str, ...],
    metadata: ResourceMetadata | None,
    server: AuthorizationServer,
    *,
    renewable: bool,
) -> tuple[str, ...]:
    """Return the scopes to ask for: those given by the user, those the server wants, or all that it knows.

    ``renewable``: tokens are renewed without the user, which some servers want to be asked for.
    """
    if given is not None:
        return tuple(dict.fromkeys((*given, *wanted)))
    found = wanted or (metadata.scopes if metadata else None) or ()
    if found and renewable and "offline_access" in server.scopes:
        found = (*found, "offline_access")
    return tuple(dict.fromkeys(found))


def granted_scopes(answer: object, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the scopes of a token. An answer that names none grants those that were asked for."""
    return scopes_of(answer) if isinstance(answer, str) else asked
