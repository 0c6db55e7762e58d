"""The section of the performance page about the engine on PostgreSQL; pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.postgres.migration import MigrationRates
from benchmarks.report import Goal, goals, machine, quantile, table

_NAMES = {
    "vector": "10 nearest of all",
    "vector tenth": "10 nearest, a range of dates that means 10 %",
    "vector user": "10 nearest, one user of 100",
    "words ja": "keywords, Japanese",
    "words en": "keywords, English",
    "contains": "records that contain 2 to 4 characters",
    "count": "count of a user's records",
    "facet": "facet of all users",
    "write": "write of one record",
}
_METHOD = """
- The server is PostgreSQL 18 with pgvector on the same cores, over a Unix socket, with fsync. All queries go
  through the collection, as the hub asks it.
- Texts are those of `benchmarks/search`: half Japanese, half English, 150 characters on average. Vectors have
  {dimension} numbers, around 500 centers.
- "Bare" is the same query of the 10 nearest by psycopg alone, asked in turns with ours. Both compare all
  vectors: the approximate index is measured by `--approximate`.
""".strip()


@dataclass(slots=True)
class Measured:
    """``ingested`` and ``writes``: records a second; ``disk``: MB; the rest are milliseconds."""

    size: int
    ingested: float = 0.0
    writes: float = 0.0
    disk: float = 0.0
    bare: list[float] = field(default_factory=list)
    queries: dict[str, list[float]] = field(default_factory=dict)
    there: MigrationRates | None = None
    back: MigrationRates | None = None


def page(several: Sequence[Measured], dimension: int) -> list[str]:
    """Return the section."""
    return [
        "## PostgreSQL",
        machine("python -m benchmarks.postgres"),
        _METHOD.format(dimension=dimension),
        _table(several),
        goals(
            Goal(f"p50 over bare psycopg, {each.size:,} records", _overhead(each), 1.2, " ×", 2)
            for each in several
        ),
        *_migrations(several),
    ]


def migration_page(several: Sequence[Measured]) -> list[str]:
    """Return the section about the migration alone."""
    return [
        "## Migration between files and PostgreSQL",
        machine("python -m benchmarks.postgres --migration"),
        *_migrations(several),
        goals(
            Goal(
                f"{each.size:,} records copied to PostgreSQL with vectors",
                each.there.copied,
                5000,
                " /s",
                least=True,
            )
            for each in several
            if each.there is not None
        ),
    ]


def _migrations(several: Sequence[Measured]) -> list[str]:
    rows = [
        (f"{name}, {each.size:,} records", f"{rates.copied:,.0f}", f"{rates.whole:,.0f}", f"{rates.cpu:.2f}")
        for each in several
        for name, rates in (("to PostgreSQL", each.there), ("back", each.back))
        if rates is not None
    ]
    head = ("`tabane migrate`", "copied with vectors, /s", "with keyword index, /s", "own CPU, ms a record")
    return [table(head, rows)] if rows else []


def _overhead(found: Measured) -> float:
    return statistics.median(found.queries["vector"]) / statistics.median(found.bare)


def _table(several: Sequence[Measured]) -> str:
    rows = [(name, *(_pair(each.queries[kind]) for each in several)) for kind, name in _NAMES.items()]
    bare = ("the 10 nearest, bare psycopg", *(_pair(each.bare) for each in several))
    more = [
        ("records a second, 1,000 at a time, with vectors", *(f"{each.ingested:,.0f}" for each in several)),
        ("records a second, one at a time, 8 writers", *(f"{each.writes:,.0f}" for each in several)),
        ("disk, MB", *(f"{each.disk:,.0f}" for each in several)),
    ]
    head = ("ms, p50 / p95", *(f"{each.size:,} records" for each in several))
    return table(head, [rows[0], bare, *rows[1:], *more])


def _pair(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} / {quantile(values, 0.95):.1f}"
