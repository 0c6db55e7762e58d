"""MCP Apps with the official SDK on both sides: two servers whose pages have the same address."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.extension import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID

from tests.conftest import ROOT
from tests.harness.home import Home, hub
from tests.harness.official_client import MODES, text
from tests.harness.patience import until
from tests.harness.servers.official_apps import PAGE

Era = Literal["legacy", "modern"]
WORDS = {"north": "northern time", "south": "southern time"}


def servers() -> dict[str, Any]:
    return {
        name: {
            "command": sys.executable,
            "args": ["-m", "tests.harness.servers.official_apps", words],
            "cwd": str(ROOT),
            "share": "client",
        }
        for name, words in WORDS.items()
    }


@asynccontextmanager
async def host(home: Home, era: Era) -> AsyncIterator[Client]:
    """A client that announces that it shows apps."""
    bridge = StdioServerParameters(
        command=sys.executable, args=["-m", "tabane", "mcp", "--mode=full"], env=home.environment, cwd=ROOT
    )
    shows = advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})
    async with Client(bridge, mode=MODES[era], extensions=[shows]) as client:
        yield client


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_each_tool_leads_to_the_page_of_its_own_server(tmp_path: Path, era: Era) -> None:
    home = Home(tmp_path)
    home.write_servers(servers())
    with hub(home):
        async with host(home, era) as client:
            tools: dict[str, Any] = {}

            async def listed() -> bool:
                tools.update({tool.name: tool for tool in (await client.list_tools()).tools})
                return {f"{name}__tell" for name in WORDS} <= tools.keys()

            await until(listed, "both servers have listed their tools")
            for name, words in WORDS.items():
                shown = tools[f"{name}__tell"].meta or {}
                address = shown["ui"]["resourceUri"]
                assert address == PAGE.replace("ui://", f"ui://tabane/{name}/")
                [page] = (await client.read_resource(address)).contents
                assert page.mime_type == APP_MIME_TYPE
                assert words in getattr(page, "text", "")
                result = await client.call_tool(f"{name}__tell", {})
                assert text(result) == f"{words}, shown: True"
