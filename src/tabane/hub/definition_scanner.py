"""The scanner of definitions, loaded when it is first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tabane.gateway.definitions.findings import DefinitionJudge


def definition_scanner() -> DefinitionJudge:
    """Return the scanner. It is imported here, in a thread: it has many rules."""
    from tabane.gateway.scanning.scanner import DefinitionScanner

    return DefinitionScanner()
