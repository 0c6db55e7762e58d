"""The URL of a database: ``postgresql://user:password@host:port/database?schema=tabane``; pure.

``schema`` and ``timeout`` are Tabane's own parameters: the schema that holds its tables, and the limit of a
statement in seconds. All others are those of libpq
(https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS). Several servers can be
named: ``host1:port1,host2:port2``.
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


TIMEOUT = 120.0
_LONGEST = 86_400.0


@dataclass(frozen=True, slots=True)
class EngineUrl:
    """A checked URL. ``conninfo`` is for libpq and holds the password; ``place`` is what may be shown."""

    conninfo: str = field(repr=False)
    place: str
    schema: str = SCHEMA
    timeout: float = TIMEOUT


def parsed(url: str) -> EngineUrl:
    """Parse a URL. Raises ConfigurationError, which never contains the password."""
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        servers = _shown_servers(parts.netloc)
    except ValueError:
        raise _unreadable_url() from None
    if parts.scheme not in SCHEMES or parts.fragment:
        raise _unreadable_url()
    ours = {name: value for name, value in query if name in ("schema", "timeout")}
    rest = [(name, value) for name, value in query if name not in ours]
    schema = ours.get("schema", SCHEMA)
    if not _NAME.fullmatch(schema):
        raise ConfigurationError(
            say("schema in the setting engine must consist of a-z, 0-9 and _: {name}", name=schema)
        )
    conninfo = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(rest, quote_via=quote), ""))
    place = _shown_place(servers, parts.path, dict(rest), schema)
    given = ours.get("timeout")
    try:
        seconds = TIMEOUT if given is None else float(given)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= _LONGEST:
        message = say("timeout in the setting engine must be a number of seconds: {given}", given=given)
        raise ConfigurationError(message)
    return EngineUrl(conninfo, place, schema, seconds)


def _shown_servers(netloc: str) -> str:
    """Return the servers without user and password. Raises ValueError."""
    shown = []
    for server in netloc.rpartition("@")[2].split(","):
        parts = urlsplit(f"//{server}")
        host, port = unquote(parts.hostname or ""), parts.port
        shown.append((f"[{host}]" if ":" in host else host) + (f":{port}" if port else ""))
    return ",".join(shown)


def _shown_place(servers: str, path: str, query: dict[str, str], schema: str) -> str:
    shown = servers or query.get("host", "localhost")
    if not servers and "port" in query:
        shown += f":{query['port']}"
    database = unquote(path.lstrip("/")) or query.get("dbname", "")
    return f"postgresql://{shown}/{database}" + ("" if schema == SCHEMA else f"?schema={schema}")


def _unreadable_url() -> ConfigurationError:
    return ConfigurationError(
        say("engine must be empty or a URL such as postgresql://user:${PGPASSWORD}@host/database")
    )
