"""Checks of the settings that name addresses: where the hub listens, OAuth, and the engine.

They decide who can reach the hub over HTTP: address, TLS, proxies, names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from tabane.errors import ConfigurationError
from tabane.messages import Message, say
from tabane.settings.table import Settings

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

_HOST_ENTRY = r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:(\d{1,5}|\*))?"
_PUBLIC_URL = r"https?://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:\d{1,5})?/?"

WILDCARDS = frozenset(("", "0.0.0.0", "::"))
"""Addresses that mean every address of this machine."""


def in_url(host: str) -> str:
    """Return a name or address as it is written in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def check_listening(settings: Settings) -> None:
    """Raise ConfigurationError if the hub would be reachable in a way that is not safe."""
    _check_pair(settings)
    for entry in settings.hosts:
        if not re.fullmatch(_HOST_ENTRY, entry, re.IGNORECASE):
            raise ConfigurationError(_wrong_name(entry))
    if settings.public_url and not re.fullmatch(_PUBLIC_URL, settings.public_url, re.IGNORECASE):
        raise ConfigurationError(
            say(
                "public_url must be scheme, host and port without a path, such as "
                "https://tabane.example.com, not {given}.",
                given=settings.public_url[:200],
            )
        )
    networks(settings.trusted_proxies)
    if settings.trusted_proxies and not settings.http_token:
        raise ConfigurationError(
            say(
                "trusted_proxies is set, and http_token is off: everyone who can reach the proxy could use "
                "the hub. Remove one of these settings."
            )
        )
    if not settings.http or is_this_machine(settings.host):
        return
    if not (settings.tls_certificate or settings.trusted_proxies):
        raise ConfigurationError(
            say(
                "host is {host}, which other machines can reach. This needs TLS: set tls_certificate and "
                "tls_key, or set trusted_proxies if a proxy with TLS is in front of the hub. Otherwise "
                "set host to 127.0.0.1, and let other machines connect through ssh -L.",
                host=settings.host or '""',
            )
        )
    if not settings.http_token:
        raise ConfigurationError(
            say(
                "host is {host}, which other machines can reach, and http_token is off. Remove http_token, "
                "or set host to 127.0.0.1.",
                host=settings.host,
            )
        )


def is_this_machine(host: str) -> bool:
    """Return whether an address is a loopback address, so that only this machine can reach it."""
    if host in ("localhost", "::1"):
        return True
    parts = host.split(".")
    return len(parts) == 4 and parts[0] == "127" and all(p.isdecimal() and int(p) < 256 for p in parts)


