"""The URL of an index: ``chroma+https://host:8000/database`` or ``chroma:/folder``; pure."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from urllib.parse import SplitResult, unquote

from tabane.engine.index_parameters import (
    IndexAddress,
    bracketed,
    matching,
    split_address,
    unreadable_index,
    whole,
)

FOLDER, HTTP, HTTPS = "chroma", "chroma+http", "chroma+https"
PORT = 8000
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,20}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")  # at least 3 characters, as Chroma wants it


@dataclass(frozen=True, slots=True)
class ChromaUrl:
    """A checked URL. ``place`` is what may be shown.

    ``folder``: that of a database; if empty, there is a server at ``host`` and ``port``. ``login``: user and
    password. ``prefix`` begins the names of collections. ``timeout``: seconds of a search.
    """

    place: str
    folder: str = ""
    host: str = ""
    port: int = PORT
    tls: bool = False
    tenant: str = "default_tenant"
    database: str = "default_database"
    token: str = field(default="", repr=False)
    login: str = field(default="", repr=False)
    prefix: str = "tabane"
    timeout: int = 2


def parsed(url: str) -> ChromaUrl:
    """Parse a URL. Raises ConfigurationError, which contains no password and no token."""
    address = split_address(url, PORT)
    parts, given = address.parts, address.parameters
    common = ChromaUrl(
        place="",
        prefix=given.take("prefix", matching(_PREFIX), "tabane"),
        timeout=given.take("timeout", whole(1, 60), 2),
    )
    if parts.scheme == FOLDER and not parts.netloc:
        found = _of_folder(parts, common)
    elif parts.scheme in (HTTP, HTTPS) and address.host:
        found = _of_server(address, common)
    else:
        raise unreadable_index()
    given.end()
    return found


def _of_folder(parts: SplitResult, common: ChromaUrl) -> ChromaUrl:
    folder = os.path.expanduser(unquote(parts.path))
    if not os.path.isabs(folder):
        raise unreadable_index()
    folder = os.path.normpath(folder)
    return replace(common, folder=folder, place=f"{FOLDER}:{folder}{_suffix(common)}")


def _of_server(address: IndexAddress, common: ChromaUrl) -> ChromaUrl:
    parts, host, port, login, given = address
    database = unquote(parts.path.strip("/")) or common.database
    if not _NAME.fullmatch(database):
        raise unreadable_index()
    found = replace(
        common,
        host=host,
        port=port,
        tls=parts.scheme == HTTPS,
        tenant=given.take("tenant", matching(_NAME), common.tenant),
        database=database,
        token=given.take("token", str, ""),
        login=login,
    )
    tenant = "" if found.tenant == common.tenant else f"{found.tenant}:"
    shown = "" if not tenant and found.database == common.database else f"/{tenant}{found.database}"
    return replace(found, place=f"{parts.scheme}://{bracketed(host)}:{port}{shown}{_suffix(found)}")


def _suffix(url: ChromaUrl) -> str:
    return "" if url.prefix == "tabane" else f"?prefix={url.prefix}"
