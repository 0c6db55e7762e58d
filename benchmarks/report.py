"""The report of a part of the benchmarks: its section of the performance page, with tables, goals, units."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import psutil
from benchmarks.machine import BUSY
from benchmarks.sections.blocks import Block, Goals, Table, Text, as_blocks
from benchmarks.sections.figure import Better, Figure
from benchmarks.sections.page import write_page
from benchmarks.sections.section import FIGURES, Section, figures_folder, write_section

_BEFORE = psutil.getloadavg()[0]
"""The load average before anything is measured: parts import this module first."""


def publish(name: str, parts: Iterable[Block | str], *, write: bool) -> None:
    """Print a section. If ``write`` is set, keep its figures, and render the page.

    The first part is the title, with or without ``##``. With another folder for the figures, which
    ``make bench-check`` has, the page stays as it is.
    """
    title, *blocks = as_blocks(parts)
    assert isinstance(title, Text)
    section = Section(
        name,
        title.text.removeprefix("## "),
        f"{date.today():%Y-%m-%d}",
        (_BEFORE, psutil.getloadavg()[0]),
        tuple(blocks),
    )
    print("\n\n".join([f"## {section.title}", *map(str, section.blocks)]))
    if not write:
        return
    folder = figures_folder()
    print(f"\nwritten to {write_section(section, folder)}", file=sys.stderr)
    if folder == FIGURES:
        write_page()


def machine(command: str) -> str:
    """Return what was run, when, on what machine, and how busy that was before and after."""
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"Measured on {date.today():%Y-%m-%d} with `{command}` on {psutil.cpu_count()} cores, "
        f"{memory:.0f} GiB, Python {sys.version.split()[0]}; {loads()}."
    )


def loads() -> str:
    """Return the load average before and now, and how busy the cores were before, if that is known."""
    busy = os.environ.get(BUSY)
    share = f" ({busy}% of the cores busy)" if busy else ""
    return f"load average {_BEFORE:.2f} before{share}, {psutil.getloadavg()[0]:.2f} at the end"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table that also reads well in a terminal."""
    return Table(tuple(head), tuple(tuple(row) for row in rows))


@dataclass(frozen=True)
class Goal:
    """A figure and its goal: at most ``limit``, or at least ``limit`` if ``least`` is set.

    ``limit_digits`` are the digits of the goal, if they are not those of the figure. ``limit`` is None for a
    figure without a goal. Figures with the unit ``" ×"`` are compared by ``make bench-check``.
    """

    what: str
    value: float
    limit: float | None
    unit: str = ""
    digits: int = 0
    least: bool = False
    limit_digits: int | None = None

    @property
    def figure(self) -> Figure:
        better = Better.MORE if self.least else Better.LESS
        return Figure(self.what, self.value, self.unit, self.digits, self.limit, better, self.limit_digits)


def goals(several: Iterable[Goal]) -> Goals:
    """Return the table of goals."""
    return Goals(tuple(goal.figure for goal in several))


async def timed(calls: Iterable[Callable[[], Awaitable[object]]]) -> list[float]:
    """Make the calls one after the other, and return the milliseconds of each."""
    times = []
    for call in calls:
        began = time.perf_counter()
        await call()
        times.append((time.perf_counter() - began) * 1000)
    return times


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, the 95th percentile and the maximum."""
    return statistics.median(values), quantile(values, 0.95), max(values)


def latencies(names: Mapping[str, str], figures: Mapping[str, Mapping[str, Any]]) -> Table:
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
