"""Tools for tests of searching and showing them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tabane.catalog.tools.tool import Tool, read_tool
from tabane.servers.server import Server

CORPUS = Path(__file__).with_name("tools.json")


def tool(
    name: str,
    description: str = "",
    properties: dict[str, Any] | None = None,
    *,
    server: str = "files",
    tags: tuple[str, ...] = (),
    category: str = "",
    **members: Any,
) -> Tool:
    """A tool as its upstream would define it; ``members`` are further members of the definition."""
    definition = {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties or {}},
    }
    found = read_tool(
        json.dumps(definition | members).encode(),
        Server(name=server, tags=tags, category=category),
        f"{server}__{name}",
    )
    assert found is not None
    return found


def corpus() -> tuple[dict[str, list[Tool]], list[dict[str, Any]]]:
    """The tools of tests/catalog/tools/tools.json by server, and the queries with the right tool of each."""
    data = json.loads(CORPUS.read_text(encoding="utf-8"))
    servers: dict[str, list[Tool]] = {}
    for entry in data["tools"]:
        server = Server(name=entry["server"])
        raw = json.dumps(entry["definition"]).encode()
        found = read_tool(raw, server, f"{server.name}__{entry['definition']['name']}")
        assert found is not None
        servers.setdefault(server.name, []).append(found)
    return servers, data["queries"]
