"""The URL of an index: ``milvus://user:password@host:19530/database?index=hnsw``; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from tabane.engine.candidate_index import (
    boolean,
    bracketed,
    matching,
    one_of,
    split_address,
    whole,
)
from tabane.settings.addresses import unreadable_index

SCHEME = "milvus"
PORT = 19530
KINDS = ("hnsw", "ivf_flat", "ivf_sq8", "diskann", "flat", "autoindex")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,20}")


@dataclass(frozen=True, slots=True)
class MilvusUrl:
    """A checked URL. ``uri`` and ``token`` are for the client; ``place`` is what may be shown.

    ``prefix`` begins the names of collections. ``strong``: each search waits until it sees all writes.
    ``timeout``: seconds of a search. ``keywords``: texts are searched, too, if the server has sparse vectors.
    """

    uri: str
    place: str
    token: str = field(default="", repr=False)
    database: str = "default"
    prefix: str = "tabane"
    kind: str = "hnsw"
    shards: int = 2
    replicas: int = 1
    mmap: bool = False
    strong: bool = False
    timeout: int = 2
    keywords: bool = False


def parsed(url: str) -> MilvusUrl:
    """Parse a URL. Raises ConfigurationError, which never contains the password."""
    parts, host, port, login, given = split_address(url, PORT)
    if parts.scheme != SCHEME or not host:
        raise unreadable_index()
    database = unquote(parts.path.strip("/")) or "default"
    address = f"{bracketed(host)}:{port}"
    tls = given.take("tls", boolean, False)
    found = MilvusUrl(
        uri=f"{'https' if tls else 'http'}://{address}",
        place="",
        token=given.take("token", str, login),
        database=database,
        prefix=given.take("prefix", matching(_NAME), "tabane"),
        kind=given.take("index", one_of(KINDS), "hnsw"),
        shards=given.take("shards", whole(1, 64), 2),
        replicas=given.take("replicas", whole(1, 64), 1),
        mmap=given.take("mmap", boolean, False),
        strong=given.take("consistency", one_of(("watermark", "strong")), "watermark") == "strong",
        timeout=given.take("timeout", whole(1, 60), 2),
        keywords=given.take("keywords", one_of(("postgres", "milvus")), "postgres") == "milvus",
    )
    given.end()
    path = "" if database == "default" else f"/{database}"
    suffix = "" if found.prefix == "tabane" else f"?prefix={found.prefix}"
    return replace(found, place=f"{SCHEME}://{address}{path}{suffix}")
