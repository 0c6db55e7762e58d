"""Engines measured in processes of their own: the steps ``fill`` and ``ask``, and what they printed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.search.engine_steps import Figures
from benchmarks.search.sizes import sizes
from benchmarks.sections.blocks import Comparison, Row
from benchmarks.sections.figure import Better

ROOT = Path(__file__).parents[2]
OURS = "tabane"


@dataclass(frozen=True, slots=True)
class EngineRun:
    """What the two steps of an engine printed, and the size of its files in bytes by part."""

    filled: Mapping[str, Any]
    asked: Mapping[str, Any]
    sizes: Mapping[str, int]


Runs = Mapping[str, EngineRun]
"""By the name of the engine."""

Value = Callable[[EngineRun], float | None]
"""A figure of an engine; None if it has none."""


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """Runs ``python -m MODULE ENGINE STEP FOLDER``."""

    module: str

    def step(self, name: str, step: str, folder: Path) -> Figures:
        print(f"{name}: {step}", file=sys.stderr)
        command = [sys.executable, "-m", self.module, name, step, str(folder)]
        ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
        figures: Figures = json.loads(ended.stdout.splitlines()[-1])
        return figures

    def run(self, name: str, place: str, folder: Path) -> EngineRun:
        """Return the figures of an engine, which puts its files into the folder ``place``."""
        filled = self.step(name, "fill", folder)
        return EngineRun(filled, self.step(name, "ask", folder), sizes(folder / place))


def engines_comparison(title: str, runs: Runs, rows: Iterable[Row]) -> Comparison:
    """Return the comparison of some rows, which :func:`engine_row` made of the same runs."""
    return Comparison(columns(runs), tuple(rows), title)


def columns(runs: Runs) -> tuple[str, ...]:
    """Return the engines, ours first."""
    return (OURS, *(name for name in runs if name != OURS))


def engine_row(
    name: str,
    runs: Runs,
    value: Value,
    *,
    digits: int = 2,
    unit: str = "",
    better: Better = Better.LESS,
    with_ratios: bool = True,
    recall: Value | None = None,
) -> Row:
    """Return one figure of each engine, and with ``recall`` what share of the right hits it found."""
    return Row(
        name,
        _values(runs, value),
        digits,
        unit,
        better,
        with_ratios=with_ratios,
        recalls=_values(runs, recall) if recall else (),
    )


def _values(runs: Runs, value: Value) -> tuple[float | None, ...]:
    found = (runs.get(name) for name in columns(runs))
    return tuple(None if run is None else value(run) for run in found)


def totals(runs: Runs) -> list[Row]:
    """Return the rows that both comparisons have: filling, opening, memory, disk."""
    total = partial(engine_row, runs=runs, digits=0, with_ratios=False)
    more = partial(total, better=Better.MORE)
    return [
        more("rows a second, acknowledged", value=lambda run: run.filled.get("rows")),
        more("rows a second, index complete", value=lambda run: run.filled.get("settled")),
        total("opening, ms", value=lambda run: run.asked["open"]),
        total("importing before that, ms", value=lambda run: run.asked["import"]),
        total("anonymous memory, MB", value=lambda run: run.asked["anonymous"]),
        total("on disk, MB", value=lambda run: sum(run.sizes.values()) / 1e6 or None),
    ]
