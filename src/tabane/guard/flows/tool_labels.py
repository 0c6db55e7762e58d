"""The labels of a tool: what the user says, then its server's annotations, then the table, then its words.

An annotation may add labels. It removes only what was guessed from words: a server that claims to be harmless
stays untrusted.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from tabane.guard.flows.label_inference import inferred_labels
from tabane.guard.flows.label_table import LabelTable
from tabane.guard.flows.tool_facts import DescribedTool, ServerFacts
from tabane.servers.labels import DESTRUCTIVE, EXTERNAL, NO_LABELS, UNTRUSTED, CallLabels, LabelChange


def labels_of_tool(tool: DescribedTool, server: ServerFacts, table: LabelTable) -> CallLabels:
    """Return the labels of a tool, and where each comes from."""
    change = _change(tool.name, server)
    found = NO_LABELS.with_labels(change.added, "settings")
    known = table.find(server)
    listed = known.labels(tool.name) if known is not None else None
    for rest in (_annotated(tool, known=listed is not None), listed or _guessed(tool)):
        for bit, origin in rest.origins:
            found = found.with_labels(bit & ~change.removed, origin, rest.if_given)
    return found


def _change(name: str, server: ServerFacts) -> LabelChange:
    """Return what the user says of a tool: what is about the single tool wins."""
    change = server.change
    for pattern, single in server.tools:
        if fnmatchcase(name, pattern):
            change = change.then(single)
    return change


def _annotated(tool: DescribedTool, *, known: bool) -> CallLabels:
    found = NO_LABELS
    if tool.destructive and not tool.read_only:
        found = found.with_labels(DESTRUCTIVE, "annotation")
    if tool.open_world and not known:
        found = found.with_labels(UNTRUSTED if tool.read_only else EXTERNAL, "annotation")
    return found


def _guessed(tool: DescribedTool) -> CallLabels:
    found = inferred_labels(tool)
    return found.without(DESTRUCTIVE) if tool.read_only else found
