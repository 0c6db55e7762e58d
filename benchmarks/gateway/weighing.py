"""Megabytes alone and at work, and what very many servers or tools cost that nobody uses."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.gateway.calling import side_by_side
from benchmarks.gateway.client import PATIENCE, Client, Json
from benchmarks.gateway.home import GatewayHub, Running, all_kinds, upstream
from benchmarks.gateway.processes import family, memory, own_cpu
from benchmarks.gateway.ways import ONE_OF_EACH, THROUGH, daemon, standalone

CALLS = 1000
SEARCH: Json = {"name": "search_tools", "arguments": {"query": "read a text file"}}
DESCRIBE: Json = {"name": "describe_tools", "arguments": {"names": ["files__read_text"]}}

_SETTLED = 1.0


@dataclass(frozen=True)
class Weight:
    """MB by part: with no server connected, and with four after a thousand calls and a search."""

    alone: dict[str, float]
    busy: dict[str, float]

    @property
    def with_children(self) -> float:
        """Hub, keeper and upstreams together."""
        return sum(value for part, value in self.busy.items() if part != "bridge")


@dataclass(frozen=True)
class Crowd:
    """A start with so many servers configured, none of which is used."""

    servers: int
    answer_ms: float
    answer_cpu: float
    mb: float


async def weight_standalone(folder: Path) -> Weight:
    home = GatewayHub(folder / "home", all_kinds())
    for last in (False, True):  # the first run leaves a catalog on disk, as any later start finds it
        running = await standalone(home)
        try:
            await running.client.initialize()
            await asyncio.sleep(_SETTLED)
            alone = memory(running.processes)
            await _work(running.client, CALLS if last else 1)
            busy = memory(running.processes)
        finally:
            await running.client.close()
    return Weight(alone, busy)


async def weight_daemon(folder: Path) -> Weight:
    async with daemon(folder / "home") as (home, _):
        client = await home.client()
        await client.initialize()
        await _work(client, 1)
        await client.close()
        await asyncio.to_thread(home.stop)
        await asyncio.to_thread(home.start)
        hub = home.pid
        await asyncio.sleep(_SETTLED)
        alone = memory(family(hub, "hub"))
        running = Running(await home.client(), "bridge", hub)
        try:
            await running.client.initialize()
            await _work(running.client, CALLS)
            return Weight(alone, memory(running.processes))
        finally:
            await running.client.close()


async def crowd(folder: Path, servers: int, rounds: int = 3) -> Crowd:
    """Starts with so many servers in the file: medians."""
    home = GatewayHub(
        folder / f"crowd-{servers}", {f"server-{n}": upstream("many", "5") for n in range(servers)}
    )
    taken = [await _crowded(home) for _ in range(rounds)]
    ms, cpu, mb = (median(values) for values in zip(*taken, strict=True))
    return Crowd(servers, ms, cpu, mb)


async def big_list(folder: Path, tools: int, times: int = 20) -> tuple[float, float]:
    """Milliseconds of tools/list with so many tools: of the server itself, and of a hub in mode full."""
    command = upstream("many", str(tools))
    direct = Running(await Client.start(command, {}), "upstream")
    hub = await standalone(GatewayHub(folder / "big", {"many": command}), "--mode", "full")
    try:
        for running in (direct, hub):
            await running.client.initialize()
            await _all_listed(running.client, tools)
        pairs = [[await _listed(running.client) for running in (direct, hub)] for _ in range(times)]
    finally:
        await direct.client.close()
        await hub.client.close()
    of_server, of_hub = (median(values) for values in zip(*pairs, strict=True))
    return of_server, of_hub


async def _all_listed(client: Client, tools: int) -> None:
    """Wait until the list is whole: a hub gives a short one while a server takes long to start."""
    async with asyncio.timeout(PATIENCE):
        while len((await client.request("tools/list", {}))["tools"]) < tools:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _work(client: Client, calls: int) -> None:
    for params in (*ONE_OF_EACH, SEARCH, DESCRIBE):
        await client.call(params)
    await side_by_side(client, THROUGH, 4, calls)


async def _crowded(home: GatewayHub) -> tuple[float, float, float]:
    running = await standalone(home)
    try:
        await running.client.initialize()
        ms = (time.perf_counter() - running.client.began) * 1e3
        cpu = own_cpu(running.processes)
        await asyncio.sleep(_SETTLED)
        return ms, cpu, memory(running.processes)["hub"]
    finally:
        await running.client.close()


async def _listed(client: Client) -> float:
    began = time.perf_counter()
    await client.request("tools/list", {})
    return (time.perf_counter() - began) * 1e3
