"""The type of a tool's results, as it was learned from results that were seen; pure."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tabane.catalog.tools.schemas import SchemaRoot, TypeDetail, type_of
from tabane.text.cutting import shortened

_DETAIL = TypeDetail(values=60, levels=3, quoted=False)
_LONGEST = 600


class LearnedResult(Struct, frozen=True):
    """A JSON Schema of results, and the number of results that it was learned from. It is only a hint."""

    schema: dict[str, Any]
    results: int

    def line(self) -> str:
        """Return the line for a model."""
        kind = shortened(type_of(self.schema, SchemaRoot(self.schema), _DETAIL), _LONGEST)
        return f"→ {kind} (learned from {self.results} results; others may differ)"

    def row(self) -> dict[str, Any]:
        """Return the values for programs."""
        return {"schema": self.schema, "results": self.results}
