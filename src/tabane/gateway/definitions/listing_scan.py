"""Scan of all that a server lists, for a trial: nothing is pinned."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Raw

from tabane.gateway.definitions.definition import KINDS, read_definitions
from tabane.gateway.definitions.findings import Judges, kept_findings
from tabane.messages import Lang


def suspicious_definitions(
    server: str,
    lists: Mapping[str, Sequence[Raw]],
    judges: Judges | None,
    lang: Lang,
    others: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Return the definitions in which something is found, for a thread; none if nobody scans."""
    return [] if judges is None else list(_found(server, lists, judges, lang, others))


def _found(
    server: str, lists: Mapping[str, Sequence[Raw]], judges: Judges, lang: Lang, others: Collection[str]
) -> Iterator[dict[str, Any]]:
    judge = judges()
    for name, items in lists.items():
        for key, _, body in read_definitions(KINDS[name], items, lambda kind, item: b""):
            found = kept_findings(judge.scan(server, key.kind, key.name, bytes(body), others))
            if found:
                rows = [finding.row(lang) for finding in found]
                yield {"kind": key.kind, "name": key.name, "findings": rows}
