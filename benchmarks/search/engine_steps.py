"""A step of one engine in a process of its own, which prints its figures as JSON."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Figures = dict[str, Any]


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
