"""Time of a search for tools: python -m benchmarks.tools.latency [--tools COUNT …] [--model]

The tools are those of tests/catalog/tools/tools.json, repeated with other names, objects and servers; the
queries are its English and Japanese ones. Vectors of tools are random: their content does not change the
time. With ``--model``, the query is embedded by the model of this machine, and its time is included.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.tools.models import ToolModels

from tabane.catalog.tools.index import ToolIndex, ToolQuery
from tabane.catalog.tools.tool import Tool

CORPUS = Path("tests/catalog/tools/tools.json")
TOPICS = [
    "invoice",
    "ticket",
    "meeting",
    "playlist",
    "shipment",
    "contract",
    "recipe",
    "patient",
    "lesson",
    "campaign",
    "backup",
    "camera",
    "sensor",
    "refund",
    "apartment",
    "vaccine",
    "passport",
    "auction",
    "tournament",
    "donation",
    "warranty",
    "manuscript",
    "greenhouse",
    "turbine",
    "satellite",
    "ledger",
    "reactor",
    "orchard",
    "harbor",
    "museum",
]
DIMENSION = 512
OF_A_SERVER = 25

Vectors = Callable[[str], Awaitable[Mapping[str, Sequence[bytes]]]]
Rows = list[tuple[int, str, list[float]]]


def tools(count: int) -> list[Tool]:
    """Tools of many servers. Each repetition is about something else."""
    entries = json.loads(CORPUS.read_text(encoding="utf-8"))["tools"]
    found = []
    for number in range(count):
        turn, place = divmod(number, len(entries))
        definition = entries[place]["definition"]
        topic = TOPICS[turn % len(TOPICS)] if turn else ""
        name = f"{definition['name']}_{topic}" if topic else definition["name"]
        server = f"{entries[place]['server']}{number // OF_A_SERVER}"
        description = definition.get("description", "")
        found.append(
            Tool(
                f"{server}__{name}",
                server,
                name,
                json.dumps(definition).encode(),
                description=f"{description} For any {topic}." if topic else description,
                schema=definition.get("inputSchema") or {},
            )
        )
    return found


def index_of(folder: str, found: list[Tool], model: str, dimension: int) -> ToolIndex:
    index = ToolIndex(f"{folder}/{len(found)}.db")
    servers: dict[str, list[Tool]] = {}
    for tool in found:
        servers.setdefault(tool.server, []).append(tool)
    for server, own in servers.items():
        index.replace(server, own)
    while model and (gists := index.vectors.missing(model, 500)):
        index.vectors.put(model, [(gist.key, direction(gist.text, dimension)) for gist in gists])
    return index


def direction(text: str, dimension: int) -> bytes:
    """A random direction, the same for the same text."""
    source = random.Random(text)
    values = [source.gauss(0, 1) for _ in range(dimension)]
    length = sum(value * value for value in values) ** 0.5
    return struct.pack(f"<{dimension}f", *(value / length for value in values))


def asked() -> list[str]:
    return [entry["query"] for entry in json.loads(CORPUS.read_text(encoding="utf-8"))["queries"]]


async def measure(index: ToolIndex, vectors: Vectors, queries: list[str]) -> list[float]:
    times = []
    for query in queries:
        began = time.perf_counter()
        index.search(ToolQuery(query, folded=True), await vectors(query))
        times.append((time.perf_counter() - began) * 1000)
    return times


def row(count: int, what: str, times: list[float]) -> str:
    p95 = statistics.quantiles(times, n=20)[-1]
    return f"| {count:,} | {what} | {statistics.median(times):.1f} | {p95:.1f} |"


async def measured(counts: Sequence[int], models: ToolModels, *, embeds: bool) -> Rows:
    """Return tools, what was searched by, and milliseconds. ``embeds``: include the time of the model."""
    queries = asked()
    chosen = await models.chosen() if embeds else []
    model, dimension = (chosen[0].fingerprint, chosen[0].dimension) if chosen else ("random", DIMENSION)

    async def none(query: str) -> dict[str, list[bytes]]:
        return {}

    async def embedded(query: str) -> dict[str, list[bytes]]:
        return {model: [await models.query(model, query)]}

    made = {query: {model: [direction(query, dimension)]} for query in queries}

    async def known(query: str) -> dict[str, list[bytes]]:
        return made[query]

    rows: Rows = []
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            index = index_of(folder, tools(count), model, dimension)
            for what, ask in (("keywords", none), ("keywords and vectors", embedded if chosen else known)):
                await measure(index, ask, queries[:5])
                rows.append((count, what, await measure(index, ask, queries)))
            index.close()
    return rows


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tools", type=int, nargs="+", default=[1_000, 10_000], metavar="COUNT")
    parser.add_argument(
        "--model", action="store_true", help="embed the queries with the model of this machine"
    )
    arguments = parser.parse_args()
    print("| tools | search | p50 ms | p95 ms |\n|---|---|---|---|")
    async with ToolModels() as models:
        for each in await measured(arguments.tools, models, embeds=arguments.model):
            print(row(*each))


if __name__ == "__main__":
    asyncio.run(main())
