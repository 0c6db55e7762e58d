"""Recall of tool search: python -m benchmarks.tools.recall SET.json [SET.json …] [--models NAMES] [--split]

A set is ``{"tools": [{id, server, name, description, params?, inputSchema?}], "queries": [{query,
gold: [{ids: […]}]}]}``. A gold entry is met by any of its ids; recall@k is the mean over queries of the
share of gold entries met in the first k. A set without tools has the queries for the set before it. A query
without gold is one that no tool fits; a query may have a ``kind``, and figures are printed for each.

``--own`` measures a second and a third time, with the hub's own tools in the index as well: those of a hub
that has neither posts nor documents, then all of them.

``--models`` is none (words alone, the default), use, minilm, or use,minilm; queries are compared by those
that can read them. ``--split`` prints two halves apart, split by the first right tool: tune on the first,
believe the second. ``--misses N`` prints the first N queries whose right tools are not all found.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tools.models import ToolModels

from tabane.catalog.catalogs import sentences, ties_broken
from tabane.catalog.tools.index import ToolIndex, ToolQuery
from tabane.catalog.tools.tool import OWN, Tool
from tabane.hub.clients.disclosure import own_tools
from tabane.hub.process.administration import whole_table
from tabane.hub.servers.own_tools import idle
from tabane.search.embedding.embedder import Embedder
from tabane.search.embedding.model_families import reads

CUTS = (1, 5, 10)


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def read_tools(entries: list[dict[str, Any]]) -> list[Tool]:
    """The tools of a set, their ids as aliases."""
    return [
        Tool(
            alias=entry["id"],
            server=entry["server"],
            name=entry["name"],
            definition=json.dumps(entry).encode(),
            description=entry.get("description") or "",
            schema=entry.get("inputSchema") or {"properties": entry.get("params") or {}},
        )
        for entry in entries
    ]


def recall(found: list[str], gold: list[dict[str, Any]], cut: int) -> float:
    first = set(found[:cut])
    return sum(bool(first & set(entry["ids"])) for entry in gold) / len(gold)


def second_half(query: dict[str, Any]) -> bool:
    named = query["gold"][0]["ids"][0] if query.get("gold") else query["query"]
    return bool(zlib.crc32(named.encode()) % 2)


Models = Sequence[Embedder]
Queries = list[dict[str, Any]]
_BATCH = 64


async def index_of(tools: list[Tool], models: Models, own: Sequence[Tool] = ()) -> ToolIndex:
    """An index of the tools, with their vectors."""
    index = ToolIndex(":memory:")
    servers: dict[str, list[Tool]] = {}
    for tool in tools:
        servers.setdefault(tool.server, []).append(tool)
    for server, listed in servers.items():
        index.replace(server, listed)
    index.replace(OWN, own)
    for model in models:
        while gists := index.vectors.missing(model.fingerprint, _BATCH):
            vectors = await model.embed([gist.text for gist in gists])
            keyed = [(gist.key, vector) for gist, vector in zip(gists, vectors, strict=True)]
            index.vectors.put(model.fingerprint, keyed)
    return index


async def vectors_of(query: str, models: Models) -> dict[str, list[bytes]]:
    able = [model for model in models if reads(model.fingerprint, query)]
    return {model.fingerprint: await model.embed([query, *sentences(query)], "query") for model in able}


async def tools_of_the_hub() -> list[tuple[str, list[Tool]]]:
    """The hub's own tools that are searched: without posts and documents, and with them."""
    own = own_tools(await whole_table())
    left_out = idle(frozenset(tool.name for tool in own), lambda domain: False)
    return [
        ("with the tools of an empty hub", [tool for tool in own if tool.name not in left_out]),
        ("with all tools of the hub", own),
    ]


class Judged(NamedTuple):
    """A query with its kind, recall at each cut (empty if no tool fits), and whether it was doubted."""

    kind: str
    second: bool
    scores: list[float]
    doubtful: bool


async def measure(
    name: str,
    queries: Queries,
    index: ToolIndex,
    models: Models,
    split: bool,
    misses: int,
    names: frozenset[str] = frozenset(),
) -> list[float]:
    """Print the recall at each cut and how many queries are doubted, by kind; return the recall."""
    times: list[float] = []
    rows: list[Judged] = []
    for query in queries:
        vectors = await vectors_of(query["query"], models)
        began = time.perf_counter()
        answer = index.search(ToolQuery(query["query"], limit=max(CUTS) + 5), vectors)
        found = [hit.alias for hit in ties_broken(answer.hits, {}, names)[: max(CUTS)]]
        times.append((time.perf_counter() - began) * 1000)
        gold = query.get("gold", [])
        scores = [recall(found, gold, cut) for cut in CUTS] if gold else []
        rows.append(Judged(query.get("kind", ""), second_half(query), scores, answer.doubtful))
        if misses and (scores[-1] < 1 if gold else not answer.doubtful):
            misses -= 1
            print(f"  missed: {query['query']!r}, found {found[:3]}, right {gold[:1]}")
    print(f"{name}: {len(rows)} queries")
    print(f"  search p50 {statistics.median(times):.2f} ms, max {max(times):.2f} ms (without embedding)")
    kinds = sorted({row.kind for row in rows} - {""})
    for label, part in [
        ("all", rows),
        *((kind, [row for row in rows if row.kind == kind]) for kind in kinds),
    ]:
        show(label, part)
        if split:
            show(f"{label}, first half", [row for row in part if not row.second])
            show(f"{label}, second half", [row for row in part if row.second])
    return means([row.scores for row in rows if row.scores])


def means(rows: list[list[float]]) -> list[float]:
    return [statistics.fmean(column) for column in zip(*rows, strict=True)]


def show(label: str, rows: list[Judged]) -> None:
    scored = [row.scores for row in rows if row.scores]
    cuts = "  ".join(f"@{cut} {mean:.3f}" for cut, mean in zip(CUTS, means(scored), strict=False))
    doubted = sum(row.doubtful for row in rows)
    print(f"  {label}: recall {cuts or '-'}, {doubted} of {len(rows)} told that perhaps no tool fits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--split", action="store_true", help="print two halves apart")
    parser.add_argument("--misses", type=int, default=0, metavar="N", help="print the first N misses")
    parser.add_argument("--models", default="none", metavar="NAMES", help="none, use, or use-minilm")
    parser.add_argument("--own", action="store_true", help="measure with the hub's own tools too")
    asyncio.run(run(parser.parse_args()))


async def run(arguments: argparse.Namespace) -> None:
    names = [name for name in arguments.models.split(",") if name != "none"]
    tools: list[Tool] = []
    owns: list[tuple[str, list[Tool]]] = [("", [])]
    if arguments.own:
        owns += await tools_of_the_hub()
    async with ToolModels() as opened:
        models = await opened.named(names) if names else []
        for path in arguments.sets:
            data = read(path)
            tools = read_tools(data["tools"]) if "tools" in data else tools
            for label, own in owns:
                index = await index_of(tools, models, own)
                names_of_own = frozenset(tool.alias for tool in own)
                title = f"{path.name} {label}".strip()
                await measure(
                    title, data["queries"], index, models, arguments.split, arguments.misses, names_of_own
                )


if __name__ == "__main__":
    main()
