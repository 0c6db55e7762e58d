"""Scans of definitions beside the event loop: short ones in a thread, long ones elsewhere."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from tabane.guard.definitions.findings import DefinitionFinding, Judges
from tabane.guard.scanner.findings import ScannedText

log = logging.getLogger(__name__)

LONG = 8_192
"""Bytes of a definition from which it is long. A rule may hold the interpreter while it reads a text."""

SLICE, REST = 0.004, 0.001
"""Seconds for which a thread scans, and for which it rests then, so that the event loop gets its turn."""


ScanResult = Sequence[DefinitionFinding] | None
"""Findings in a definition; None if it could not be scanned now, and is scanned again later."""


class LongScans(Protocol):
    """Scans long definitions where they hold nobody up."""

    async def scan(
        self, server: str, definitions: Sequence[ScannedText], others: Collection[str]
    ) -> Sequence[ScanResult]:
        """Return the result of each definition."""
        ...

    async def close(self) -> None:
        """Give up what is scanned now."""
        ...


class DefinitionScans:
    """Scans definitions. ``judges`` has the scanner; ``long`` scans what is too long for a thread.

    Without ``long``, all definitions are scanned in a thread.
    """

    def __init__(self, judges: Judges, long: LongScans | None = None) -> None:
        self._judges, self._long = judges, long

    async def scan(
        self, server: str, definitions: Sequence[ScannedText], others: Collection[str]
    ) -> list[ScanResult]:
        """Return the result of each definition. ``others`` are the tools of the other servers."""
        elsewhere = self._long
        if elsewhere is None:
            return await asyncio.to_thread(self._scan_here, server, definitions, others)
        long = [len(one.body) > LONG for one in definitions]
        short = [one for one, is_long in zip(definitions, long, strict=True) if not is_long]
        here = iter(await asyncio.to_thread(self._scan_here, server, short, others) if short else ())
        rest = [one for one, is_long in zip(definitions, long, strict=True) if is_long]
        there = iter(await elsewhere.scan(server, rest, others) if rest else ())
        return [next(there if is_long else here) for is_long in long]

    async def close(self) -> None:
        """Give up what is scanned now, and end what scans long definitions."""
        if self._long is not None:
            await self._long.close()

    def _scan_here(
        self, server: str, definitions: Iterable[ScannedText], others: Collection[str]
    ) -> list[ScanResult]:
        """Scan in this thread, and rest now and then."""
        judge, found = self._judges(), list[ScanResult]()
        until = time.perf_counter() + SLICE
        for one in definitions:
            try:
                found.append(judge.scan(server, one.kind, one.name, bytes(one.body), others))
            except Exception:
                log.exception("%s: the definition of %s could not be scanned", server, one.name)
                found.append(None)
            if time.perf_counter() > until:
                time.sleep(REST)
                until = time.perf_counter() + SLICE
        return found
