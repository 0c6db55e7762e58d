"""A real server with a memory, used by three assistants at once through one hub."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.harness.home import Home, hub
from tests.harness.official_client import text

pytestmark = pytest.mark.node

WHO = ("hana", "ken", "yui")
EACH = 8


@pytest.fixture
def home(tmp_path: Path) -> Home:
    for name in WHO:
        (tmp_path / name).mkdir()
    return Home(tmp_path)


def memory(node_tools: Path, file: str, **keys: Any) -> dict[str, Any]:
    """The memory server of npm, its graph in that file."""
    environment = {"PATH": f"{node_tools}{os.pathsep}{os.environ['PATH']}", "MEMORY_FILE_PATH": file}
    return {"command": str(node_tools / "mcp-server-memory"), "env": environment, **keys}


@asynccontextmanager
async def assistant(home: Home, name: str) -> AsyncIterator[Client]:
    """The official client behind a bridge of its own, at work in its own folder."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tabane", "mcp"],
        env=home.environment,
        cwd=str(home.folder / name),
    )
    async with Client(stdio_client(parameters)) as client:
        yield client


async def call(client: Client, name: str, **arguments: Any) -> Any:
    result = await client.call_tool("call_tool", {"name": name, "arguments": arguments})
    assert not result.is_error, text(result)
    return json.loads(text(result))


async def remember(client: Client, name: str) -> None:
    for number in range(EACH):
        entity = {"name": f"{name} {number}", "entityType": "memo", "observations": [f"{name} の覚え書き 🎋"]}
        await call(client, "memory__create_entities", entities=[entity])


async def recalled(home: Home) -> list[list[str]]:
    """What each assistant finds after all three wrote at the same time."""
    async with assistant(home, "hana") as hana, assistant(home, "ken") as ken, assistant(home, "yui") as yui:
        clients = (hana, ken, yui)
        await asyncio.gather(*(remember(client, name) for client, name in zip(clients, WHO, strict=True)))
        graphs = [await call(client, "memory__read_graph") for client in clients]
    return [sorted(entity["name"] for entity in graph["entities"]) for graph in graphs]


def own(*names: str) -> list[str]:
    return sorted(f"{name} {number}" for name in names for number in range(EACH))


def test_a_memory_that_all_share_holds_what_all_wrote(home: Home, node_tools: Path) -> None:
    # It reads and writes its file anew at each call, so that two at once would lose one.
    home.write_servers({"memory": memory(node_tools, str(home.folder / "graph.jsonl"), maxConcurrency=1)})
    with hub(home):
        assert asyncio.run(recalled(home)) == [own(*WHO)] * 3


def test_a_memory_of_the_folder_holds_what_was_written_there_alone(home: Home, node_tools: Path) -> None:
    home.write_servers({"memory": memory(node_tools, "${workspaceFolder}/graph.jsonl")})
    with hub(home):
        assert asyncio.run(recalled(home)) == [own(name) for name in WHO]
    for name in WHO:
        assert (home.folder / name / "graph.jsonl").read_text().count(name) >= EACH
