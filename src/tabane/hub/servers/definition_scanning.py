"""Scans of definitions as a hub has them: the scanner is loaded when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tabane.guard.definitions.definition_scans import DefinitionScans
from tabane.guard.scanner.scan_pool import ScanPool

if TYPE_CHECKING:
    from tabane.guard.definitions.findings import DefinitionJudge


def definition_scans(environment: Mapping[str, str], errors: int | None = None) -> DefinitionScans:
    """Return scans with a pool for long definitions, to be closed. ``errors`` is the stderr of the pool."""
    return DefinitionScans(_scanner, ScanPool(environment, errors))


def _scanner() -> DefinitionJudge:
    """Return the scanner. It is imported here, in a thread: it has many rules."""
    from tabane.guard.scanner.scanner import DefinitionScanner

    return DefinitionScanner()
