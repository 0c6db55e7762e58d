"""Parked calls over a restart of the hub: a server over HTTP goes on with them, one over stdio does not."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.harness.patience import until
from tests.harness.running_hub import Client, Json, connected_hub, running_hub
from tests.harness.servers.raw_http import Raw, Request, Wire
from tests.hub.clients.questions.asking import (  # fmt: skip
    ACCEPTED,
    FORM,
    FORM_STEP,
    answered,
    answers_to,
    asked_once,
    asking,
    call_of,
)

MODERN: Client = "2026-07-28"


class AskingSite:
    """A legacy server over HTTP whose streams can be resumed: its one tool asks a form."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[Json] = asyncio.Queue()
        self.resumed: list[str] = []
        self.ended: list[str] = []
        self.called = 0
        self.number: object = None

    async def __call__(self, raw: Raw, request: Request, wire: Wire) -> None:
        session = request.headers.get("mcp-session-id", "")
        if request.method == "DELETE":
            self.ended.append(session)
            wire.send(200)
        elif request.method == "GET" and "last-event-id" in request.headers:
            self.resumed.append(request.headers["last-event-id"])
            wire.stream()
            await self.finish(wire)
        elif request.method == "GET":
            wire.send(405)
        elif not request.rpc:
            wire.send(202)
            await self.answers.put(request.message)
        elif "id" not in request.message:
            wire.send(202)
        elif request.rpc == "initialize":
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "site", "version": "1"},
            }
            answer = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
            wire.json(answer, mcp_session_id=f"session-{len(raw.asked('initialize'))}")
        elif request.rpc == "tools/call":
            self.called += 1
            self.number = request.message["id"]
            wire.stream()
            ask = {"jsonrpc": "2.0", "id": "ask", "method": "elicitation/create", "params": FORM}
            wire.event(ask, id="event-1")
            await self.finish(wire)
        elif request.rpc == "tools/list":
            tools = [{"name": "ask", "inputSchema": {"type": "object"}}]
            wire.json({"jsonrpc": "2.0", "id": request.message["id"], "result": {"tools": tools}})
        else:
            error = {"code": -32601, "message": "unknown"}
            wire.json({"jsonrpc": "2.0", "id": request.message["id"], "error": error})

    async def finish(self, wire: Wire) -> None:
        """Answer the call on this stream, when its question is answered; if the stream is still there."""
        gone = asyncio.ensure_future(wire.reader.read(1))
        given = asyncio.ensure_future(self.answers.get())
        await asyncio.wait({gone, given}, return_when=asyncio.FIRST_COMPLETED)
        if not given.done():
            given.cancel()
            wire.closing = True
            return
        text = json.dumps([[given.result()["result"]]])
        result = {"content": [{"type": "text", "text": text}]}
        wire.event({"jsonrpc": "2.0", "id": self.number, "result": result}, id="event-2")
        wire.end()
        wire.closing = True
        gone.cancel()


@asynccontextmanager
async def site() -> AsyncIterator[tuple[AskingSite, Json]]:
    asking_site = AskingSite()
    raw = Raw(asking_site, None, "/mcp")
    await raw.start()
    try:
        yield asking_site, {"up": {"type": "http", "url": raw.url}}
    finally:
        await raw.stop()


async def test_a_call_at_a_server_over_http_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with site() as (server, servers):
        request = call_of(FORM_STEP)
        async with running_hub(tmp_path, servers) as here:
            asked = await asked_once(await here.connect(MODERN), request)
            (file,) = (tmp_path / "parked-calls").iterdir()
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert stat.S_IMODE((tmp_path / "questions.key").stat().st_mode) == 0o600
        assert server.ended == []
        async with connected_hub(tmp_path, servers, MODERN) as (_, line):
            done = await line.result("tools/call", request | answers_to(asked, ACCEPTED))
            assert answered(done) == [[ACCEPTED]]
            assert (server.called, server.resumed) == (1, ["event-1"])
            await until(lambda: server.ended == ["session-1"], "its session is ended")
            assert list((tmp_path / "parked-calls").iterdir()) == []
            again = await line.request("tools/call", request | answers_to(asked, ACCEPTED))
            assert "used already" in again["error"]["message"]


async def test_it_goes_on_after_a_hub_that_had_no_time_to_end(tmp_path: Path) -> None:
    """The second hub begins while the first has closed nothing, as after kill -9."""
    async with site() as (server, servers), running_hub(tmp_path, servers) as first:
        request = call_of(FORM_STEP)
        asked = await asked_once(await first.connect(MODERN), request)
        upstream = first.hub.gateway.instance("up").connection
        assert upstream is not None
        upstream.conversation.transport.close("killed")
        async with connected_hub(tmp_path, servers, MODERN) as (_, line):
            done = await line.result("tools/call", request | answers_to(asked, ACCEPTED))
            assert answered(done) == [[ACCEPTED]]
            assert server.called == 1


async def test_a_call_at_a_process_ends_with_the_hub_and_its_handle_says_so(tmp_path: Path) -> None:
    request = call_of(FORM_STEP)
    async with running_hub(tmp_path, {"up": asking()}) as here:
        asked = await asked_once(await here.connect(MODERN), request)
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (_, line):
        answer = await line.request("tools/call", request | answers_to(asked, ACCEPTED))
        assert answer["error"]["code"] == -32602
        assert "the hub was restarted" in answer["error"]["message"]


async def test_a_server_that_was_changed_meanwhile_does_not_get_the_answer(tmp_path: Path) -> None:
    async with site() as (server, servers), site() as (_, others):
        request = call_of(FORM_STEP)
        async with running_hub(tmp_path, servers) as here:
            asked = await asked_once(await here.connect(MODERN), request)
        async with connected_hub(tmp_path, others, MODERN) as (_, line):
            answer = await line.request("tools/call", request | answers_to(asked, ACCEPTED))
            assert "was changed or removed" in answer["error"]["message"]
            assert server.resumed == []
