"""The section of the performance page about growth; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.growth.corpus import DIMENSION
from benchmarks.report import machine, table

ENGINES = {"files": "files", "postgresql": "PostgreSQL"}
_KINDS = {
    "nearest": "10 nearest",
    "nearest tenth": "10 nearest in 10 % of the dates",
    "words ja": "keywords, Japanese",
    "words en": "keywords, English",
    "get": "a record by key",
    "write": "write of one record",
}
_METHOD = f"""
Texts of 120 characters on average, half Japanese, half English; vectors of {DIMENSION} numbers; two fields.
Each engine has its defaults: from 50,000 vectors, PostgreSQL has an approximate index. It runs on the same
cores, with fsync. Files are filled by upserts, PostgreSQL by `tabane migrate` with its keyword index. Memory
and times are those of a process that opens the collection and asks.
""".strip()


@dataclass(slots=True)
class Growth:
    """One engine at one size. ``disk``: bytes. ``server``: MB of the database server, 0 if there is none."""

    engine: str
    size: int
    filled: dict[str, float]
    disk: float
    asked: dict[str, Any] = field(default_factory=dict)
    server: float = 0.0


def growth_page(several: Sequence[Growth]) -> list[str]:
    """Return the section."""
    return [
        "## Growth of a collection",
        machine("python -m benchmarks.growth"),
        _METHOD,
        table(
            ("p50 (p95) in ms", *(f"{ENGINES[each.engine]}, {each.size:,}" for each in several)),
            ((name, *(_times(each, kind) for each in several)) for kind, name in _KINDS.items()),
        ),
        table(
            (
                "engine",
                "records",
                "filled, records a second",
                "until the indexes are complete, s",
                "5,000 more, records a second",
                "disk, MB",
                "bytes a record",
                "memory of the hub's part, MB",
                "without mapped files",
                "server, MB",
            ),
            map(_sizes, several),
        ),
    ]


def _times(one: Growth, kind: str) -> str:
    return f"{one.asked['median'][kind]:.1f} ({one.asked['p95'][kind]:.1f})"


def _sizes(one: Growth) -> Iterable[str]:
    memory = one.asked["memory"]
    yield ENGINES[one.engine]
    yield f"{one.size:,}"
    yield f"{one.filled['ingested']:,.0f}"
    yield f"{one.filled['built']:,.0f}"
    yield f"{one.asked['ingested']:,.0f}"
    yield f"{one.disk / 1e6:,.0f}"
    yield f"{one.disk / one.size:,.0f}"
    yield f"{memory['resident']:,.0f}"
    yield f"{memory['anonymous']:,.0f}"
    yield f"{one.server:,.0f}" if one.server else "–"
