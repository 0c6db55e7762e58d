"""The ways to a tool that are compared: directly, through a hub in the same process, through the bridge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.gateway.client import Client, Json
from benchmarks.gateway.home import GatewayHub, Running, all_kinds, upstream

DIRECT = "direct"
STANDALONE = "standalone"
BRIDGE = "bridge + daemon"

ARGUMENTS: Json = {"path": "/notes/today.txt", "line_count": 50}
PLAIN: Json = {"name": "read_text", "arguments": ARGUMENTS}
BY_NAME: Json = {"name": "files__read_text", "arguments": ARGUMENTS}
THROUGH: Json = {"name": "call_tool", "arguments": BY_NAME}
EXPECTED = "today.txt"

ONE_OF_EACH: tuple[Json, ...] = (
    THROUGH,
    {"name": "call_tool", "arguments": {"name": "web__allowance", "arguments": {}}},
    {"name": "call_tool", "arguments": {"name": "sql__list_databases", "arguments": {}}},
    {"name": "call_tool", "arguments": {"name": "chat__list_channels", "arguments": {"limit": 20}}},
)
"""A call to each of the four servers, which starts those that do not run."""


async def directly() -> Running:
    """A connection to one synthetic server and nothing between."""
    return Running(await Client.start(upstream("files"), {}), "upstream")


async def standalone(home: GatewayHub, *flags: str) -> Running:
    return Running(await home.client("--standalone", *flags), "hub")


@asynccontextmanager
async def daemon(
    folder: Path, others: Mapping[str, Sequence[str]] | None = None
) -> AsyncIterator[tuple[GatewayHub, int]]:
    """A home over the four servers and ``others`` whose hub runs, and the hub's process."""
    home = GatewayHub(folder, {**all_kinds(), **(others or {})})
    await asyncio.to_thread(home.start)
    try:
        yield home, home.pid
    finally:
        await asyncio.to_thread(home.stop)


@asynccontextmanager
async def three_ways(folder: Path) -> AsyncIterator[dict[str, Running]]:
    """A client for each way, initialized; everything behind is ended at the end."""
    async with daemon(folder / "daemon") as (home, hub):
        ways = {
            DIRECT: await directly(),
            STANDALONE: await standalone(GatewayHub(folder / "standalone", all_kinds())),
            BRIDGE: Running(await home.client(), "bridge", hub),
        }
        try:
            for way in ways.values():
                await way.client.initialize()
            yield ways
        finally:
            for way in ways.values():
                await way.client.close()
