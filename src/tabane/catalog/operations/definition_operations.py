"""Operations that guard against servers: changed or suspicious definitions, and scans.

A definition that changed or looks like an attack is listed, compared and decided. A scan looks for orders to
the model and deceit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, NamedTuple

from tabane.catalog.gateway import Gateway
from tabane.catalog.operations.table import (
    DecideDefinitions,
    ListDefinitionChanges,
    ScanServers,
    ShowDefinitionChange,
)
from tabane.errors import BadArguments, UnknownName
from tabane.guard.definitions.definition import (
    ChosenDefinition,
    DefinitionFinding,
    DefinitionKey,
    Kind,
    definition_diff,
)
from tabane.guard.definitions.definition_fields import changed_fields
from tabane.guard.definitions.review import DefinitionChange, DefinitionScans
from tabane.guard.scanner.findings import SEVERITIES, unfinished
from tabane.guard.scanner.scanner import (
    DefinitionScanner,
    ListedDefinition,
    by_server,
    definitions_of_file,
    listed,
    scanned,
)
from tabane.messages import Lang, say
from tabane.operations import Caller
from tabane.workers.time_slices import TimeSlices


class DefinitionOperations:
    """Shows and decides what the review of definitions has found."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.scans = ScanOperations(gateway)

    async def changes(self, caller: Caller, params: ListDefinitionChanges) -> dict[str, Any]:
        """Return the definitions that wait, those that are held back first, and how many they are."""
        names = [self._gateway.server(params.server).name] if params.server else list(self._gateway.servers)
        review, turns = self._gateway.review, TimeSlices()
        found, rows = [], []
        for name in names:
            for pinned in review.waiting(name):
                await turns.pause()
                found.append(review.change(name, pinned))
        found.sort(key=lambda each: (not each.held, not each.current, each.server, each.key))
        for change in found[: params.limit]:
            await turns.pause()
            rows.append(change.row(caller.lang))
        return {"results": rows, "total": len(found), "held": sum(each.held for each in found)}

    async def show(self, caller: Caller, params: ShowDefinitionChange) -> dict[str, Any]:
        """Return one change with its difference to the definition that is trusted, as lines and as fields."""
        change = self._find_change(params)
        bodies = await self._gateway.review.bodies(change.server, change.key)
        new = bodies.get(change.pin.digest)
        if new is None:
            raise UnknownName(say("The definition of {name} is not kept any more.", name=params.name))
        old = bodies.get(change.before) if change.before else None
        lines = await asyncio.to_thread(definition_diff, old, new)
        diff = [{"mark": line.mark, "text": line.text} for line in lines]
        excerpts = [finding.excerpt for finding in change.pin.findings or ()]
        changed = await asyncio.to_thread(changed_fields, old, new, excerpts)
        fields = [
            {**field._asdict(), "marks": [mark._asdict() for mark in field.marks]} for field in changed.fields
        ]
        row = change.row(caller.lang)
        for field in changed.fields:
            for mark in field.marks:  # what earlier versions kept is in small letters
                row["findings"][mark.finding]["excerpt"] = (field.after or "")[mark.start : mark.end]
        return {**row, "diff": diff, "fields": fields, "more_fields": changed.more}

    async def accept(self, caller: Caller, params: DecideDefinitions) -> dict[str, Any]:
        """Accept definitions of a server. Return how many still wait."""
        return await self._decide_definitions(params, accept=True)

    async def reject(self, caller: Caller, params: DecideDefinitions) -> dict[str, Any]:
        """Reject definitions of a server. Return how many still wait."""
        return await self._decide_definitions(params, accept=False)

    async def _decide_definitions(self, params: DecideDefinitions, *, accept: bool) -> dict[str, Any]:
        server = self._gateway.server(params.server).name
        waiting = self._gateway.review.waiting(server)
        names = {(key.kind, pin.digest): key.name for key, pin in waiting}
        chosen = []
        for each in params.definitions:
            try:
                digest = bytes.fromhex(each.digest)
            except ValueError:
                raise BadArguments(
                    say("digest: the hash of a definition is required, as it was listed."), "definitions"
                ) from None
            # A definition contains its name, so kind and digest are enough.
            name = each.name if each.name is not None else names.get((each.kind, digest), "")
            chosen.append(ChosenDefinition(DefinitionKey(each.kind, name), digest))
        await self._gateway.decide(server, chosen, accept=accept)
        left = self._gateway.review.counts(server)
        return {
            "server": server,
            "status": "accepted" if accept else "rejected",
            "count": len(params.definitions),
            "waiting": left["waiting"],
            "held": left["held"],
        }

    def _find_change(self, params: ShowDefinitionChange) -> DefinitionChange:
        """Return the change that is meant: of several, the one that the server lists now."""
        server = self._gateway.server(params.server).name
        found = [
            each
            for each in self._gateway.review.changes(server)
            if params.name in (None, each.key.name)
            and params.kind in (None, each.key.kind)
            and params.digest in (None, each.pin.digest.hex())
        ]
        if found:
            return max(found, key=lambda each: (each.current, each.key.kind == "tool", each.pin.seen))
        raise UnknownName(
            say(
                "No change of {name} at {server!n} waits. List those that wait: tabane servers changes "
                "{server!c}",
                name=params.name or "instructions",
                server=server,
            )
        )


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
            listing = self._gateway.catalogs.listing(name)
            definitions.extend(listed(name, listing.lists) if listing else ())
        results = [each async for each in self._scanned(definitions, names)]
        return report_of(results, names, caller.lang)

    async def _scanned(
        self, definitions: list[ListedDefinition], names: list[str]
    ) -> AsyncIterator[ReportedDefinition]:
        scans = self._gateway.review.scans or DefinitionScans(DefinitionScanner)
        for server, texts, others in await asyncio.to_thread(list, by_server(definitions, names)):
            found = await scans.scan(server, texts, others)
            for one, findings in zip(texts, found, strict=True):
                yield ReportedDefinition(
                    server, one.kind, one.name, (unfinished(),) if findings is None else findings
                )


def report_of(results: Sequence[ReportedDefinition], names: Iterable[str], lang: Lang) -> dict[str, Any]:
    """Return the answer: ``{scanned, highest, results, unknown}``."""
    rows = [
        {
            "server": one.server,
            "kind": one.kind,
            "name": one.name,
            "rule": finding.rule,
            "severity": finding.severity,
            "message": finding.message.render(lang),
            "excerpt": finding.excerpt,
        }
        for one in results
        for finding in one.findings
    ]
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
