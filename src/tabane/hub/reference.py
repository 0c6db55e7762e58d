"""References to hits: one operation with its arguments, in the form that each face calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tabane.operations import Face


class Reference(NamedTuple):
    """The operation that shows a hit. Every face that finds the hit has this operation too."""

    operation: str
    arguments: Mapping[str, Any]

    def row(self, face: Face) -> dict[str, Any]:
        """Return the reference in the form of that face: a tool of MCP, or a method of JSON-RPC."""
        if face is Face.MCP:
            return {"tool": self.operation, "arguments": dict(self.arguments)}
        return {"method": self.operation, "params": dict(self.arguments)}
