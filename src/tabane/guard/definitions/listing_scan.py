"""Scan of all that a server lists, for a trial: nothing is pinned. It is imported with the first trial."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Raw

from tabane.guard.definitions.definition import KINDS, kept_findings, read_definitions
from tabane.guard.definitions.review import DefinitionScans
from tabane.guard.scanner.findings import ScannedText, unfinished
from tabane.messages import Lang


async def suspicious_definitions(
    server: str, lists: Mapping[str, Sequence[Raw]], scans: DefinitionScans | None, lang: Lang
) -> list[dict[str, Any]]:
    """Return the definitions in which something is found; none if nobody scans."""
    if scans is None:
        return []
    seen = await asyncio.to_thread(_texts, lists)
    found = await scans.scan(server, seen, ())
    return [
        {
            "kind": one.kind,
            "name": one.name,
            "findings": [finding.row(lang) for finding in kept_findings(findings or (unfinished(),))],
        }
        for one, findings in zip(seen, found, strict=True)
        if findings is None or findings
    ]


def _texts(lists: Mapping[str, Sequence[Raw]]) -> list[ScannedText]:
    return [
        ScannedText(key.kind, key.name, body)
        for name, items in lists.items()
        for key, _, body in read_definitions(KINDS[name], items, lambda kind, item: b"")
    ]
