"""Tools of one server by the names that the server itself gives them."""

from __future__ import annotations

from msgspec import Raw

from tabane.catalog.tools.app_metadata import with_own_page
from tabane.catalog.tools.catalog import ToolCatalog
from tabane.catalog.tools.tool import Tool
from tabane.wire.json import fields, join, quote

MOST_SERVERS = 64
"""Servers whose names are kept; each needs one entry for each tool."""


class OwnNames:
    """The tools of a catalog under their servers' own names. They are read again when the catalog changes."""

    def __init__(self, catalogue: ToolCatalog) -> None:
        self._catalogue = catalogue
        self._version = -1
        self._tools: dict[str, dict[str, Tool]] = {}

    def of(self, server: str) -> dict[str, Tool]:
        """Return the tools of a server by name, in its order."""
        if self._version != self._catalogue.version or len(self._tools) >= MOST_SERVERS:
            self._tools, self._version = {}, self._catalogue.version
        if server not in self._tools:
            self._tools[server] = {tool.shown_name: tool for tool in self._catalogue.of_server(server)}
        return self._tools[server]

    def find(self, server: str, name: str) -> Tool | None:
        """Return the tool of that server and name; None if there is none, or it is hidden.

        A tool that the user renamed is found by both names: the page of an app knows only the server's.
        """
        tools = self.of(server)
        return tools.get(name) or next((tool for tool in tools.values() if tool.name == name), None)


def own_definition(tool: Tool) -> bytes:
    """Return the definition of a tool with the name that its server or the user gave it, and its own page."""
    return join({**with_own_page(fields(tool.definition)), "name": Raw(quote(tool.shown_name))})