def networks(entries: Iterable[str]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return addresses and networks as networks. Raises ConfigurationError that names the wrong one."""
    return tuple(_network(entry) for entry in entries)


def _network(entry: str) -> IPv4Network | IPv6Network:
    from ipaddress import ip_network  # needed only for a hub behind a proxy

    try:
        found = ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        why = say(
            "trusted_proxies: {given} is not an address or a network. Write 10.0.0.5 or 10.0.0.0/24.",
            given=entry[:200],
        )
        raise ConfigurationError(why) from None
    if found.prefixlen == 0:
        why = say(
            "trusted_proxies: {given} trusts every machine. Name the addresses of your proxies.", given=entry
        )
        raise ConfigurationError(why)
    return found


def _check_pair(settings: Settings) -> None:
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        given, missing = "tls_certificate", "tls_key"
        if settings.tls_key:
            given, missing = missing, given
        raise ConfigurationError(
            say("{given} is set, but {missing} is not. TLS needs both.", given=given, missing=missing)
        )
    if settings.tls_client_ca and not settings.tls_certificate:
        raise ConfigurationError(
            say(
                "{given} is set, but {missing} is not. TLS needs both.",
                given="tls_client_ca",
                missing="tls_certificate",
            )
        )


def _wrong_name(entry: str) -> Message:
    return say(
        "hosts: {given} is not the name of a host. Write tabane.example.com or tabane.example.com:8443.",
        given=entry[:200],
    )


_SCHEMES = ("postgresql", "postgres")
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_INDEX_SCHEMES = ("milvus", "chroma", "chroma+http", "chroma+https")
_CHROMA = re.compile(r"chroma(\+https?)?:(//)?")
_SECRETS = ("password", "sslpassword", "token")


def check_engine(address: str) -> None:
    """Raise ConfigurationError, without the value, unless the address can be used."""
    unusable = ConfigurationError(
        say("engine must be empty or a URL such as postgresql://user:${PGPASSWORD}@host/database")
    )
    _check_address(address, _SCHEMES, unusable, "engine", "PGPASSWORD")


def check_advertise(address: str, engine: str) -> None:
    """Raise ConfigurationError unless other hubs can be told this address, and share a database."""
    if not address:
        return
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        usable = False
    if not usable or parts.path.rstrip("/") or parts.query or parts.username:
        raise ConfigurationError(
            say("advertise must be an address such as http://10.0.0.5:8317, not {given}", given=address)
        )
    if not engine:
        raise ConfigurationError(
            say("advertise is set, and engine is not: a group of hubs needs a database that they share")
        )


def check_vector_index(address: str, engine: str) -> None:
    """Raise ConfigurationError, without the value, unless the address can be used beside that engine."""
    _check_address(address, _INDEX_SCHEMES, unreadable_index(), "vector_index", "MILVUS_PASSWORD")
    if address and not engine:
        raise ConfigurationError(
            say("vector_index needs a database in the setting engine, whose vectors it indexes")
        )


def names_chroma(address: str) -> bool:
    """Return whether an address names an index on Chroma, which is no longer supported."""
    return _CHROMA.match(address) is not None


def removed_index(address: str) -> Message | None:
    """Return what of the address of an index is ignored, without secrets; None if nothing is.

    Chroma, and keywords on Milvus, were supported up to version 0.17. A hub with one of them starts.
    """
    if chroma := _CHROMA.match(address):
        return say(
            'vector_index = "{address}…" is no longer supported since 0.18: PostgreSQL and its replica serve '
            "the searches. Remove the setting.",
            address=chroma[0],
        )
    if "keywords=milvus" in re.split("[?&]", address):
        return say(
            "keywords=milvus in vector_index is no longer supported since 0.18: PostgreSQL and its replica "
            "serve the searches by keywords. Remove the parameter."
        )
    return None


def unreadable_index() -> ConfigurationError:
    """Return the error for the URL of an index that cannot be read."""
    return ConfigurationError(
        say(
            "vector_index must be empty or a URL such as milvus://user:${MILVUS_PASSWORD}@host:19530/database"
        )
    )


def _check_address(
    address: str, schemes: tuple[str, ...], unusable: ConfigurationError, name: str, usual: str
) -> None:
    """Check the scheme, and that secrets are variables. An address that is a variable itself can be used."""
    if not address or _VARIABLE.fullmatch(address):
        return
    try:
        parts = urlsplit(address)
        given = [parts.password, *(value for name, value in parse_qsl(parts.query) if name in _SECRETS)]
    except ValueError:
        raise unusable from None
    if parts.scheme not in schemes:
        raise unusable
    if not all(_VARIABLE.fullmatch(secret) for secret in given if secret):
        raise ConfigurationError(
            say(
                "the password in {name} must be a variable, such as {example}. Keep the password itself "
                "with: tabane secrets set {variable}",
                name=name,
                example=f"${{{usual}}}",
                variable=usual,
            )
        )


ASYMMETRIC = (*("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), *("ES256", "ES384", "ES512", "EdDSA"))
"""Algorithms of signatures that only the authorization server can make.

``none`` and HMAC are not among them: with HMAC, a public key could be used as the secret (RFC 8725, 2.1).
"""

_URLS = ("oauth_issuer", "oauth_jwks_url", "oauth_introspection_url")


def check_oauth(settings: Settings) -> None:
    """Raise ConfigurationError if the settings of OAuth are wrong, or do not fit together."""
    for name in _URLS:
        _check_url(name, getattr(settings, name))
    _check_algorithms(settings)
    if settings.oauth_introspection_url:
        if not (settings.oauth_client_id and settings.oauth_client_secret):
            raise ConfigurationError(
                say("oauth_introspection_url needs oauth_client_id and oauth_client_secret. Set both.")
            )
        if not _VARIABLE.fullmatch(settings.oauth_client_secret):
            raise ConfigurationError(  # without the value, which may be the secret itself
                say(
                    "oauth_client_secret must be a variable, such as ${{OAUTH_SECRET}}. Write the secret "
                    "itself to {path} as OAUTH_SECRET=…",
                    path=settings.home / "secrets.env",
                )
            )
    elif settings.oauth_introspect == "always":
        raise ConfigurationError(
            say("oauth_introspect is always, but oauth_introspection_url is not set. Set that URL too.")
        )
    needs_issuer = ("oauth_jwks_url", "oauth_introspection_url", "oauth_audience", "oauth_scopes")
    given = next((name for name in needs_issuer if getattr(settings, name)), None)
    if given and not settings.oauth_issuer:
        raise ConfigurationError(
            say(
                "{name} is set, but oauth_issuer is not. Set oauth_issuer to the URL of the "
                "authorization server.",
                name=given,
            )
        )


def is_safe_url(url: str) -> bool:
    """Return whether a URL may be asked: by https, or by http if only this machine answers."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if (
        not host
        or port == 0
        or "@" in parts.netloc
        or not (url.isascii() and url.isprintable())
        or " " in url
    ):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_this_machine(host))


def _check_url(name: str, given: str) -> None:
    if given and (not is_safe_url(given) or "#" in given or (name == "oauth_issuer" and "?" in given)):
        raise ConfigurationError(
            say(
                "{name} must be a URL that begins with https://, not {given}. http:// is allowed only for "
                "an authorization server on this machine.",
                name=name,
                given=ascii(given[:200]),
            )
        )


def _check_algorithms(settings: Settings) -> None:
    for given in settings.oauth_algorithms:
        if given not in ASYMMETRIC:
            raise ConfigurationError(
                say(
                    "oauth_algorithms: {given} cannot be allowed. Choose from {known}: their signatures "
                    "can be checked with a public key.",
                    given=ascii(given[:40]),
                    known=", ".join(ASYMMETRIC),
                )
            )
