"""The check of the setting engine: an address of a database, in which no password is written."""

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


def _unusable() -> ConfigurationError:
    return ConfigurationError(
        say("engine must be empty or a URL such as postgresql://user:${{PGPASSWORD}}@host/database")
    )
