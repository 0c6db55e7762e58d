"""The operation scan_servers: definitions in the catalog are scanned for orders to the model and deceit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, NamedTuple

from tabane.catalog.gateway import Gateway
from tabane.catalog.operations.parameters import ScanServers
from tabane.guard.definitions.definition import Kind
from tabane.guard.definitions.definition_scans import DefinitionScans
from tabane.guard.definitions.findings import DefinitionFinding
from tabane.guard.scanner.findings import SEVERITIES, unfinished
from tabane.guard.scanner.listing_scan import (
    ListedDefinition,
    by_server,
    definitions_of_file,
    listed,
    scanned,
)
from tabane.guard.scanner.scanner import DefinitionScanner
from tabane.messages import Lang
from tabane.operations import Caller


class ReportedDefinition(NamedTuple):
    """A definition of a server, and what was found in it."""

    server: str
    kind: Kind
    name: str
    findings: Sequence[DefinitionFinding]


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
        results = [each async for each in self._scanned(definitions, names)]
        return report_of(results, names, caller.lang)

    async def _scanned(
        self, definitions: list[ListedDefinition], names: list[str]
    ) -> AsyncIterator[ReportedDefinition]:
        scans = self._gateway.review.scans or DefinitionScans(DefinitionScanner)
        for server, texts, others in await asyncio.to_thread(lambda: list(by_server(definitions, names))):
            found = await scans.scan(server, texts, others)
            for one, findings in zip(texts, found, strict=True):
                yield ReportedDefinition(
                    server, one.kind, one.name, (unfinished(),) if findings is None else findings
                )


def report_of(results: Sequence[ReportedDefinition], names: Iterable[str], lang: Lang) -> dict[str, Any]:
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


def report_of_file(server: str, content: bytes, lang: Lang) -> dict[str, Any]:
    """Return the answer about the definitions in a file. Raises BadArguments if it holds none."""
    results = [ReportedDefinition(*one) for one in scanned(definitions_of_file(server, content))]
    return report_of(results, () if results else (server,), lang)


def _row(one: ReportedDefinition, finding: DefinitionFinding, lang: Lang) -> dict[str, Any]:
    return {
        "server": one.server,
        "kind": one.kind,
        "name": one.name,
        "rule": finding.rule,
        "severity": finding.severity,
        "message": finding.message.render(lang),
        "excerpt": finding.excerpt,
    }
