"""Servers as the registry's API answers them, read without trusting them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, cast

from msgspec import Struct

from tabane.messages import Lang
from tabane.servers.registry.registry_text import items, member, shown_text, shown_url
from tabane.servers.registry.runs import RegistryRun, runs_of

EntryStatus = Literal["active", "deprecated", "deleted"]

MOST_RUNS = 20
MOST_SERVERS = 200
"""Servers of one page of an answer that are read."""

OFFICIAL = "io.modelcontextprotocol.registry/official"

NAME = re.compile(r"[a-zA-Z0-9.-]{1,150}/[a-zA-Z0-9._-]{1,150}")
_LONGEST_CURSOR = 1_000


class RegistryServer(Struct, frozen=True):
    """One version of a server in the registry. ``runs`` are the ways to run it, in the publisher's order."""

    name: str
    version: str
    description: str = ""
    title: str = ""
    status: EntryStatus = "active"
    status_message: str = ""
    repository: str = ""
    website: str = ""
    updated: str = ""
    runs: tuple[RegistryRun, ...] = ()

    @property
    def short_name(self) -> str:
        """Return a name for the servers file: ``weather`` for ``io.github.user/weather``."""
        return self.name.rpartition("/")[2].strip(".") or "server"

    @property
    def usable_runs(self) -> tuple[RegistryRun, ...]:
        return tuple(run for run in self.runs if run.why_not is None)

    def row(self, lang: Lang) -> dict[str, Any]:
        """Return the server as JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "version": self.version,
            "status": self.status,
            "status_message": self.status_message,
            "repository": self.repository,
            "website": self.website,
            "updated": self.updated,
            "short_name": self.short_name,
            "runs": [run.row(self.short_name, lang) for run in self.runs],
        }


class RegistryPage(Struct, frozen=True):
    """A page of an answer. ``cursor`` is that of the next page; None if there is none."""

    servers: Sequence[RegistryServer]
    cursor: str | None = None


def page_of(answer: object) -> RegistryPage:
    """Return the servers of an answer, without those that are deleted or cannot be read.

    Raises ValueError if the answer is no list of servers.
    """
    if not isinstance(member(answer, "servers"), list):
        raise ValueError
    found = (server_of(given) for given in items(answer, "servers", MOST_SERVERS))
    cursor = member(member(answer, "metadata"), "nextCursor")
    usable = isinstance(cursor, str) and cursor.isprintable() and 0 < len(cursor) <= _LONGEST_CURSOR
    return RegistryPage(
        [server for server in found if server is not None and server.status != "deleted"],
        cursor if usable else None,
    )


def server_of(answer: object) -> RegistryServer | None:
    """Return a server of an answer; None if its name or version cannot be used."""
    server = member(answer, "server")
    name, version = member(server, "name"), shown_text(member(server, "version"), 100)
    if not isinstance(name, str) or not NAME.fullmatch(name) or not version:
        return None
    official = member(member(answer, "_meta"), OFFICIAL)
    status = member(official, "status")
    return RegistryServer(
        name,
        version,
        shown_text(member(server, "description")),
        shown_text(member(server, "title"), 100),
        cast("EntryStatus", status) if status in ("active", "deprecated", "deleted") else "active",
        shown_text(member(official, "statusMessage")),
        shown_url(member(member(server, "repository"), "url")),
        shown_url(member(server, "websiteUrl")),
        shown_text(member(official, "updatedAt"), 40),
        tuple(runs_of(server, MOST_RUNS)),
    )
