"""Scans of long definitions, in processes that are killed when a scan takes too long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence

import msgspec

from tabane.errors import WorkerBusy, WorkerEnded, WorkerError, WorkerSpent
from tabane.guard.scanner.findings import Finding, ScannedText, unfinished
from tabane.workers.pool import Budget, Capacity, Pool
from tabane.workers.worker import Program, environment, module

log = logging.getLogger(__name__)

MOST_SENT = (1 << 20) + 1
"""Bytes of a definition that are sent to the process: the scanner finds that one byte is too much."""

MOST_SPENT = 3
"""Definitions of one list that may spend their budget. Those that follow are not scanned."""

LONGEST_LIST = 60.0
"""Seconds by the clock for the long definitions of one list."""

BUDGET = Budget(seconds=2.0, deadline=20.0, patience=60.0, tries=2)
CAPACITY = Capacity(turns=2, each=1, waiting=64, size=64_000_000)
IDLE = 60.0
_MEMORY = 1_000_000_000  # bytes of address space

_Findings = tuple[Finding, ...]


class ScanPool:
    """Scans in processes: one definition of a server at a time.

    ``environ`` is the hub's, ``errors`` the descriptor that a process writes its stderr to. The first
    definition starts a process, which ends when it has had nothing to do for a minute.
    """

    def __init__(
        self, environ: Mapping[str, str], errors: int | None = None, *, budget: Budget = BUDGET
    ) -> None:
        program = Program(module("tabane.guard.scanner.scan_worker"), environment(environ), _MEMORY, errors)
        self.pool = Pool(program, CAPACITY, idle=IDLE)
        self._budget = budget

    async def scan(
        self,
        server: str,
        definitions: Sequence[ScannedText],
        others: Collection[str],
        siblings: Collection[str] = (),
    ) -> list[_Findings | None]:
        """Return the findings of each definition; None for one that no process was there to scan."""
        from tabane.guard.scanner.scan_requests import ScanRequest, packed, read_findings  # few are long

        clock, names = asyncio.get_running_loop().time, packed(tuple(others))
        own = packed(tuple(map(_sendable, siblings)))
        until, spent = clock() + LONGEST_LIST, 0
        found: list[_Findings | None] = []
        for one in definitions:
            if spent >= MOST_SPENT or clock() > until:
                found.append((unfinished(),))
                continue
            request = ScanRequest(
                server,
                one.kind,
                _sendable(one.name),
                bytes(memoryview(one.body)[:MOST_SENT]),
                names,
                own,
            )
            try:
                answer = await self.pool.ask(packed(request), self._budget, key=server)
                found.append(read_findings(answer))
            except msgspec.DecodeError:
                found.append((unfinished(),))
            except (WorkerSpent, WorkerEnded, WorkerBusy) as error:
                log.warning("%s: the definition of %s was not scanned: %s", server, one.name, error)
                found.append((unfinished(),))
                spent += 1
            except WorkerError as error:
                log.warning("%s: the definition of %s was not scanned: %s", server, one.name, error)
                found.append(None)
        return found

    async def close(self) -> None:
        """End the processes. Nothing is scanned after that."""
        await self.pool.close()


def _sendable(name: str) -> str:
    """Return a name without halves of surrogate pairs, which cannot be sent."""
    return name.encode("utf-8", "replace").decode()
