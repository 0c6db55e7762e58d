"""Other gateways in front of the same four servers, from the environment of ``make bench-gateways``."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.gateway.client import Client, Json
from benchmarks.gateway.home import Running, all_kinds
from benchmarks.gateway.processes import memory, own_cpu
from benchmarks.gateway.tokens import NOTHING, Counter, Tokens
from benchmarks.gateway.ways import ARGUMENTS

PROGRAMS = Path(__file__).parents[2] / "build" / "gateways" / "bin"
STARTS = 3


@dataclass(frozen=True)
class OtherGateway:
    """The words of its command before the file with the servers, and how one calls ``read_text`` through it.

    It is called ``fewer`` times less often than the others are: it takes so much longer.
    """

    name: str
    command: tuple[str, ...]
    params: Json
    fewer: int = 1

    async def start(self, servers: Path) -> Running:
        program, *words = self.command
        path = PROGRAMS / program
        if not path.exists():
            raise GatewayMissing(f"{self.name}: {path} is missing. Run: make bench-gateways")
        environment = {"PATH": os.environ["PATH"], "HOME": str(servers.parent), "LANG": "C.UTF-8"}
        return Running(await Client.start([str(path), *words, str(servers)], environment), "hub")


class GatewayMissing(Exception):
    """A gateway that is compared is not installed: there is no comparison without it."""


OTHERS = (
    OtherGateway(
        "mcp-compressor (Rust)",
        ("mcp-compressor", "--config"),
        {"name": "files_invoke_tool", "arguments": {"tool_name": "read_text", "tool_input": ARGUMENTS}},
    ),
    OtherGateway(
        "FastMCP proxy",
        ("fastmcp", "run", "--no-banner"),
        {"name": "files_read_text", "arguments": ARGUMENTS},
        fewer=20,
    ),
)


@dataclass
class OtherFigures:
    """The cost of another gateway: seconds and CPU seconds to its first answer, MB, tokens of its list.

    ``alone`` is its memory after that answer. Most start their servers before it.
    """

    starts: list[tuple[float, float]] = field(default_factory=list)
    alone: float = 0.0
    busy: float = 0.0
    listed: Tokens = NOTHING

    @property
    def answer_ms(self) -> float:
        return median(seconds for seconds, _ in self.starts) * 1e3

    @property
    def answer_cpu(self) -> float:
        return median(cpu for _, cpu in self.starts)


def versions() -> str:
    """Return the gateways with the versions that are installed, as ``peers.txt`` pins them."""
    lines = (Path(__file__).parent / "peers.txt").read_text(encoding="utf-8").splitlines()
    return ", ".join(line.replace("==", " ") for line in lines if line and not line.startswith("#"))


def servers_file(folder: Path) -> Path:
    """Write the four servers for a gateway, and return the file."""
    folder.mkdir(parents=True)
    servers = {name: {"command": line[0], "args": line[1:]} for name, line in all_kinds().items()}
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


@asynccontextmanager
async def other_gateways(
    folder: Path, gateways: Sequence[OtherGateway] = OTHERS
) -> AsyncIterator[list[tuple[OtherGateway, Running]]]:
    """A client for each gateway, initialized. Raises GatewayMissing."""
    async with AsyncExitStack() as stack:
        found = []
        for gateway in gateways:
            running = await gateway.start(servers_file(folder / gateway.command[0]))
            stack.push_async_callback(running.client.close)
            await running.client.initialize()
            found.append((gateway, running))
        yield found


async def other_figures(folder: Path, count: Counter, calls: int = 1000) -> dict[str, OtherFigures]:
    """Measure starts, memory and the list of each gateway, one after the other."""
    found = {}
    for gateway in OTHERS:
        servers = servers_file(folder / gateway.command[0])
        figures = found[gateway.name] = OtherFigures()
        for _ in range(STARTS):
            running = await gateway.start(servers)
            try:
                await running.client.initialize()
                seconds = time.perf_counter() - running.client.began
                figures.starts.append((seconds, own_cpu(running.processes)))
                figures.alone = _own_memory(running)
                listed = await running.client.request("tools/list", {})
                figures.listed = count(listed["tools"])
                if len(figures.starts) == STARTS:
                    for _ in range(calls // gateway.fewer):
                        await running.client.call(gateway.params)
                    figures.busy = _own_memory(running)
            finally:
                await running.client.close()
    return found


def _own_memory(running: Running) -> float:
    return sum(mb for part, mb in memory(running.processes).items() if part != "upstream")
