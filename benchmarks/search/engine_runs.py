"""Engines measured in processes of their own: the steps ``fill`` and ``ask``, and what they printed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import compared, number
from benchmarks.search.sizes import sizes

ROOT = Path(__file__).parents[2]
PEERS = ROOT / "build" / "bench" / "bin" / "python"
"""The environment of the engines that are compared; ``make bench`` creates it."""

OURS = "tabane"

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EngineRun:
    """What the two steps of an engine printed, and the size of its files in bytes by part."""

    filled: Mapping[str, Any]
    asked: Mapping[str, Any]
    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """Runs ``python -m MODULE ENGINE STEP FOLDER``; ``own`` engines need no package but the project's own."""

    module: str
    own: bool

    @property
    def _python(self) -> str:
        return sys.executable if self.own else str(PEERS)

    def installed(self, engine: str) -> bool:
        probe = [self._python, "-c", f"import {engine}"]
        return (
            Path(self._python).exists()
            and not subprocess.run(probe, cwd=ROOT, capture_output=True).returncode
        )

    def step(self, name: str, step: str, folder: Path) -> Figures:
        print(f"{name}: {step}", file=sys.stderr)
        command = [self._python, "-m", self.module, name, step, str(folder)]
        environment = os.environ | {"ANONYMIZED_TELEMETRY": "False"}
        ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, env=environment, check=True)
        figures: Figures = json.loads(ended.stdout.splitlines()[-1])
        return figures

    def run(self, name: str, engine: str, folder: Path) -> EngineRun | None:
        """Return the figures of an engine in that module; None if it is not installed."""
        if not self.installed(engine):
            return None
        filled = self.step(name, "fill", folder)
        return EngineRun(filled, self.step(name, "ask", folder), sizes(folder / engine.rpartition(".")[2]))


def print_figures(engine: Callable[[], Any], step: Callable[[Any], Awaitable[Figures]]) -> None:
    """Import an engine, run a step of it, and print the figures as JSON."""
    began = time.perf_counter()
    made = engine()
    imported = time.perf_counter() - began
    figures = asyncio.run(_awaited(step(made)))
    print(json.dumps(figures | {"import": imported * 1e3, "version": made.version}))


async def _awaited(figures: Awaitable[Figures]) -> Figures:
    return await figures


def memory() -> dict[str, float | None]:
    """Return the anonymous, mapped and resident memory of this process in MB, if the system says."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return dict.fromkeys(("anonymous", "mapped", "resident"))
    kilobytes = {
        line.split(":")[0]: int(line.split()[1]) for line in lines if "Rss" in line or "VmRSS" in line
    }
    names = {"anonymous": "RssAnon", "mapped": "RssFile", "resident": "VmRSS"}
    return {name: kilobytes[field] * 1024 / 1e6 for name, field in names.items()}


def compared_row(
    name: str, runs: Mapping[str, EngineRun | None], value: Callable[[EngineRun], float | None]
) -> list[str]:
    """Return a row of milliseconds by engine, each with how many times ours it is."""
    ours = runs.get(OURS)
    base = value(ours) if ours else None
    return [name, *("not installed" if run is None else compared(value(run), base) for run in runs.values())]


def totals_row(
    name: str,
    runs: Mapping[str, EngineRun | None],
    value: Callable[[EngineRun], float | None],
    form: str = ",.0f",
) -> list[str]:
    return [name, *(number(None if run is None else value(run), form) for run in runs.values())]


def totals(runs: Mapping[str, EngineRun | None]) -> list[list[str]]:
    """Return the rows that both comparisons have: filling, opening, memory, disk."""
    return [
        totals_row("rows a second, acknowledged", runs, lambda run: run.filled.get("rows")),
        totals_row("rows a second, index complete", runs, lambda run: run.filled.get("settled")),
        totals_row("opening, ms", runs, lambda run: run.asked["open"]),
        totals_row("importing before that, ms", runs, lambda run: run.asked["import"]),
        totals_row("anonymous memory, MB", runs, lambda run: run.asked["anonymous"]),
        totals_row("on disk, MB", runs, lambda run: sum(run.sizes.values()) / 1e6 or None),
    ]
