"""HTTP upstreams that misbehave: what callers get, what is sent again, and what never is."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tabane.net.http_responses import LARGEST_ERROR
from tests.harness.cases import cases_beside
from tests.harness.patience import until
from tests.harness.running_hub import (
    SOON,
    Json,
    RunningHub,
    SocketClient,
    connected_hub,
    loop_turns,
    running_hub,
    text,
)
from tests.harness.servers.raw_http import Handler, Raw, Request, Wire, legacy, modern, raw

CASES = cases_beside(__file__)


def calls(answer: Handler, *, base: Handler = modern, tool: str = "") -> Handler:
    """A server that answers calls in its own way, everything else as it should."""

    async def handle(server: Raw, request: Request, wire: Wire) -> None:
        if request.rpc == "tools/call" and (not tool or request.tool == tool):
            await answer(server, request, wire)
        else:
            await base(server, request, wire)

    return handle


def first_time(answer: Handler, *, base: Handler = modern) -> Handler:
    """The same, for the first call alone."""
    begun: list[Request] = []

    async def handle(server: Raw, request: Request, wire: Wire) -> None:
        if begun:
            await base(server, request, wire)
        else:
            begun.append(request)
            await answer(server, request, wire)

    return calls(handle, base=base)


@asynccontextmanager
async def web_hub(
    folder: Path, handler: Handler, settings: Json | None = None, **keys: Any
) -> AsyncIterator[tuple[Raw, RunningHub, SocketClient]]:
    """The server as the upstream ``web`` of a hub, and a client."""
    async with raw(handler) as server:
        servers = {"web": {"type": "http", "url": server.url, **keys}}
        async with running_hub(folder, servers, **(settings or {})) as hub:
            yield server, hub, await hub.connect()


async def failure(client: SocketClient, tool: str = "echo", **arguments: Any) -> str:
    """What a call that must fail is answered with."""
    response = await client.request("tools/call", {"name": f"web__{tool}", "arguments": arguments})
    assert "error" in response, response
    return str(response["error"]["message"])


async def why_not(hub: RunningHub, client: SocketClient) -> str:
    """Why the server could not be started."""
    await client.request("tools/call", {"name": "web__echo", "arguments": {}})
    (instance,) = hub.hub.gateway.instances("web")
    await until(lambda: instance.vitals.error is not None, "the start failed")
    return str(instance.vitals.error)


async def drop(server: Raw, request: Request, wire: Wire) -> None:
    wire.drop()


async def begin_and_drop(server: Raw, request: Request, wire: Wire) -> None:
    wire.stream()
    wire.event(
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
    )
    await wire.writer.drain()
    wire.drop()


@pytest.mark.parametrize("how", [drop, begin_and_drop])
@pytest.mark.parametrize("base", [modern, legacy])
async def test_a_call_whose_stream_breaks_is_sent_again_where_that_is_safe(
    tmp_path: Path, how: Handler, base: Handler
) -> None:
    async with web_hub(tmp_path, first_time(how, base=base)) as (server, _, client):
        assert text(await client.call("web__peek")) == "done"
        assert len(server.asked("peek")) == 2


@pytest.mark.parametrize("how", [drop, begin_and_drop])
async def test_a_call_that_may_have_taken_effect_is_never_sent_again(tmp_path: Path, how: Handler) -> None:
    async with web_hub(tmp_path, first_time(how)) as (server, _, client):
        assert "It is not known whether the call took effect" in await failure(client)
        assert len(server.asked("echo")) == 1
        assert text(await client.call("web__echo")) == "done"


async def test_a_safe_call_that_always_breaks_is_sent_twice_at_most(tmp_path: Path) -> None:
    async with web_hub(tmp_path, calls(drop)) as (server, _, client):
        assert "broke during the call" in await failure(client, "peek")
        assert len(server.asked("peek")) == 2


async def test_a_stream_with_numbered_events_is_gone_on_with(tmp_path: Path) -> None:
    async def begin(server: Raw, request: Request, wire: Wire) -> None:
        server.tools.append({"name": "late", "x": request.message["id"], "inputSchema": {}})
        wire.stream()
        wire.chunk(b"retry: 20\nid: e1\ndata:\n\n")
        await wire.writer.drain()
        wire.drop()

    async def handle(server: Raw, request: Request, wire: Wire) -> None:
        if request.method == "GET" and request.headers.get("last-event-id") == "e1":
            wire.stream()
            wire.event(
                {
                    "jsonrpc": "2.0",
                    "id": server.tools[-1]["x"],
                    "result": {"content": [], "structuredContent": {}},
                }
            )
            wire.end()
        else:
            await calls(begin, base=legacy)(server, request, wire)

    async with web_hub(tmp_path, handle) as (server, _, client):
        assert (await client.call("web__echo"))["structuredContent"] == {}
        assert len(server.asked("echo")) == 1


async def test_a_session_that_the_server_forgot_is_begun_anew_unnoticed(tmp_path: Path) -> None:
    async with web_hub(tmp_path, legacy) as (server, _, client):
        assert text(await client.call("web__echo")) == "done"
        server.sessions.clear()
        answers = await asyncio.gather(*(client.call("web__echo", n=n) for n in range(8)))
        assert [text(answer) for answer in answers] == ["done"] * 8
        assert len(server.asked("initialize")) == 2
        assert len(server.asked("notifications/initialized")) == 2
        await until(lambda: len(server.asked("tools/list")) >= 2, "its tools are listed anew")


async def test_a_log_level_is_told_to_the_new_session_as_well(tmp_path: Path) -> None:
    async with web_hub(tmp_path, legacy) as (server, _, client):
        await client.result("logging/setLevel", {"level": "debug"})
        await client.call("web__echo")
        await until(lambda: len(server.asked("logging/setLevel")) == 1, "the level was told")
        server.sessions.clear()
        await client.call("web__echo")
        await until(lambda: len(server.asked("logging/setLevel")) == 2, "the level was told again")
        level = server.asked("logging/setLevel")[-1]
        assert level.headers["mcp-session-id"] in server.sessions


async def test_nothing_is_asked_before_the_server_has_heard_that_the_hub_is_ready(tmp_path: Path) -> None:
    heard = asyncio.Event()

    async def slow(server: Raw, request: Request, wire: Wire) -> None:
        if request.rpc == "notifications/initialized":
            await heard.wait()
            server.sessions.add("ready")
        elif request.rpc.startswith("tools/"):
            assert "ready" in server.sessions
        await legacy(server, request, wire)

    async with web_hub(tmp_path, slow) as (server, _, client):
        calling = client.begin("tools/call", {"name": "web__echo", "arguments": {}})
        await until(lambda: bool(server.asked("notifications/initialized")), "it is told")
        await loop_turns()  # time to ask too early, which fails the server's own check
        heard.set()
        assert text((await calling)["result"]) == "done"


async def test_what_the_server_says_by_itself_is_heard_also_after_its_stream_broke(tmp_path: Path) -> None:
    streams: list[tuple[Request, Wire]] = []

    async def speaking(server: Raw, request: Request, wire: Wire) -> None:
        if request.method != "GET":
            await legacy(server, request, wire)
            return
        streams.append((request, wire))
        wire.stream()
        wire.chunk(b"retry: 20\n\n")
        await wire.writer.drain()
        await wire.gone()

    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

    async with web_hub(tmp_path, speaking) as (server, hub, client):
        await client.call("web__echo")
        names = hub.hub.gateway.catalog
        for number in (1, 2):
            await until(lambda number=number: len(streams) == number, "the stream is open")  # type: ignore[misc]
            server.tools = [*server.tools, {"name": f"new{number}", "inputSchema": {"type": "object"}}]
            wire = streams[-1][1]
            wire.event(changed, id=f"e{number}")
            await wire.writer.drain()
            await until(lambda number=number: f"web__new{number}" in set(names.names), "the tool is seen")  # type: ignore[misc]
            wire.drop()
        await until(lambda: len(streams) == 3, "the stream is open once more")
        assert [request.headers.get("last-event-id") for request, _ in streams] == [None, "e1", "e2"]


async def test_a_session_that_cannot_be_had_again_is_a_server_that_is_gone(tmp_path: Path) -> None:
    async def changed(server: Raw, request: Request, wire: Wire) -> None:
        if request.rpc == "initialize" and len(server.asked("initialize")) > 1:
            wire.send(401)
        else:
            await legacy(server, request, wire)

    async with web_hub(tmp_path, changed) as (server, _, client):
        assert text(await client.call("web__echo")) == "done"
        server.sessions.clear()
        assert "requires credentials, or does not accept" in await failure(client)


async def test_a_server_that_forgets_at_once_fails_clearly(tmp_path: Path) -> None:
    async def forget(server: Raw, request: Request, wire: Wire) -> None:
        server.sessions.clear()
        wire.send(404)

    async with web_hub(tmp_path, calls(forget, base=legacy)) as (server, _, client):
        assert "loses its sessions" in await failure(client)
        assert len(server.asked("echo")) == 3


async def test_a_session_is_ended_with_the_instance(tmp_path: Path) -> None:
    async with web_hub(tmp_path, legacy) as (server, hub, client):
        await client.call("web__echo")
        (instance,) = hub.hub.gateway.instances("web")
        await instance.stop()
        assert len(server.asked("DELETE")) == 1
        assert server.sessions == set()


@pytest.mark.parametrize(
    ("status", "headers", "tool", "sent"),
    CASES["a_busy_server_is_asked_again_where_nothing_can_have_happened"],
)
async def test_a_busy_server_is_asked_again_where_nothing_can_have_happened(
    tmp_path: Path, status: int, headers: dict[str, str], tool: str, sent: int
) -> None:
    async def busy(server: Raw, request: Request, wire: Wire) -> None:
        wire.send(status, b"", **headers)

    async with web_hub(tmp_path, first_time(busy)) as (server, _, client):
        if sent == 2:
            assert text(await client.call(f"web__{tool}")) == "done"
        else:
            assert f"web is busy ({status})" in await failure(client, tool)
        assert len(server.asked(tool)) == sent


async def test_a_server_that_stays_busy_is_given_up(tmp_path: Path) -> None:
    async def busy(server: Raw, request: Request, wire: Wire) -> None:
        wire.send(429, retry_after="0")

    async with web_hub(tmp_path, calls(busy)) as (server, _, client):
        assert "busy (429)" in await failure(client)
        assert len(server.asked("echo")) == 3


async def test_an_error_in_the_body_of_a_status_is_the_answer(tmp_path: Path) -> None:
    async def refuse(server: Raw, request: Request, wire: Wire) -> None:
        error = {"code": -32602, "message": "no such thing", "data": {"x": [1]}}
        wire.json({"jsonrpc": "2.0", "id": "server-error", "error": error}, 400)

    async with web_hub(tmp_path, calls(refuse)) as (_, _, client):
        response = await client.request("tools/call", {"name": "web__echo", "arguments": {}})
        assert response["error"] == {"code": -32602, "message": "no such thing", "data": {"x": [1]}}


async def test_a_call_that_is_refused_with_a_large_error_is_not_sent_again(tmp_path: Path) -> None:
    async def refuse(server: Raw, request: Request, wire: Wire) -> None:
        head, end = b'{"error":{"code":-32000,"message":"', b'"}}'
        body = head + b"x" * (LARGEST_ERROR - len(head) - len(end)) + end
        wire.send(500, body, content_type="application/json")

    async with web_hub(tmp_path, calls(refuse)) as (server, _, client):
        assert "xxx" in await failure(client)
        assert len(server.asked("echo")) == 1


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (500, b"it   broke\nhere", "web answered with HTTP status 500: it broke here"),
        (500, b"<html>secret page</html>", "web answered with HTTP status 500."),
        (401, b"", '"Authorization": "Bearer ${TOKEN}"'),
        (
            403,
            b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}',
            'If it has a login, set "oauth": true.',
        ),
        (202, b"", "does not answer it (202)"),
        (418, b"I am sk-12345678", "status 418: I am ***"),
    ],
)
async def test_a_status_that_is_no_answer_becomes_a_clear_error(
    tmp_path: Path, status: int, body: bytes, words: str
) -> None:
    async def refuse(server: Raw, request: Request, wire: Wire) -> None:
        wire.send(status, body)

    async with web_hub(tmp_path, calls(refuse), headers={"X-Api-Key": "sk-12345678"}) as (_, _, client):
        assert words in await failure(client)


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b"not json", "application/json", "not a response to it"),
        (b'{"jsonrpc": "2.0", "id": 999, "result": {}}', "application/json", "not a response to it"),
        (b"", "application/json", "not a response to it"),
        (b"<html>", "text/html", "not JSON or an event stream"),
        (b"data: junk\n\n:x\n\nid\n\n", "text/event-stream", "broke during the call"),
        (b"\xff\xfe\x00", "text/event-stream", "broke during the call"),
    ],
)
async def test_an_answer_that_is_none_becomes_a_clear_error(
    tmp_path: Path, body: bytes, kind: str, words: str
) -> None:
    async def junk(server: Raw, request: Request, wire: Wire) -> None:
        wire.send(200, body, content_type=kind)

    async with web_hub(tmp_path, calls(junk)) as (_, _, client):
        assert words in await failure(client)


async def test_an_answer_over_many_lines_reaches_a_client_of_lines(tmp_path: Path) -> None:
    async def pretty(server: Raw, request: Request, wire: Wire) -> None:
        answer = request.text("a\nb")
        if request.tool == "echo":
            wire.send(
                200,
                json.dumps(answer, indent=2).replace("\n", "\r\n").encode(),
                content_type="application/json",
            )
        else:
            wire.stream()
            wire.chunk(
                b"".join(b"data: %b\n" % line for line in json.dumps(answer, indent=2).encode().split(b"\n"))
                + b"\n"
            )
            wire.end()

    async with web_hub(tmp_path, calls(pretty)) as (_, _, client):
        assert text(await client.call("web__echo")) == "a\nb"
        assert text(await client.call("web__peek")) == "a\nb"


@pytest.mark.heavy("real servers as processes")
async def test_a_body_without_end_is_cut_off(tmp_path: Path) -> None:
    async def endless(server: Raw, request: Request, wire: Wire) -> None:
        if request.tool == "peek":
            wire.stream()
            wire.chunk(b"data: ")
        else:
            wire.head(200, content_type="application/json", transfer_encoding="chunked")
        while not wire.writer.is_closing():
            wire.chunk(b" " * 65536)
            await wire.writer.drain()

    limit = {"max_line": 1 << 20}
    async with web_hub(tmp_path / "body", calls(endless), limit) as (_, _, client):
        assert "larger than the message limit" in await failure(client)
    async with web_hub(tmp_path / "stream", calls(endless), limit, timeout=2) as (_, _, client):
        assert "did not answer within" in await failure(client, "peek")


@pytest.mark.heavy("real servers as processes")
async def test_a_small_body_that_unpacks_to_a_huge_one_is_cut_off(tmp_path: Path) -> None:
    packer = zlib.compressobj(9, wbits=31)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(512)) + packer.flush()

    async def bomb(server: Raw, request: Request, wire: Wire) -> None:
        wire.send(200, packed, content_type="application/json", content_encoding="gzip")

    async with web_hub(tmp_path, calls(bomb), {"max_line": 1 << 20}) as (_, _, client):
        tracemalloc.start()
        try:
            assert "larger than the message limit" in await failure(client)
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()


async def test_a_packed_answer_is_read(tmp_path: Path) -> None:
    async def packed(server: Raw, request: Request, wire: Wire) -> None:
        body = gzip.compress(json.dumps(request.text("x" * 100_000)).encode())
        wire.send(200, body, content_type="application/json", content_encoding="gzip")

    async with web_hub(tmp_path, calls(packed)) as (_, _, client):
        assert text(await client.call("web__echo")) == "x" * 100_000


async def test_an_answer_that_drips_is_waited_for_until_the_time_of_the_call(tmp_path: Path) -> None:
    async def drip(server: Raw, request: Request, wire: Wire) -> None:
        wire.head(200, content_type="application/json", transfer_encoding="chunked")
        try:
            while not wire.writer.is_closing():
                wire.chunk(b" ")
                await wire.writer.drain()
                await asyncio.sleep(0.02)
        finally:
            server.tools.append({"name": "ended"})

    async with web_hub(tmp_path, calls(drip), timeout=1) as (server, _, client):
        assert "did not answer within 1 s" in await failure(client)
        await until(lambda: len(server.tools) == 3, "the connection was closed")


async def test_a_connection_that_the_server_closes_while_idle_costs_no_call(tmp_path: Path) -> None:
    async def once(server: Raw, request: Request, wire: Wire) -> None:
        wire.json(request.text())
        await wire.writer.drain()
        # No "Connection: close": the client takes it for one that it may use again.
        wire.closing = True

    async with web_hub(tmp_path, calls(once)) as (_, _, client):
        for n in range(20):
            assert text(await client.call("web__peek", n=n)) == "done"


async def test_what_comes_first_is_not_held_back_by_the_rest(tmp_path: Path) -> None:
    async def lingering(server: Raw, request: Request, wire: Wire) -> None:
        wire.stream()
        wire.event(request.text())
        await wire.writer.drain()
        await wire.gone()

    async with web_hub(tmp_path, calls(lingering)) as (server, _, client):
        for _ in range(3):
            assert text(await client.call("web__echo")) == "done"
        await until(lambda: server.open <= 1, "streams that do not end are closed")


async def test_a_stream_that_ends_leaves_its_connection_for_the_next_call(tmp_path: Path) -> None:
    ended: list[Wire] = []

    async def in_pieces(server: Raw, request: Request, wire: Wire) -> None:
        wire.stream()
        wire.event(request.text())
        await wire.writer.drain()
        await loop_turns()
        wire.end()
        await wire.writer.drain()
        ended.append(wire)

    async with web_hub(tmp_path, calls(in_pieces)) as (server, _, client):
        for number in range(20):
            assert text(await client.call("web__echo")) == "done"
            await until(lambda: len(ended) > number, "its stream has ended")  # noqa: B023  (awaited here)
            await loop_turns()
        assert server.accepted < 5


# -- redirects -----------------------------------------------------------------------------------


def redirecting(status: int, location: Callable[[Raw], str]) -> Handler:
    async def handle(server: Raw, request: Request, wire: Wire) -> None:
        if request.target == "/mcp":
            wire.send(status, location=location(server))
        else:
            await modern(server, request, wire)

    return handle


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_to_the_same_place_is_followed(tmp_path: Path, status: int) -> None:
    handler, headers = redirecting(status, lambda server: "/mcp/"), {"Authorization": "Bearer abcdefgh"}
    async with web_hub(tmp_path, handler, headers=headers) as (server, _, client):
        assert text(await client.call("web__echo")) == "done"
        assert server.requests[-1].target == "/mcp/"
        assert server.requests[-1].headers["authorization"] == "Bearer abcdefgh"
        # It is remembered: one detour, not one a call.
        assert len([request for request in server.requests if request.target == "/mcp"]) == 1


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_that_loses_what_was_sent_is_refused(tmp_path: Path, status: int) -> None:
    async with web_hub(tmp_path, redirecting(status, lambda server: "/mcp/")) as (_, hub, client):
        assert f"loses the request body ({status})" in await why_not(hub, client)


async def test_a_redirect_that_goes_round_ends(tmp_path: Path) -> None:
    async with web_hub(tmp_path, redirecting(307, lambda server: "/mcp")) as (_, hub, client):
        assert "too many times (5)" in await why_not(hub, client)


async def test_nothing_is_sent_to_another_place(tmp_path: Path) -> None:
    async with raw(modern) as thief, raw(redirecting(307, lambda server: thief.url)) as server:
        servers = {
            "web": {"type": "http", "url": server.url, "headers": {"Authorization": "Bearer abcdefgh"}}
        }
        async with connected_hub(tmp_path, servers) as (hub, client):
            message = await why_not(hub, client)
            assert f"redirects to another site, http://127.0.0.1:{thief.port}" in message
            assert thief.requests == []


# -- reaching it ---------------------------------------------------------------------------------


async def test_a_server_that_is_not_there_is_named_with_the_reason(tmp_path: Path) -> None:
    async with raw(modern) as server:
        url = server.url
    async with connected_hub(tmp_path, {"web": {"url": url}}) as (hub, client):
        message = await why_not(hub, client)
        assert f"127.0.0.1:{server.port} cannot be reached: Connection refused" in message


async def test_a_name_that_is_not_known_is_said(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"web": {"url": "http://nowhere.invalid/mcp"}}) as (hub, client):
        assert "the name nowhere.invalid does not exist" in await why_not(hub, client)


async def test_a_call_waits_for_a_server_that_is_started_anew(tmp_path: Path) -> None:
    async with web_hub(tmp_path, modern) as (server, hub, client):
        await client.call("web__echo")
        await server.stop()
        answer = client.begin("tools/call", {"name": "web__echo", "arguments": {}})
        upstream = next(iter(hub.hub.gateway.instances("web")))
        await until(lambda: upstream.state.value == "waiting", "it was found gone")
        await server.start()
        response = await asyncio.wait_for(answer, SOON)
        assert text(response["result"]) == "done"
        # Nothing was sent while it was away, so the call went out once.
        assert len(server.asked("echo")) == 2


async def test_a_call_in_flight_goes_on_while_the_server_takes_no_new_ones(tmp_path: Path) -> None:
    async def held(server: Raw, request: Request, wire: Wire) -> None:
        assert server._server is not None
        server._server.close()
        server.tools.clear()
        await until(lambda: bool(server.tools), "the test goes on")
        wire.json(request.text("held"))

    async with web_hub(tmp_path, calls(held, tool="echo")) as (server, _, client):
        first = client.begin("tools/call", {"name": "web__echo", "arguments": {}})
        await until(lambda: server.tools == [], "the first call is in flight")
        second = client.begin("tools/call", {"name": "web__peek", "arguments": {}})
        await loop_turns()
        assert not first.done()
        assert not second.done()
        server._server = None
        await server.start()
        assert text((await asyncio.wait_for(second, SOON))["result"]) == "done"
        server.tools.append({"name": "x"})
        assert text((await asyncio.wait_for(first, SOON))["result"]) == "held"


def refusing(times: int, supported: Any) -> Handler:
    """A modern server that refuses the protocol version of its first requests."""

    async def handle(server: Raw, request: Request, wire: Wire) -> None:
        if len(server.requests) <= times:
            data = {"supported": supported, "requested": "2026-07-28"}
            error = {"code": -32022, "message": "unsupported protocol version", "data": data}
            wire.json({"jsonrpc": "2.0", "id": request.message["id"], "error": error}, 400)
        else:
            await modern(server, request, wire)

    return handle


async def test_a_version_that_was_refused_and_is_supported_is_tried_once_more(tmp_path: Path) -> None:
    async with web_hub(tmp_path, refusing(1, ["2027-01-01", "2026-07-28"])) as (server, _, client):
        assert text(await client.call("web__echo")) == "done"
        assert len(server.asked("server/discover")) == 2
        assert server.asked("initialize") == []


@pytest.mark.parametrize("supported", [["2025-11-25"], [], None, "2026-07-28", [1]], ids=repr)
async def test_a_version_that_was_refused_is_not_tried_again_if_nothing_names_it(
    tmp_path: Path, supported: Any
) -> None:
    async with web_hub(tmp_path, refusing(1 << 30, supported)) as (server, hub, client):
        await why_not(hub, client)
        first, second, *_ = server.requests
        assert (first.rpc, second.rpc) == ("server/discover", "initialize")


async def test_a_server_that_keeps_refusing_the_version_that_it_supports_is_given_up(tmp_path: Path) -> None:
    async with web_hub(tmp_path, refusing(1 << 30, ["2026-07-28"])) as (server, hub, client):
        assert "unsupported protocol version" in await why_not(hub, client)
        methods = [request.rpc for request in server.requests[:3]]
        assert methods == ["server/discover", "server/discover", "initialize"]


async def test_a_server_of_the_old_kind_is_found_where_no_type_is_given(tmp_path: Path) -> None:
    streams: list[Wire] = []

    async def old(server: Raw, request: Request, wire: Wire) -> None:
        if request.method == "GET":
            streams.append(wire)
            wire.stream()
            wire.event("/post?x=1", name="endpoint")
            await wire.writer.drain()
            await wire.gone()
        elif request.target != "/post?x=1":
            wire.send(405)
        else:
            wire.send(202)
            if "id" in request.message:
                shadow = Wire(wire.reader, streams[-1].writer)
                answers: list[Any] = []
                shadow.json = lambda value, *_, **__: answers.append(value)  # type: ignore[method-assign]
                server.sessions.add("")
                await legacy(server, request, shadow)
                streams[-1].event(answers[0])

    async with raw(old, path="/sse") as server:
        async with connected_hub(tmp_path / "a", {"web": {"url": server.url}}) as (_, client):
            assert text(await client.call("web__echo")) == "done"
        typed = {"web": {"type": "http", "url": server.url}}
        async with connected_hub(tmp_path / "b", typed) as (hub, client):
            assert 'set "type": "sse"' in await why_not(hub, client)


async def test_requests_are_not_posted_to_another_place_than_the_stream_came_from(tmp_path: Path) -> None:
    async with raw(modern) as thief:

        async def lure(server: Raw, request: Request, wire: Wire) -> None:
            wire.stream()
            wire.event(thief.url, name="endpoint")
            await wire.writer.drain()
            await wire.gone()

        async with (
            raw(lure) as server,
            running_hub(tmp_path, {"web": {"type": "sse", "url": server.url}}) as hub,
        ):
            assert "asks for requests at another site" in await why_not(hub, await hub.connect())
            assert thief.requests == []
