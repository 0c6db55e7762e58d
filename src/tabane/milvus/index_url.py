"""The URL of an index: ``milvus://user:password@host:19530/database?index=hnsw``; pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from tabane.errors import ConfigurationError
from tabane.messages import say

SCHEME = "milvus"
PORT = 19530
KINDS = ("hnsw", "ivf_flat", "ivf_sq8", "diskann", "flat", "autoindex")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,20}")
_NUMBER = re.compile(r"[0-9]{1,4}")
_WORDS = {"true": True, "false": False}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MilvusUrl:
    """A checked URL. ``uri`` and ``token`` are for the client; ``place`` is what may be shown.

    ``prefix`` begins the names of collections. ``strong``: each search waits until it sees all writes.
    ``timeout``: seconds of a search.
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


def parsed(url: str) -> MilvusUrl:
    """Parse a URL. Raises ConfigurationError, which never contains the password."""
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        host, port = parts.hostname or "", parts.port or PORT
    except ValueError:
        raise _unreadable() from None
    if parts.scheme != SCHEME or not host or parts.fragment or len(dict(pairs)) < len(pairs):
        raise _unreadable()
    given = _Parameters(dict(pairs))
    database = unquote(parts.path.strip("/")) or "default"
    tls = given.take("tls", _boolean, False)
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    found = MilvusUrl(
        uri=f"{'https' if tls else 'http'}://{_bracketed(host)}:{port}",
        place="",
        token=given.take("token", str, "" if login == ":" else login),
        database=database,
        prefix=given.take("prefix", _matching(_NAME), "tabane"),
        kind=given.take("index", _one_of(KINDS), "hnsw"),
        shards=given.take("shards", _whole(1, 64), 2),
        replicas=given.take("replicas", _whole(1, 64), 1),
        mmap=given.take("mmap", _boolean, False),
        strong=given.take("consistency", _one_of(("watermark", "strong")), "watermark") == "strong",
        timeout=given.take("timeout", _whole(1, 60), 2),
    )
    given.end()
    return _placed(found, f"{_bracketed(host)}:{port}")


def _placed(found: MilvusUrl, address: str) -> MilvusUrl:
    database = "" if found.database == "default" else f"/{found.database}"
    suffix = "" if found.prefix == "tabane" else f"?prefix={found.prefix}"
    return replace(found, place=f"{SCHEME}://{address}{database}{suffix}")


class _Parameters:
    """Parameters that are taken one by one."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = given

    def take(self, name: str, read: Callable[[str], T | None], default: T) -> T:
        if name not in self._given:
            return default
        found = read(self._given.pop(name))
        if found is None:
            raise ConfigurationError(
                say("{name} in the setting vector_index has an unknown value", name=name)
            )
        return found

    def end(self) -> None:
        for name in self._given:
            raise ConfigurationError(say("the setting vector_index has no parameter {name}", name=name))


def _boolean(text: str) -> bool | None:
    return _WORDS.get(text)


def _one_of(words: tuple[str, ...]) -> Callable[[str], str | None]:
    return lambda text: text if text in words else None


def _matching(pattern: re.Pattern[str]) -> Callable[[str], str | None]:
    return lambda text: text if pattern.fullmatch(text) else None


def _whole(least: int, most: int) -> Callable[[str], int | None]:
    return lambda text: int(text) if _NUMBER.fullmatch(text) and least <= int(text) <= most else None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _unreadable() -> ConfigurationError:
    return ConfigurationError(
        say(
            "vector_index must be empty or a URL such as milvus://user:${{MILVUS_PASSWORD}}@host:19530/database"
        )
    )
