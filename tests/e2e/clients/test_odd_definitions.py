"""No list is refused by an official client, whatever servers define."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tabane.catalog.operations.server_operations import server_row
from tests.conftest import ROOT, absent
from tests.harness.http_hub import HttpHub, http_hub
from tests.harness.patience import LONG
from tests.harness.running_hub import running_hub

SERVER = {"command": sys.executable, "args": ["-m", "tests.harness.servers.odd"], "cwd": str(ROOT)}
LISTS = ("tools", "prompts", "resources", "resourceTemplates")


@pytest.mark.node
@pytest.mark.heavy("a catalog of 950 definitions and five official clients")
@pytest.mark.parametrize("mode", ["full", "search"])
async def test_no_official_client_refuses_a_list(mode: str, tmp_path: Path, node_tools: Path) -> None:
    servers = {"odd": {**SERVER, "pin": ["*"]}}
    async with http_hub(tmp_path, servers, mode=mode) as served:
        found = await in_node(served, node_tools)
        found += await in_python(served)
    refused = [each for each in found if "error" in each]
    assert not refused, json.dumps(refused, indent=1)
    assert len(found) == 4 * 5
    # Nearly everything is repaired, not left out.
    least = {"tools": 400, "prompts": 120, "resources": 120, "resourceTemplates": 100}
    assert all(each["count"] > least[each["list"]] for each in found), found


async def in_node(served: HttpHub, node_tools: Path) -> list[dict[str, Any]]:
    modules = node_tools.parent / "node_modules"
    if not (modules / "@modelcontextprotocol" / "sdk").exists():
        absent("@modelcontextprotocol/sdk (make node)")
    script = ROOT / "tests" / "harness" / "servers" / "listing_clients.mjs"
    process = await asyncio.create_subprocess_exec(
        *(str(node_tools / "node"), str(script), served.mcp_url, served.door.token or "", str(modules)),
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await asyncio.wait_for(process.communicate(), LONG)
    assert process.returncode == 0
    return [json.loads(line) for line in told.splitlines()]


async def in_python(served: HttpHub) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for mode in ("legacy", "2026-07-28"):
        http = httpx2.AsyncClient(headers={"Authorization": served.bearer or ""})
        async with (
            http,
            Client(streamable_http_client(served.mcp_url, http_client=http), mode=mode) as client,
        ):
            asked = {
                "tools": client.list_tools,
                "prompts": client.list_prompts,
                "resources": client.list_resources,
                "resourceTemplates": client.list_resource_templates,
            }
            for name, ask in asked.items():
                row = {"client": f"python {mode}", "list": name}
                try:
                    listed = (await ask()).model_dump(by_alias=True)
                    found.append({**row, "count": len(listed[name])})
                except Exception as error:
                    found.append({**row, "error": str(error)[:400]})
    return found


@pytest.mark.heavy("two hubs, and definitions of every odd kind")
async def test_who_uses_the_server_is_told_what_was_repaired(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"odd": SERVER}) as here:
        await (await here.connect(mode="full")).result("tools/list")
        row = server_row(here.hub.gateway, here.hub.gateway.server("odd"), "en")
        said = "\n".join(row["odd_definitions"])
        assert "tools/list: repaired " in said
        assert "tools/list: left out " in said
        assert "(inputSchema)" in said
        await (await here.connect()).result("resources/list")
        said = "\n".join(
            server_row(here.hub.gateway, here.hub.gateway.server("odd"), "ja")["odd_definitions"]
        )
        assert "resources/list: MCP クライアントが受け付けない定義" in said
