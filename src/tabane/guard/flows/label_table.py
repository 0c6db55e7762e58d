"""The shipped table of well-known servers and the labels of their tools.

``known_servers.json`` has one object a server: the packages that start it, the hosts that it is reached at,
and labels by pattern of the tools' names. The first pattern that fits decides. Patterns are joined by ``|``,
and ``external?attendees`` is external only if that parameter is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from tabane.guard.flows.tool_facts import ServerFacts
from tabane.servers.labels import NO_LABELS, CallLabels, label_bits

TABLE_FILE = Path(__file__).with_name("known_servers.json")


class KnownServer(msgspec.Struct, frozen=True):
    """One server of the table."""

    name: str
    packages: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    tools: dict[str, tuple[str, ...]] = {}

    def labels(self, tool: str) -> CallLabels | None:
        """Return the labels of a tool; None if no pattern fits."""
        tool = tool.lower()
        for patterns, given in self.tools.items():
            if any(fnmatchcase(tool, pattern) for pattern in patterns.split("|")):
                return _read_labels(given)
        return None


class LabelTable:
    """Finds well-known servers by what starts them or where they are. The file is read on first use."""

    def __init__(self, file: Path = TABLE_FILE) -> None:
        self._file = file

    @cached_property
    def servers(self) -> Sequence[KnownServer]:
        return msgspec.json.decode(self._file.read_bytes(), type=list[KnownServer])

    def find(self, server: ServerFacts) -> KnownServer | None:
        """Return what the table knows of a server; None if nothing."""
        host = _host(server.url)
        if host:
            return next(
                (known for known in self.servers if any(_is_at(host, each) for each in known.hosts)), None
            )
        for word in server.words:
            if (known := self._packages.get(_package(word))) is not None:
                return known
        return None

    @cached_property
    def _packages(self) -> dict[str, KnownServer]:
        return {package: known for known in self.servers for package in known.packages}


def _read_labels(given: Sequence[str]) -> CallLabels:
    found = NO_LABELS
    for text in given:
        name, _, condition = text.partition("?")
        found = found.with_labels(
            label_bits((name,)), "table", tuple(condition.split(",")) if condition else ()
        )
    return found


def _package(word: str) -> str:
    """Return the package in a word of a command: without version, tag, folder and source."""
    word = word.rpartition("git+")[2] if "git+" in word else word
    if word.startswith(("/", ".", "~")) or "://" in word:
        word = word.rstrip("/").rpartition("/")[2].removesuffix(".git")
    for mark in ("==", ">=", "["):
        word = word.partition(mark)[0]
    scope, at, name = word[:1], word[1:].partition("@")[1], word[1:].partition("@")[0]
    word = scope + name if at else word
    return word.partition(":")[0].lower()


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower() if url else ""
    except ValueError:
        return ""


def _is_at(host: str, domain: str) -> bool:
    return host == domain or host.endswith("." + domain)
