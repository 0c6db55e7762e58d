"""Checks of the settings engine, vector_index and advertise: addresses without passwords in them."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

from tabane.errors import ConfigurationError
from tabane.messages import say

_SCHEMES = ("postgresql", "postgres")
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_INDEX_SCHEMES = ("milvus", "chroma", "chroma+http", "chroma+https")
_SECRETS = ("password", "sslpassword", "token")


def check_engine(address: str) -> None:
    """Raise ConfigurationError, without the value, unless the address can be used."""
    scheme, secrets = _parts(address, _unusable_engine())
    if address and scheme not in ("", *_SCHEMES):
        raise _unusable_engine()
    if not all(map(_VARIABLE.fullmatch, secrets)):
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


def check_vector_index(address: str, engine: str) -> None:
    """Raise ConfigurationError, without the value, unless the address can be used beside that engine."""
    scheme, secrets = _parts(address, _unusable_index())
    if address and scheme not in ("", *_INDEX_SCHEMES):
        raise _unusable_index()
    if not all(map(_VARIABLE.fullmatch, secrets)):
        raise ConfigurationError(
            say(
                "the password in vector_index must be a variable, such as ${{MILVUS_PASSWORD}}. Keep the "
                "password itself with: tabane secrets set MILVUS_PASSWORD"
            )
        )
    if address and not engine:
        raise ConfigurationError(
            say("vector_index needs a database in the setting engine, whose vectors it indexes")
        )


def _parts(address: str, unusable: ConfigurationError) -> tuple[str, list[str]]:
    """Return the scheme and the secrets of an address; nothing if all of it is a variable."""
    if not address or _VARIABLE.fullmatch(address):
        return "", []
    try:
        parts = urlsplit(address)
        given = [parts.password, *(value for name, value in parse_qsl(parts.query) if name in _SECRETS)]
    except ValueError:
        raise unusable from None
    if not parts.scheme:
        raise unusable
    return parts.scheme, [value for value in given if value]


def _unusable_engine() -> ConfigurationError:
    return ConfigurationError(
        say("engine must be empty or a URL such as postgresql://user:${{PGPASSWORD}}@host/database")
    )


def _unusable_index() -> ConfigurationError:
    return ConfigurationError(
        say(
            "vector_index must be empty or a URL such as "
            "milvus://user:${{MILVUS_PASSWORD}}@host:19530/database, chroma+https://host:8000 "
            "or chroma:/folder"
        )
    )
