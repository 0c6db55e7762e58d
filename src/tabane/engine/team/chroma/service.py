"""A Chroma service: its URL, and the protocol of a server over HTTP or a folder in a process; pure."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote

from tabane.engine.candidate_index import (
    IndexAddress,
    bracketed,
    matching,
    split_address,
    whole,
)
from tabane.errors import StoreError
from tabane.settings.addresses import unreadable_index

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


LONGEST = 30.0
"""Seconds of a call that is no search."""

CONFIGURATION: Mapping[str, Any] = {
    "hnsw": {
        "space": "ip",  # the vectors are unit vectors
        "max_neighbors": 16,
        "ef_construction": 100,
        "ef_search": 256,  # a search for more candidates looks at as many
        "batch_size": 1000,
        "sync_threshold": 10_000,  # vectors after which Chroma writes the whole index
    }
}


class DamagedCollection(StoreError):
    """Chroma answers, but cannot use a collection."""


@dataclass(frozen=True, slots=True)
class ChromaCollection:
    """A collection: its id, which is never used again, and what is noted in its metadata."""

    id: str
    dimension: int | None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class ChromaService(Protocol):
    """Calls that block and end within seconds. Each raises StoreError.

    A call with an id raises it also if there is no such collection any more.
    """

    def version(self) -> str:
        """Connect, and return the version of Chroma."""
        ...

    def find(self, name: str) -> ChromaCollection | None:
        """Return the collection of that name; None if there is none."""
        ...

    def create(self, name: str, metadata: Mapping[str, str]) -> None:
        """Create a collection with this metadata, unless it exists."""
        ...

    def drop(self, name: str) -> None:
        """Drop a collection, if it is there."""
        ...

    def note(self, name: str, id: str, metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a collection."""
        ...

    def put(self, name: str, id: str, rows: Sequence[int], vectors: Sequence[bytes]) -> None:
        """Add or replace vectors of float32."""
        ...

    def remove(self, name: str, id: str, rows: Sequence[int]) -> None:
        """Delete vectors by row, if they are there."""
        ...

    def nearest(self, name: str, id: str, vector: bytes, most: int, seconds: float) -> list[int]:
        """Return rows, the most similar first. Raises DamagedCollection if Chroma fails at it."""
        ...

    def close(self) -> None:
        """Close connections, or end the process. A later call opens them again."""
        ...
