"""A person disconnects an assistant: its connection really ends, over a bridge and over HTTP."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tabane.errors import UnknownName
from tabane.operations import Caller, Face
from tests.harness.bridge import request
from tests.harness.http_hub import HttpHub, http_hub
from tests.harness.patience import LONG, wait_until
from tests.harness.running_hub import child
from tests.harness.user import User, assistant

LOCAL = Caller("local", Face.RPC, "test")


async def ask(here: HttpHub, operation: str, **params: Any) -> Any:
    given = json.dumps(params).encode()
    return msgspec.json.decode(await here.door.rpc.respond(LOCAL, operation, given, msgspec.json.encode))


def ask_of(home: User, operation: str, **params: Any) -> Any:
    return json.loads(home.run("rpc", operation, "--params", json.dumps(params)).succeeded.out)


async def test_a_client_over_http_is_disconnected_and_its_next_call_fails(tmp_path: Path) -> None:
    async with http_hub(tmp_path, {"works": child()}) as here:
        headers = {"authorization": str(here.bearer)}
        async with httpx2.AsyncClient(headers=headers, timeout=LONG) as http:
            transport = streamable_http_client(f"{here.mcp_url}/full", http_client=http)
            async with Client(transport, mode="legacy") as client:
                await client.call_tool("works__echo", {"text": "hello"})
                (row,) = (await ask(here, "list_assistants"))["sessions"]
                assert (row["transport"], row["calls"], row["mode"]) == ("http", 1, "full")
                assert row["last"] >= row["since"]
                await ask(here, "disconnect_assistant", session=row["session"])
                assert (await ask(here, "list_assistants"))["sessions"] == []
                with anyio.fail_after(LONG), pytest.raises(Exception, match=r"(?i)session|closed|404"):
                    await client.call_tool("works__echo", {"text": "again"})
        with pytest.raises(UnknownName):
            await ask(here, "disconnect_assistant", session=row["session"])


@pytest.mark.heavy("a real hub and a real bridge")
def test_a_bridge_answers_its_call_and_ends_and_the_assistant_can_come_back(tmp_path: Path) -> None:
    home = User(tmp_path)
    home.write_servers({"works": child()})
    try:
        with assistant(home, "--mode", "full") as one:
            one.call("works__echo", text="hello")
            (row,) = ask_of(home, "list_assistants")["sessions"]
            assert (row["client"], row["version"], row["transport"]) == ("test", "1", "stdio")
            one.client.send(request(77, name="works__hang", arguments={}))
            wait_until(lambda: ask_of(home, "list_assistants")["sessions"][0]["in_flight"], "it hangs")
            ask_of(home, "disconnect_assistant", session=row["session"])
            assert "A person has disconnected this assistant" in one.client.answer(77)["error"]["message"]
            assert one.client.wait() == 0
        assert ask_of(home, "list_assistants")["sessions"] == []
        with assistant(home, "--mode", "full") as again:
            assert again.text("works__echo", text="back")
    finally:
        home.close()


@pytest.mark.heavy("a real hub and the official client of MCP")
def test_the_next_call_of_the_official_client_fails_over_a_bridge(tmp_path: Path) -> None:
    home = User(tmp_path)
    home.write_servers({"works": child()})
    flags = ["-m", "tabane", "mcp", "--mode", "full"]
    bridge = StdioServerParameters(command=sys.executable, args=flags, env=dict(home.environment))

    async def connected() -> None:
        async with Client(stdio_client(bridge), mode="legacy") as client:
            assert not (await client.call_tool("works__echo", {"text": "hello"})).is_error
            (row,) = (await anyio.to_thread.run_sync(ask_of, home, "list_assistants"))["sessions"]
            await anyio.to_thread.run_sync(
                lambda: ask_of(home, "disconnect_assistant", session=row["session"])
            )
            with anyio.fail_after(LONG), pytest.raises(MCPError, match=r"(?i)closed"):
                await client.call_tool("works__echo", {"text": "again"})

    try:
        anyio.run(connected)
    finally:
        home.close()
