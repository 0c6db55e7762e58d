"""The operation scan_servers: definitions in the catalog are scanned for orders to the model and deceit."""

from __future__ import annotations

import asyncio
from typing import Any

from tabane.gateway.gateway import Gateway
from tabane.gateway.parameters import ScanServers
from tabane.gateway.scanning.findings import SEVERITIES, Finding
from tabane.gateway.scanning.listing_scan import ListedDefinition, ScannedDefinition, listed, scanned
from tabane.messages import Lang
from tabane.operations import Caller


class ScanOperations:
    """Scans what the servers listed last. No server is started."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def scan(self, caller: Caller, params: ScanServers) -> dict[str, Any]:
        """Return the findings of each definition, the worst first, and how much was scanned.

        ``unknown`` are servers whose definitions are not known, because they never ran. Raises UnknownName.
        """
        every = [self._gateway.server(name, caller.access).name for name in self._gateway.servers]
        names = [self._gateway.server(name, caller.access).name for name in params.names or every]
        definitions: list[ListedDefinition] = []
        for name in every:
            listing = self._gateway.listing(name)
            definitions.extend(listed(name, listing.lists) if listing else ())
        results = await asyncio.to_thread(lambda: list(scanned(definitions, names)))
        return report_of(results, names, caller.lang)


def report_of(results: list[ScannedDefinition], names: list[str], lang: Lang) -> dict[str, Any]:
    """Return the answer: ``{scanned, highest, results, unknown}``."""
    rows = [_row(one, finding, lang) for one in results for finding in one.findings]
    rows.sort(key=lambda row: SEVERITIES.index(row["severity"]))
    seen = {one.server for one in results}
    return {
        "scanned": len(results),
        "highest": rows[0]["severity"] if rows else None,
        "results": rows,
        "unknown": [name for name in names if name not in seen],
    }


def _row(one: ScannedDefinition, finding: Finding, lang: Lang) -> dict[str, Any]:
    return {
        "server": one.server,
        "kind": one.kind,
        "name": one.name,
        "rule": finding.rule,
        "severity": finding.severity,
        "message": finding.message.render(lang),
        "excerpt": finding.excerpt,
    }
