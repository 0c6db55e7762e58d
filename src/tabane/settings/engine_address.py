"""Checks of the addresses of a database, in which no password is written, and of a hub in a group."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

from tabane.errors import ConfigurationError
from tabane.messages import say

_SCHEMES = ("postgresql", "postgres")
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_SECRETS = ("password", "sslpassword")


def check_engine(address: str) -> None:
    """Raise ConfigurationError, without the value, unless the address can be used."""
    if not address or _VARIABLE.fullmatch(address):
        return
    try:
        parts = urlsplit(address)
        given = [parts.password, *(value for name, value in parse_qsl(parts.query) if name in _SECRETS)]
    except ValueError:
        raise _unusable() from None
    if parts.scheme not in _SCHEMES:
        raise _unusable()
    if any(value and not _VARIABLE.fullmatch(value) for value in given):
        raise ConfigurationError(
            say(
                "the password in engine must be a variable, such as ${{PGPASSWORD}}. Keep the password "
                "itself with: tabane secrets set PGPASSWORD"
            )
        )


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


def _unusable() -> ConfigurationError:
    return ConfigurationError(
        say("engine must be empty or a URL such as postgresql://user:${{PGPASSWORD}}@host/database")
    )
