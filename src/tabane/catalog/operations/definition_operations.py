"""Operations that guard against servers: changed or suspicious definitions, scans, and learning of cages.

A definition that changed or looks like an attack is listed, compared and decided. A scan looks for orders to
the model and deceit. A profile for a cage is learned from what a server is seen to use.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from tabane.catalog.gateway import Gateway
from tabane.catalog.operations.parameters import (
    DecideDefinitions,
    LearnSandbox,
    ListDefinitionChanges,
    NameParams,
    ScanServers,
    ShowDefinitionChange,
)
from tabane.errors import BadArguments, TabaneError, UnknownName
from tabane.guard.cages.learning import MOST_BYTES, LearnedProfile, propose, read_trace
from tabane.guard.definitions.definition import (
    ChosenDefinition,
    DefinitionFinding,
    DefinitionKey,
    Kind,
    definition_diff,
)
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
from tabane.servers.server import Server
from tabane.servers.server_keys import written
from tabane.workers.time_slices import TimeSlices


class DefinitionOperations:
    """Shows and decides what the review of definitions has found."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.scans, self.sandboxes = ScanOperations(gateway), SandboxOperations(gateway)

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
        """Return one change with the lines of its difference to the definition that is trusted."""
        change = self._find_change(params)
        bodies = await self._gateway.review.bodies(change.server, change.key)
        new = bodies.get(change.pin.digest)
        if new is None:
            raise UnknownName(say("The definition of {name} is not kept any more.", name=params.name))
        old = bodies.get(change.before) if change.before else None
        lines = await asyncio.to_thread(definition_diff, old, new)
        diff = [{"mark": line.mark, "text": line.text} for line in lines]
        return {**change.row(caller.lang), "diff": diff}

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


_LOOK = 1.0
"""Seconds between two looks at how large the trace is."""


@dataclass
class LearningSession:
    """A server that is being traced: where to, the task that ends it in time, and when that is."""

    file: Path
    limit: asyncio.Task[None]
    until: float


class SandboxOperations:
    """Learns the profiles of cages. A server has one trace at a time."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._sessions: dict[str, LearningSession] = {}
        self._starting: set[str] = set()

    async def start(self, caller: Caller, params: LearnSandbox) -> dict[str, Any]:
        """Restart a server under a tracer, without its cage, and list its tools.

        A trace that runs already goes on, so that a caller can end one whose caller is gone.
        """
        name = params.name
        server = self._gateway.server(name)
        session = self._sessions.get(name)
        if session is not None and not session.limit.done():
            return self._session_answer(name, params.seconds)
        if name in self._starting:
            raise BadArguments(say("What {name!n} uses is being learned already.", name=name), "name")
        self._starting.add(name)
        try:
            await self._trace(server, params.seconds)
        finally:
            self._starting.discard(name)
        return self._session_answer(name, params.seconds)

    def _session_answer(self, name: str, seconds: int) -> dict[str, Any]:
        left = ceil(self._sessions[name].until - self._gateway.loop.time())
        tools = len(self._gateway.catalog.of_server(name))
        return {"name": name, "seconds": max(1, min(left, seconds)), "tools": tools}

    async def _trace(self, server: Server, seconds: int) -> None:
        name, cages = server.name, self._gateway.cages
        if cages is None or server.transport != "stdio" or server.image:
            raise BadArguments(
                say(
                    "What {name!n} uses cannot be learned: it is not a process that Tabane starts.", name=name
                ),
                "name",
            )
        file = await asyncio.to_thread(cages.trace, server)
        until = self._gateway.loop.time() + seconds
        limit = self._gateway.loop.create_task(self._limited(name, file, until))
        self._sessions[name] = LearningSession(file, limit, until)
        try:
            await self._gateway.stop(name)
            await self._gateway.start(name)
        except BaseException:
            await self._end(name)
            raise

    async def finish(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        """End the trace, start the server as before, and return the profile for what was seen."""
        name = params.name
        if name not in self._sessions:
            raise BadArguments(
                say(
                    "What {name!n} uses is not being learned. Begin with: "
                    "tabane servers sandbox {name!c} --learn",
                    name=name,
                ),
                "name",
            )
        file = await self._end(name, keep=True)
        try:
            server = self._gateway.server(name)
            cages = self._gateway.cages
            private = str(cages.private_folder(name)) if cages is not None else ""
            found = await asyncio.to_thread(_learned, file, server.cwd or os.getcwd(), private)
        finally:
            await asyncio.to_thread(_remove, file)
        return {
            "name": name,
            "sandbox": written(found.profile),
            "notes": [note.render(caller.lang) for note in found.notes],
        }

    async def _limited(self, name: str, file: Path, until: float) -> None:
        """End the trace when its time is over, or when it has become too large."""
        while (  # noqa: ASYNC110  the size of a file sends no event
            self._gateway.loop.time() < until and await asyncio.to_thread(_size, file) < MOST_BYTES
        ):
            await asyncio.sleep(_LOOK)
        await self._untraced(name)

    async def _end(self, name: str, *, keep: bool = False) -> Path:
        session = self._sessions.pop(name)
        over = session.limit.done()
        session.limit.cancel()
        if not over:
            await self._untraced(name)
        if not keep:
            await asyncio.to_thread(_remove, session.file)
        return session.file

    async def _untraced(self, name: str) -> None:
        """Stop the traced process; the server starts as usual when it is needed."""
        if self._gateway.cages is not None:
            self._gateway.cages.untrace(name)
        with contextlib.suppress(TabaneError):
            await self._gateway.stop(name)
            await self._gateway.start(name)


def _learned(file: Path, cwd: str, private: str) -> LearnedProfile:
    with open(file, encoding="utf-8", errors="surrogateescape") as lines:
        seen = read_trace(lines, os.path.realpath(cwd))
    return propose(seen, os.path.realpath(private), os.path.realpath(os.path.expanduser("~")))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
