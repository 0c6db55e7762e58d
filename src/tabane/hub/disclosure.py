"""What an assistant is shown of the hub, by mode: instructions, and the list of tools as bytes.

The list of mode *search* is fixed by settings, not by data: the disclosure tools, then what is
pinned. It is the same for every client and over time, which also keeps clients' prompt caches whole.
"""

from __future__ import annotations

from tabane.gateway.gateway import Gateway
from tabane.operations import Face, Operation, Table, input_schema
from tabane.settings import Mode
from tabane.wire import json
from tabane.wire.era import Era

LISTED = ("search_tools", "describe_tools", "call_tool", "call_readonly_tool", "read_more")
"""The tools of mode search, in order."""

MOST_NAMED = 40
"""Servers that the instructions name."""


class Disclosure:
    """Lists and instructions, made from the table of operations and the catalogue."""

    def __init__(self, table: Table, gateway: Gateway) -> None:
        self._gateway = gateway
        self._definitions = {
            operation.name: json.encode(definition(operation)) for operation in table.with_face(Face.MCP)
        }

    def built_in(self, name: str) -> bytes | None:
        """The definition of a built-in tool, None where there is none of that name."""
        return self._definitions.get(name)

    def instructions(self, mode: Mode) -> str:
        """What a model is told once: where the tools are, and of which servers, so that it knows to look."""
        if mode == "full":
            return ""
        names = [server.name for server in self._gateway.servers.values() if not server.disabled]
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        servers = f" Servers: {', '.join(names[:MOST_NAMED])}{more}." if names else ""
        if mode == "light":
            return f"Read a tool's parameters with describe_tools before calling it.{servers}"
        return (
            f"More tools are found with search_tools, read with describe_tools, run with call_tool.{servers}"
        )

    def list_is_ready(self, mode: Mode) -> bool:
        """Whether no enabled server's tools are missing from the list of that mode."""
        servers = self._gateway.servers.values()
        if mode == "search":
            return all(
                self._gateway.catalogue.has(server.name)
                for server in servers
                if server.pin and not server.disabled
            )
        return all(server.disabled or self._gateway.catalogue.has(server.name) for server in servers)

    def tool_list(self, mode: Mode, era: Era | None) -> bytes:
        """The result of tools/list as JSON."""
        tools = b",".join(part for part in self._parts(mode) if part)
        if era is Era.MODERN:
            # Lists of upstreams change when they say so; a minute bounds how stale a quiet client gets.
            return b'{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[' + tools + b"]}"
        return b'{"tools":[' + tools + b"]}"

    def _parts(self, mode: Mode) -> list[bytes]:
        if mode == "search":
            return [
                *(self._definitions[name] for name in LISTED if name in self._definitions),
                self._gateway.pinned(),
            ]
        if mode == "light":
            return [self._definitions["describe_tools"], self._gateway.catalogue.light()]
        return [self._gateway.catalogue.full()]


def definition(operation: Operation) -> dict[str, object]:
    """An operation as a tool of MCP."""
    shown: dict[str, object] = {
        "name": operation.name,
        "description": operation.description,
        "inputSchema": input_schema(operation.params),
    }
    if operation.read_only:
        shown["annotations"] = {"readOnlyHint": True}
    return shown
