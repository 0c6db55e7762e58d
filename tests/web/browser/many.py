"""A home with many servers and tools, none of which has to be started: their lists are known already."""

from __future__ import annotations

import json
from contextlib import closing

from msgspec import Raw

from tabane.catalog.tools.listings import ListingsFile, listing_of
from tabane.servers.configuration import read_configuration
from tabane.servers.server import Server
from tabane.servers.variables import Variables
from tabane.wire.era import Era
from tests.web.browser.hub import WebHome

SERVERS, TOOLS = 500, 20
"""Servers, and tools of each."""


def prepare(home: WebHome, servers: int = SERVERS, tools: int = TOOLS) -> None:
    """Write so many servers and what they have listed, before the hub starts."""
    home.write_servers({f"server-{n:03}": {"command": "true"} for n in range(servers)})
    configuration = read_configuration(home.servers, Variables(home.environment, {}))
    with closing(ListingsFile(home.tabane / "catalogue.db")) as listings:
        for server in configuration.servers:
            definitions = tuple(_definition(server, number) for number in range(tools))
            listings.save(
                listing_of(
                    server.name, server.fingerprint, Era.LEGACY, "2025-11-25", "many", b'{"tools":{}}',
                    {"tools": definitions},
                )
            )  # fmt: skip


def _definition(server: Server, number: int) -> Raw:
    properties = {"path": {"type": "string", "description": "Where it is."}, "limit": {"type": "integer"}}
    definition = {
        "name": f"tool_{number:02}",
        "description": f"Does task {number} of {server.name}: reads a record and returns its fields.",
        "inputSchema": {"type": "object", "properties": properties, "required": ["path"]},
    }
    return Raw(json.dumps(definition).encode())
