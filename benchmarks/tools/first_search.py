"""Time of the first search for tools: python -m benchmarks.tools.first_search [--tools COUNT] [--write]

The tools are those of :mod:`benchmarks.tools.latency`, dealt to servers that only list. A hub is started in a
new home, where the first search starts the servers and waits for them, two seconds at most. When all have
listed and ``--after`` seconds have passed, the hub is started again in the same home. Then its index of tools
is deleted, as if a new version of Tabane needed another one, and the hub is started once more and left alone
for ``--after`` seconds. With ``--model``, the hub compares by meaning too, with the model of this machine.
Reported are milliseconds of the first search and of those after it, and of processor time that the hub and
its servers took for the first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gateway.home import GatewayHub
from benchmarks.report import Goal, goals, machine, publish, table
from benchmarks.sections.blocks import Block
from benchmarks.tools.latency import tools

AGAIN = "started again"
_QUERIES = ("create an issue", "会議を予約する")
_LOOK = 0.25  # seconds between two looks at whether all servers have listed
_LONGEST = 300.0

_SERVER = """
import json, sys
tools = json.load(open(sys.argv[1]))
answers = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "listing", "version": "1"},
    },
    "tools/list": {"tools": tools},
    "ping": {},
}
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        found = {"result": answers[message["method"]]} if message["method"] in answers else {
            "error": {"code": -32601, "message": "Method not found"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **found}), flush=True)
"""


def definitions(count: int, servers: int) -> list[list[dict[str, Any]]]:
    """The definitions of each server."""
    dealt: list[list[dict[str, Any]]] = []
    found, each = tools(count), -(-count // servers)
    for start in range(0, count, each):
        names: Counter[str] = Counter()
        own = []
        for tool in found[start : start + each]:
            names[tool.name] += 1
            name = tool.name if names[tool.name] == 1 else f"{tool.name}_{names[tool.name]}"
            own.append({**json.loads(tool.definition), "name": name, "description": tool.description})
        dealt.append(own)
    return dealt


def home_over(folder: Path, dealt: list[list[dict[str, Any]]], model: str) -> GatewayHub:
    (folder / "server.py").write_text(_SERVER)
    servers = {}
    for number, own in enumerate(dealt):
        path = folder / f"{number}.json"
        path.write_text(json.dumps(own))
        servers[f"server{number}"] = [sys.executable, "-S", str(folder / "server.py"), str(path)]
    home = GatewayHub(folder / "hub", servers)
    home.environment["TABANE_MODEL"] = model
    return home


@dataclass(frozen=True)
class Searches:
    """Milliseconds of the first search and of those after it, and of CPU for the first."""

    hub: str
    ms: Sequence[float]
    cpu: float

    @property
    def row(self) -> tuple[str, ...]:
        return (self.hub, *(f"{each:.0f}" for each in (*self.ms, self.cpu)))


async def measure(
    home: GatewayHub, label: str, before: float = 0.0, listed: int = 0, after: float = 0.0
) -> Searches:
    """Start the hub and search. ``before``: seconds until the first search.

    The hub is stopped ``after`` so many seconds, when servers have ``listed`` so many tools.
    """
    await asyncio.to_thread(home.start)
    client = await home.client()
    try:
        await client.initialize()
        await asyncio.sleep(before)
        times: list[float] = []
        cpu = home.cpu
        for query in (_QUERIES[0], *_QUERIES):
            begun = time.perf_counter()
            await client.call({"name": "search_tools", "arguments": {"query": query}})
            times.append((time.perf_counter() - begun) * 1e3)
            if len(times) == 1:
                spent = (home.cpu - cpu) * 1e3
        await _listed(home, listed)
        await asyncio.sleep(after)
        return Searches(label, times, spent)
    finally:
        await client.close()
        await asyncio.to_thread(home.stop)


async def _listed(home: GatewayHub, count: int) -> None:
    deadline = time.monotonic() + _LONGEST
    while True:
        answer = json.loads(await asyncio.to_thread(home.tabane, "servers", "list", "--json"))
        if sum(row["tools"] or 0 for row in answer["results"]) >= count:
            return
        if time.monotonic() > deadline:
            raise SystemExit("not all servers have listed their tools")
        await asyncio.sleep(_LOOK)


def page(found: Sequence[Searches], tools: int, servers: int) -> list[Block | str]:
    """Return the section of the performance page."""
    again = next(one for one in found if one.hub == AGAIN)
    head = ("hub, ms", "first", "again", "Japanese", "CPU of the first")
    return [
        f"## The first search among {tools:,} tools",
        machine("python -m benchmarks.tools.first_search"),
        goals([Goal("first search after a restart", again.ms[0], 300, " ms")]),
        table(head, [one.row for one in found]),
        f"The tools are those of {servers} servers. In a new home, the first search starts them, and waits "
        "for two seconds at most. A hub without its index of tools makes it in the background.",
    ]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tools", type=int, default=10_000, metavar="COUNT")
    parser.add_argument("--servers", type=int, default=20, metavar="COUNT")
    parser.add_argument("--after", type=float, default=5.0, metavar="SECONDS")
    parser.add_argument("--model", action="store_true", help="search by meaning too")
    parser.add_argument("--write", action="store_true", help="write the performance page")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        dealt = definitions(arguments.tools, arguments.servers)
        home = home_over(Path(name), dealt, "auto" if arguments.model else "none")
        found = [
            await measure(home, "new home", listed=arguments.tools, after=arguments.after),
            await measure(home, AGAIN),
        ]
        (home.home / "tools.db").unlink()
        found.append(await measure(home, "without its index", before=arguments.after))
    publish("first_search", page(found, arguments.tools, arguments.servers), write=arguments.write)


if __name__ == "__main__":
    asyncio.run(main())
