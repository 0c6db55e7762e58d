"""The labels and roles of everything that can be called through a hub, decided once, with the first call."""

from __future__ import annotations

from tabane.catalog.gateway import Gateway
from tabane.catalog.tools.tool import Tool
from tabane.guard.flows.flow_rule import labels_of_operation
from tabane.guard.flows.tool_labels import DescribedTool, LabelTable, ServerFacts, labels_of_tool
from tabane.guard.flows.tool_roles import NO_ROLES, ToolRoles, roles_of_tool
from tabane.operations import CallTarget
from tabane.servers.labels import NO_LABELS, READ_LABELS, CallLabels
from tabane.servers.server import Server
from tabane.wire.json import InvalidJson, fields, member

MOST_KEPT = 20_000
"""Targets whose labels are kept."""

MOST_TOOLS = 200
"""Tools of a server that are looked at for the labels of its resources. More of them may read anything."""


class TargetLabels:
    """Knows the labels of call targets.

    A tool whose definition has changed is another target, so its labels are decided again.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway, self._table = gateway, LabelTable()
        self._kept: dict[str, tuple[CallTarget, CallLabels]] = {}
        self._roles: dict[str, tuple[CallTarget, ToolRoles]] = {}

    def __call__(self, target: CallTarget) -> CallLabels:
        kept = self._kept.get(target.name)
        if kept is not None and kept[0] is target:
            return kept[1]
        labels = self._decide(target)
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[target.name] = target, labels
        return labels

    def roles(self, target: CallTarget) -> ToolRoles:
        """Return what a target's parameters are for, and what it gives back."""
        kept = self._roles.get(target.name)
        if kept is not None and kept[0] is target:
            return kept[1]
        roles, server = NO_ROLES, self._gateway.servers.get(target.server)
        if server is not None:
            tool = self._gateway.catalog.get(target.name) if target.kind == "tool" else None
            named = DescribedTool(target.name.removeprefix(f"{target.server}__"))
            facts = named if tool is None else described_tool(tool)
            roles = roles_of_tool(facts, _server_facts(server), self._table)
        if len(self._roles) >= MOST_KEPT:
            self._roles.clear()
        self._roles[target.name] = target, roles
        return roles

    def forget(self) -> None:
        """Decide all labels and roles again: servers have changed."""
        self._kept.clear()
        self._roles.clear()

    def _decide(self, target: CallTarget) -> CallLabels:
        if not target.server:
            return labels_of_operation(target)
        server = self._gateway.servers.get(target.server)
        facts = _server_facts(server) if server is not None else ServerFacts(target.server)
        if target.kind == "tool":
            tool = self._gateway.catalog.get(target.name)
            named = DescribedTool(target.name.removeprefix(f"{target.server}__"))
            return labels_of_tool(named if tool is None else described_tool(tool), facts, self._table)
        if target.kind in ("resource", "prompt"):
            return self._of_resource(target.server, facts)
        return NO_LABELS.with_labels(facts.change.added, "settings")

    def _of_resource(self, server: str, facts: ServerFacts) -> CallLabels:
        """Return the labels of a resource or prompt: those of all that the server's tools read."""
        found = NO_LABELS.with_labels(facts.change.added, "settings")
        left = READ_LABELS & ~facts.change.removed
        for number, tool in enumerate(self._gateway.catalog.of_server(server)):
            if not left & ~found.bits:
                break
            if number == MOST_TOOLS:
                return found.with_labels(left, "name")
            for bit, origin in labels_of_tool(described_tool(tool), facts, self._table).origins:
                if bit & READ_LABELS and not bit & facts.change.removed:
                    found = found.with_labels(bit, origin)
        return found


def _server_facts(server: Server) -> ServerFacts:
    single = tuple((hints.pattern, hints.labels) for hints in server.hints)
    words = (server.command, *server.args) if server.command else ()
    return ServerFacts(server.name, words, server.url, server.labels, single)


def described_tool(tool: Tool) -> DescribedTool:
    """Return a tool of the catalog as its labels are decided from it."""
    hints = _annotations(tool.definition)
    found = tool.schema.get("properties")
    properties = found if isinstance(found, dict) else {}
    meanings = (each.get("description") if isinstance(each, dict) else "" for each in properties.values())
    return DescribedTool(
        tool.name,
        tool.title,
        tool.description,
        tuple(properties),
        _hint(hints, "readOnlyHint"),
        _hint(hints, "destructiveHint"),
        _hint(hints, "openWorldHint"),
        tuple(text if isinstance(text, str) else "" for text in meanings),
    )


def _annotations(definition: bytes) -> dict[str, object]:
    try:
        found = member(fields(definition), "annotations")
    except InvalidJson:
        return {}
    return found if isinstance(found, dict) else {}


def _hint(hints: dict[str, object], name: str) -> bool | None:
    value = hints.get(name)
    return value if isinstance(value, bool) else None
