"""A server at a URL that has forgotten its sessions is given a new one, however it says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.harness.running_hub import running_hub, text
from tests.harness.servers.raw_http import Handler, Raw, Request, Wire, legacy, raw
from tests.net.test_failures import why_not


def forgetting(status: int, body: bytes) -> Handler:
    """A server of 2025-11-25 that answers requests of unknown sessions with that."""

    async def answer(server: Raw, request: Request, wire: Wire) -> None:
        session = request.headers.get("mcp-session-id", "")
        if session and session not in server.sessions:
            wire.send(status, body)
        else:
            await legacy(server, request, wire)

    return answer


ERROR = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"%b"}}'


@pytest.mark.parametrize(
    ("status", "body", "calls"),
    [
        (404, b"", 1),
        (410, b"gone", 1),
        (400, b"unknown session id", 1),
        (400, ERROR % b"Bad Request: Server not initialized", 1),
        (500, b"the session is gone", 1),
        (500, ERROR % b"Session not found", 1),
        (500, b"Internal Server Error", 2),
        (501, b"<html>oops</html>", 2),
    ],
)
async def test_calls_work_again_after_the_server_forgot_the_session(
    tmp_path: Path, status: int, body: bytes, calls: int
) -> None:
    async with raw(forgetting(status, body)) as server:
        servers = {"web": {"url": server.url, "type": "http"}}
        async with running_hub(tmp_path, servers) as here:
            line = await here.connect()
            assert text(await line.call("web__echo")) == "done"
            server.sessions.clear()
            found = [await line.request("tools/call", {"name": "web__echo"}) for _ in range(calls)]
            assert [each["result"]["content"][0]["text"] for each in found[-1:]] == ["done"]
            # What may have been done is not done again: only a call that was not acted on is sent twice.
            assert all("error" in each for each in found[:-1])
            assert text(await line.call("web__peek")) == "done"


async def test_a_tool_that_fails_with_500_keeps_its_session(tmp_path: Path) -> None:
    async def failing(server: Raw, request: Request, wire: Wire) -> None:
        if request.tool == "echo":
            wire.send(500, b"the tool failed")
        else:
            await legacy(server, request, wire)

    async with (
        raw(failing) as server,
        running_hub(tmp_path, {"web": {"url": server.url, "type": "http"}}) as here,
    ):
        line = await here.connect()
        for _ in range(3):
            assert "the tool failed" in str(await line.request("tools/call", {"name": "web__echo"}))
        assert text(await line.call("web__peek")) == "done"
        assert len(server.asked("initialize")) == 1
        assert len(server.asked("echo")) == 3


@pytest.mark.parametrize(("status", "body"), [(404, b""), (410, b""), (500, b"no such session")])
async def test_the_old_transport_connects_again(tmp_path: Path, status: int, body: bytes) -> None:
    streams: list[Wire] = []
    known: set[str] = set()

    async def old(server: Raw, request: Request, wire: Wire) -> None:
        if request.method == "GET":
            wire.stream()
            name = f"s{len(streams)}"
            known.add(name)
            streams.append(wire)
            wire.event(f"/messages?session={name}", name="endpoint")
            await wire.writer.drain()
            await wire.gone()
            return
        if request.target.partition("=")[2] not in known:
            wire.send(status, body)
            return
        wire.send(202)
        if "id" not in request.message:
            return
        results = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {}},
            "tools/list": {"tools": server.tools},
        }
        result = results.get(request.rpc, {"content": [{"type": "text", "text": "done"}]})
        streams[-1].event({"jsonrpc": "2.0", "id": request.message["id"], "result": result})
        await streams[-1].writer.drain()

    async with (
        raw(old, path="/sse") as server,
        running_hub(tmp_path, {"web": {"url": server.url, "type": "sse"}}) as here,
    ):
        line = await here.connect()
        assert text(await line.call("web__echo")) == "done"
        known.clear()
        assert text(await asyncio.wait_for(line.call("web__echo"), 60)) == "done"


@pytest.mark.parametrize(("post", "get"), [(404, 405), (405, 404), (404, 404), (404, 200)])
async def test_a_wrong_path_is_named_by_the_answer_to_the_request(
    tmp_path: Path, post: int, get: int
) -> None:
    async def wrong(server: Raw, request: Request, wire: Wire) -> None:
        wire.send(post if request.method == "POST" else get, b"no page here", content_type="text/html")

    async with (
        raw(wrong, path="/wrong") as server,
        running_hub(tmp_path, {"web": {"url": server.url}}) as here,
    ):
        found = await why_not(here, await here.connect())
        assert f"(HTTP status {post})" in found
        assert "path of the URL" in found
