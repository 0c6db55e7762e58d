"""Checks of the settings that decide who can reach the hub over HTTP: address, TLS, proxies, names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tabane.errors import ConfigurationError
from tabane.messages import Message, say
from tabane.settings.table import Settings

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

_HOST_ENTRY = r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:(\d{1,5}|\*))?"
_PUBLIC_URL = r"https?://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:\d{1,5})?/?"

WILDCARDS = frozenset(("", "0.0.0.0", "::"))
"""Addresses that mean every address of this machine."""


def check_listening(settings: Settings) -> None:
    """Raise ConfigurationError if the hub would be reachable in a way that is not safe."""
    _check_pair(settings)
    _check_names(settings)
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
            "trusted_proxies: {given} trusts every machine. Name the addresses of your proxies.",
            given=entry,
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


def _check_names(settings: Settings) -> None:
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


def _wrong_name(entry: str) -> Message:
    return say(
        "hosts: {given} is not the name of a host. Write tabane.example.com or tabane.example.com:8443.",
        given=entry[:200],
    )
