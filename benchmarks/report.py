"""The sections of docs/performance.md, each written by its own run: tables, goals, units."""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import psutil

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
ORDER = (
    *(
        "gateway",
        "skill",
        "disclosure",
        "tools",
        "everything",
        "versions",
        "http",
        "questions",
        "scripts",
        "result_types",
        "codetasks",
        "scanning",
        "logins",
        "neighbors",
        "starts",
        "cages",
        "access",
        "door",
        "flows",
        "keys",
        "audit",
        "search",
        "vectors",
        "postgres",
        "migration",
        "approximate",
        "growth",
        "milvus",
        "chroma",
        "hubs",
        "embedding",
        "models",
        "hybrid",
        "posts",
        "backfill",
        "documents",
        "web",
    ),
    "other_reads",
    "reader",
    "pdf",
)
_TITLE = "# Performance"
_SECTION = re.compile(r"<!-- (\w+) -->\n(.*?)\n<!-- /\1 -->", re.DOTALL)


def publish(section: str, parts: Iterable[str], *, write: bool) -> None:
    """Print a section, and replace what its last run wrote to the page if ``write`` is set."""
    text = "\n\n".join(parts)
    print(text)
    if not write:
        return
    sections = dict(_SECTION.findall(PAGE.read_text(encoding="utf-8"))) if PAGE.exists() else {}
    sections[section] = text
    blocks = [f"<!-- {name} -->\n{sections[name]}\n<!-- /{name} -->" for name in ORDER if name in sections]
    PAGE.write_text("\n\n".join([_TITLE, *blocks]) + "\n", encoding="utf-8")
    print(f"\nwritten to {PAGE}", file=sys.stderr)


def machine(command: str) -> str:
    """Return what was run, when, and on what machine."""
    memory = psutil.virtual_memory().total / 2**30
    load = psutil.getloadavg()[0]
    return (
        f"Measured on {date.today():%Y-%m-%d} with `{command}` on {psutil.cpu_count()} cores, "
        f"{memory:.0f} GiB, Python {sys.version.split()[0]}; load average {load:.2f} at the end."
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table that also reads well in a terminal."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    lines.insert(1, ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    return "\n".join(f"| {' | '.join(_aligned(line, widths))} |" for line in lines)


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = line
    return [
        first.ljust(widths[0]),
        *(text.rjust(width) for text, width in zip(rest, widths[1:], strict=True)),
    ]


@dataclass(frozen=True)
class Goal:
    """A figure and its goal: at most ``limit``, or at least ``limit`` if ``least`` is set.

    ``limit_digits`` are the digits of the goal, if they are not those of the figure.
    """

    what: str
    value: float
    limit: float
    unit: str = ""
    digits: int = 0
    least: bool = False
    limit_digits: int | None = None

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.least else self.value <= self.limit

    @property
    def row(self) -> tuple[str, str, str, str]:
        digits = self.digits if self.limit_digits is None else self.limit_digits
        limit = f"{'≥' if self.least else '≤'} {self.limit:,.{digits}f}{self.unit}"
        return self.what, f"{self.value:,.{self.digits}f}{self.unit}", limit, "met" if self.met else "missed"


def goals(several: Iterable[Goal]) -> str:
    """Return the table of goals."""
    return table(("", "measured", "goal", ""), (goal.row for goal in several))


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, the 95th percentile and the maximum."""
    return statistics.median(values), quantile(values, 0.95), max(values)


def latencies(names: Mapping[str, str], figures: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of requests by kind: their ``ms``, and the ``cpu`` of one, in milliseconds."""
    rows = (
        (name, *(f"{each:.2f}" for each in (*spread(figures[kind]["ms"]), figures[kind]["cpu"])))
        for kind, name in names.items()
    )
    return table(("ms", "p50", "p95", "most", "CPU"), rows)


def number(value: float | None, form: str = ",.0f") -> str:
    """Return a formatted number, or a dash if there is none."""
    return "–" if value is None else f"{value:{form}}"


def compared(value: float | None, base: float | None) -> str:
    """Return a figure, and how many times ``base`` it is."""
    ratio = f" ({value / base:.1f} ×)" if value and base and value != base else ""
    return f"{number(value, '.2f')}{ratio}"


def megabytes(memory: tuple[float, float]) -> str:
    """Return resident memory, and what of it is no page of a mapped file."""
    return f"{memory[0]:,.0f} MB ({memory[1]:,.0f})"
