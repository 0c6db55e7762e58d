"""Sets of tools and queries, with the right tools of each query: read from a file, and checked.

The format: ``{"tools": [{id, server, name, description, inputSchema?}], "queries": [{query, gold: [{ids:
[…]}]}]}``. An entry of ``gold`` is met by any of its ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabane.cli.bench.data_file import Entry, read_object
from tabane.messages import say

Definitions = Mapping[str, Sequence[Mapping[str, Any]]]
"""Definitions of tools as their server lists them, by server."""

MOST_TOOLS, MOST_QUERIES = 20_000, 50_000


@dataclass(frozen=True, slots=True)
class SetQuery:
    """A query, and its gold entries: the ids of the tools that meet each."""

    text: str
    gold: Sequence[frozenset[str]]

    def recall(self, found: Sequence[str], cut: int) -> float:
        """Return the share of gold entries that the first ``cut`` ids meet."""
        first = set(found[:cut])
        return sum(bool(first & ids) for ids in self.gold) / len(self.gold)


@dataclass(frozen=True, slots=True)
class ToolSet:
    """A set. ``ids`` has the id of a tool by its server and name, as they are in ``servers``."""

    name: str
    servers: Definitions
    ids: Mapping[tuple[str, str], str]
    queries: Sequence[SetQuery]


def read_set(file: Path) -> ToolSet:
    """Return the set in a file. Raises DataFileError."""
    root = Entry(file, "$", read_object(file))
    tools, queries = root.entries("tools"), root.entries("queries")
    if len(tools) > MOST_TOOLS or len(queries) > MOST_QUERIES:
        raise root.error(
            say(
                "it has more than {tools} {tools:tool|tools} or {queries} {queries:query|queries}",
                tools=MOST_TOOLS,
                queries=MOST_QUERIES,
            )
        )
    places: dict[str, dict[str, Mapping[str, Any]]] = {}
    ids: dict[tuple[str, str], str] = {}
    used: set[str] = set()
    for entry in tools:
        server, name = _place(entry, places)
        given = entry.text("id")
        if given in used:
            raise entry.error(say("{place}.id is used twice: {id}", place=entry.place, id=given))
        used.add(given)
        ids[server, name] = given
        places.setdefault(server, {})[name] = _definition(entry, name)
    servers = {server: list(found.values()) for server, found in places.items()}

    return ToolSet(file.stem, servers, ids, [_query(entry, used) for entry in queries])


def _place(entry: Entry, places: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """Return a server name that a servers file takes and that has no tool of this name yet, and the name."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", entry.text("server")).strip("-_")[:40] or "server"
    name, server, number = entry.text("name"), plain, 1
    while name in places.get(server, {}):
        number += 1
        server = f"{plain}-{number}"
    return server, name


def _definition(entry: Entry, name: str) -> Mapping[str, Any]:
    schema = entry.get("inputSchema", dict, {})
    if not schema:
        members = entry.get("params", dict, {})
        schema = {"properties": {key: _member(value) for key, value in members.items()}}
    return {
        "name": name,
        "description": entry.get("description", str, ""),
        "inputSchema": {"type": "object", **schema},
    }


def _member(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {"description": str(value)}


def _query(entry: Entry, known: set[str]) -> SetQuery:
    gold = []
    for each in entry.entries("gold"):
        ids = frozenset(each.strings("ids"))
        if unknown := sorted(ids - known):
            raise each.error(say("{place}.ids names no tool: {id}", place=each.place, id=unknown[0]))
        gold.append(ids)
    return SetQuery(entry.text("query"), gold)
