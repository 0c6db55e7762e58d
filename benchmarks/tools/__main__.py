"""Search of tools: ``python -m benchmarks.tools SET.json … [--write]``, as a section of the performance page.

Prints recall by the models of this machine, without and with the hub's own tools, and the time of a search.
Each set may be followed by sets of queries for the same tools: see :mod:`benchmarks.tools.recall`.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import machine, publish, table
from benchmarks.tools import latency, recall
from benchmarks.tools.models import ToolModels

from tabane.catalog.tools.tool import Tool
from tabane.search.embedding.embedder import Embedder

TOOLS = (1_000, 10_000)
_HOW = """\
Recall@k is the mean over queries of the share of right tools among the first k. "Own tools" are those of
Tabane, which are in the index of every hub: of a hub without posts and documents, or all of them. The
weights of the ranking were chosen on these sets, so sets that nobody has seen say more. A search is timed in
the index, with the embedding of the query by the default model, without the way of the request through the
hub."""


async def recalls(paths: Sequence[Path], models: Sequence[Embedder]) -> list[tuple[str, ...]]:
    """Return rows: set, own tools, and for each group of models recall at each cut."""
    groups = [[], list(models[:1]), *([list(models)] if len(models) > 1 else [])]
    owns: list[tuple[str, list[Tool]]] = [("none", []), *await recall.tools_of_the_hub()]
    tools: list[Tool] = []
    rows = []
    for path in paths:
        data = recall.read(path)
        tools = recall.read_tools(data["tools"]) if "tools" in data else tools
        for label, own in owns:
            names = frozenset(tool.alias for tool in own)
            cells = []
            for group in groups:
                index = await recall.index_of(tools, group, own)
                found = await recall.measure(path.stem, data["queries"], index, group, False, 0, names)
                cells.append("/".join(f"{each:.3f}"[1:] if each < 1 else "1" for each in found))
                index.close()
            rows.append((path.stem, label.removeprefix("with "), str(len(data["queries"])), *cells))
    return rows


async def sections(paths: Sequence[Path], command: str) -> list[str]:
    async with ToolModels() as models:
        chosen = await models.chosen()
        names = [model.fingerprint.partition("#")[0].rpartition("/")[2] for model in chosen]
        found = await recalls(paths, chosen)
        times = await latency.measured(TOOLS, models, embeds=True)
    by = ["keywords", names[0], *(["all models"] if len(names) > 1 else [])]
    head = ("set", "own tools", "queries", *(f"{each} @1/5/10" for each in by))
    timed = [
        (f"{count:,}", what, f"{statistics.median(each):.1f}", f"{statistics.quantiles(each, n=20)[-1]:.1f}")
        for count, what, each in times
    ]
    return [
        "## Search of tools",
        machine(command),
        _HOW,
        f"Models: {', '.join(names)}.",
        "### Recall",
        table(head, found),
        "### Time of a search",
        table(("tools", "search by", "p50 ms", "p95 ms"), timed),
    ]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tools")
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="write the performance page")
    options = parser.parse_args(arguments)
    command = shlex.join(["python", "-m", "benchmarks.tools", *(path.name for path in options.sets)])
    publish("tools", asyncio.run(sections(options.sets, command)), write=options.write)


if __name__ == "__main__":
    main(sys.argv[1:])
