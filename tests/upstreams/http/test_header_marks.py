"""Tools with an invalid ``x-mcp-header`` are left out if they would be called over HTTP, and only then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.running_hub import Json, SocketClient, child, running_hub, text
from tests.harness.servers.raw_http import Handler, Raw, Request, Wire, legacy, modern
from tests.net.test_failures import web_hub


def tool(name: str, **marks: Any) -> Json:
    """A tool whose arguments are strings with these marks."""
    properties = {key: {"type": "string", "x-mcp-header": mark} for key, mark in marks.items()}
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


MANY = [tool("bad\x1b[31m", a="Some Where"), *(tool(f"bad{n}", a="X", b="x") for n in range(1200))]


def listing(*tools: Json, base: Handler = modern) -> Handler:
    """A server with these tools."""

    async def handle(server: Raw, request: Request, wire: Wire) -> None:
        server.tools = list(tools)
        await base(server, request, wire)

    return handle


async def names(client: SocketClient) -> list[str]:
    """The names of the tools that the server has for a client, once it was started."""
    assert text(await client.call("web__good", where="東京")) == "done"
    listed = (await client.result("tools/list"))["tools"]
    return [each["name"] for each in listed if each["name"].startswith("web__")]


@pytest.mark.parametrize("bad", [[tool("bad", a="Some Where")], MANY], ids=["one", "many"])
async def test_a_tool_with_an_invalid_mark_is_left_out_with_a_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: list[Json]
) -> None:
    async with web_hub(tmp_path, listing(tool("good", where="Place"), *bad)) as (server, hub, _):
        client = await hub.connect(mode="full")
        assert await names(client) == ["web__good"]
        await client.request("tools/call", {"name": f"web__{bad[-1]['name']}", "arguments": {"a": "1"}})
        assert [request.tool for request in server.asked("tools/call")] == ["good"]
        (instance,) = hub.hub.gateway.instances("web")
        told = str(instance.vitals.error)
        assert told.startswith(f"{len(bad)} tool{'s' if len(bad) > 1 else ''} left out")
        assert "must be the name of a header" in told
        assert "\x1b" not in told
    assert "'bad" in caplog.text
    assert len(caplog.records) < 100


async def test_marks_mean_nothing_to_a_server_of_the_handshake_era(tmp_path: Path) -> None:
    async with web_hub(tmp_path, listing(tool("good"), tool("bad", a="Some Where"), base=legacy)) as (
        _,
        hub,
        _,
    ):
        assert await names(await hub.connect(mode="full")) == ["web__good", "web__bad"]


async def test_marks_mean_nothing_over_stdio(tmp_path: Path) -> None:
    schemas = tmp_path / "schemas.json"
    schemas.write_text(json.dumps({"bad": tool("bad", a="Some Where")["inputSchema"]}))
    servers = {"up": child("--era", "modern", "--schemas", str(schemas))}
    async with running_hub(tmp_path / "home", servers) as hub:
        assert json.loads(text(await (await hub.connect()).call("up__bad", a="1"))) == {"a": "1"}
