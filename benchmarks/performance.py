"""docs/performance.md: one page, a section for each folder of benchmarks, each written by its own run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

import psutil

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
ORDER = ("gateway", "http", "neighbors", "search", "vectors", "embedding", "posts", "documents", "reader")
_TITLE = "# Performance"
_SECTION = re.compile(r"<!-- (\w+) -->\n(.*?)\n<!-- /\1 -->", re.DOTALL)


def publish(section: str, text: str, *, write: bool) -> None:
    """Print a section, and put it into the page in place of what its last run wrote."""
    print(text)
    if not write:
        return
    sections = dict(_SECTION.findall(PAGE.read_text(encoding="utf-8"))) if PAGE.exists() else {}
    sections[section] = text
    parts = [f"<!-- {name} -->\n{sections[name]}\n<!-- /{name} -->" for name in ORDER if name in sections]
    PAGE.write_text("\n\n".join([_TITLE, *parts]) + "\n", encoding="utf-8")
    print(f"\nwritten to {PAGE}", file=sys.stderr)


def machine(command: str) -> str:
    """What was run, when, and on what."""
    memory = psutil.virtual_memory().total / 2**30
    load = psutil.getloadavg()[0]
    return (
        f"Measured on {date.today():%Y-%m-%d} with `{command}` on {psutil.cpu_count()} cores, "
        f"{memory:.0f} GiB, Python {sys.version.split()[0]}; load average {load:.2f} at the end."
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose columns line up in a terminal too; all but the first to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines.insert(1, rule)
    return "\n".join(f"| {' | '.join(_fitted(line, widths))} |" for line in lines)


def _fitted(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        line[0].ljust(widths[0]),
        *(text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True)),
    ]
