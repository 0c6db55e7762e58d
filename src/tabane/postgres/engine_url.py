"""The URL of a database: ``postgresql://user:password@host:port/database?schema=tabane``; pure.

``schema`` is Tabane's own parameter: the schema that holds its tables. All others are those of libpq
(https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from tabane.errors import ConfigurationError
from tabane.messages import say

SCHEMES = ("postgresql", "postgres")
SCHEMA = "tabane"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")


@dataclass(frozen=True, slots=True)
class EngineUrl:
    """A checked URL. ``conninfo`` is for libpq and holds the password; ``place`` is what may be shown."""

    conninfo: str = field(repr=False)
    place: str
    schema: str = SCHEMA


def parsed(url: str) -> EngineUrl:
    """Parse a URL. Raises ConfigurationError, which never contains the password."""
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _unreadable() from None
    if parts.scheme not in SCHEMES or parts.fragment:
        raise _unreadable()
    schemas = [value for name, value in query if name == "schema"]
    rest = [(name, value) for name, value in query if name != "schema"]
    schema = schemas[-1] if schemas else SCHEMA
    if not _NAME.fullmatch(schema):
        raise ConfigurationError(
            say("schema in the setting engine must consist of a-z, 0-9 and _: {name}", name=schema)
        )
    conninfo = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(rest, quote_via=quote), ""))
    return EngineUrl(conninfo, _place(host, port, parts.path, dict(rest), schema), schema)


def _place(host: str, port: int | None, path: str, query: dict[str, str], schema: str) -> str:
    shown = unquote(host) or query.get("host", "localhost")
    if ":" in shown:
        shown = f"[{shown}]"
    shown += f":{port}" if port else f":{query['port']}" if "port" in query else ""
    database = unquote(path.lstrip("/")) or query.get("dbname", "")
    return f"postgresql://{shown}/{database}" + ("" if schema == SCHEMA else f"?schema={schema}")


def _unreadable() -> ConfigurationError:
    return ConfigurationError(
        say("engine must be empty or a URL such as postgresql://user:${{PGPASSWORD}}@host/database")
    )
