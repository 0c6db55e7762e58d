"""Clients of 2026-07-28: every POST is independent, and ends with its connection."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.harness.http_hub import call, http_hub, http_peer, modern, request, text_of
from tests.harness.patience import until
from tests.harness.running_hub import ENVELOPE, Json, child

MIRRORED = str(Path(__file__).parents[2] / "harness" / "servers" / "mirrored.py")
SERVERS = {"c": child("--era", "dual")}


async def test_an_answer_that_comes_first_is_json(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS) as (_, peer):
        message, headers = modern(call("c__echo", "七", text="hi"))
        answer = await peer.post(message, **headers)
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.json["id"] == "七"
        assert answer.json["result"]["resultType"] == "complete"
        assert text_of(answer.json) == {"text": "hi"}


async def test_what_comes_before_the_answer_makes_it_a_stream(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS) as (_, peer):
        message, headers = modern(call("c__progress", 5, steps=2), progressToken="t")
        answer = await peer.begin(message, **headers)
        assert answer.status == 200
        assert answer.streams
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.headers["cache-control"] == "no-store"
        told = [await peer.message() for _ in range(3)]
        assert [m.get("method") for m in told] == ["notifications/progress"] * 2 + [None]
        assert {m["params"]["progressToken"] for m in told[:2]} == {"t"}
        assert told[2]["id"] == 5
        assert await peer.event() is None
        # The connection is good for the next request.
        message, headers = modern(call("c__echo", 6))
        assert (await peer.post(message, **headers)).json["id"] == 6


async def test_a_client_that_takes_json_alone_is_answered_without_what_came_before(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS) as (_, peer):
        message, headers = modern(call("c__progress", 5, steps=2), progressToken="t")
        answer = await peer.post(message, **headers, accept="application/json")
        assert answer.headers["content-type"] == "application/json"
        assert "result" in answer.json


async def test_a_client_that_takes_events_alone_is_answered_with_one(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS) as (_, peer):
        message, headers = modern(call("c__echo", 5))
        answer = await peer.begin(message, **headers, accept="text/event-stream")
        assert answer.streams
        assert (await peer.message())["id"] == 5
        assert await peer.event() is None


async def test_a_client_that_goes_away_cancels_its_call(tmp_path: Path) -> None:
    async with http_hub(tmp_path, SERVERS) as here:
        peer, other = await here.peer(), await here.peer()
        message, headers = modern(call("c__hang"))
        peer.send_message(message, **headers)
        await until(lambda: here.hub.status()["in_flight"] == 1, "the call is in flight")
        instance = here.hub.gateway.instances("c")[0]
        await until(lambda: instance.in_flight == 1, "the server has it")
        peer.abort()
        await until(lambda: here.hub.status()["in_flight"] == 0, "the call is given up")
        await until(lambda: instance.in_flight == 0, "the server is rid of it")
        message, headers = modern(call("c__echo"))
        assert (await other.post(message, **headers)).status == 200
        await until(lambda: len(here.hub.sessions) == 0, "no session is left")


async def test_a_subscription_is_a_stream_of_what_changes(tmp_path: Path) -> None:
    async with http_hub(tmp_path, SERVERS) as here:
        peer, other = await here.peer(), await here.peer()
        wanted = {"notifications": {"toolsListChanged": True}}
        message, headers = modern(request("subscriptions/listen", wanted, "sub"))
        answer = await peer.begin(message, **headers)
        assert answer.streams
        acknowledged = await peer.message()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        change, named = modern(call("c__change_tools", names=["echo", "change_tools"]))
        assert (await other.post(change, **named)).status == 200
        assert (await peer.message())["method"] == "notifications/tools/list_changed"


async def test_a_subscription_is_refused_to_who_takes_no_stream(tmp_path: Path) -> None:
    async with http_peer(tmp_path) as (_, peer):
        message, headers = modern(request("subscriptions/listen", {"notifications": {}}))
        assert (await peer.post(message, **headers, accept="application/json")).status == 406


async def test_errors_have_the_status_that_their_code_prescribes(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS) as (_, peer):

        async def refused(message: Json, **headers: Any) -> tuple[int, int]:
            answer = await peer.post(message, **headers)
            assert answer.json["id"] == message.get("id")
            return answer.status, answer.code

        message, headers = modern(call("c__echo"))
        assert await refused(message, **{**headers, "mcp_name": "other"}) == (400, -32020)
        assert await refused(message, **{**headers, "mcp_method": None}) == (400, -32020)
        assert await refused(message, **{**headers, "mcp_protocol_version": None}) == (400, -32020)
        assert await refused(message, **{**headers, "mcp_protocol_version": "2025-06-18"}) == (400, -32020)
        bare = {**message, "params": {"name": "c__echo"}}
        assert await refused(bare, **headers) == (400, -32602)
        future = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2030-01-01"}
        later = {**message, "params": {"name": "c__echo", "_meta": future}}
        assert await refused(later, **{**headers, "mcp_protocol_version": "2030-01-01"}) == (400, -32022)
        unknown, named = modern(request("no/such"))
        assert await refused(unknown, **named) == (404, -32601)
        handshake, named = modern(request("initialize"))
        assert await refused(handshake, **named) == (404, -32601)
        absent, named = modern(call("c__no_such_tool"))
        assert await refused(absent, **named) == (400, -32602)
        failing, named = modern(call("c__refuse", code=-5))
        assert await refused(failing, **named) == (200, -5)


async def test_a_mirrored_argument_has_to_equal_its_header(tmp_path: Path) -> None:
    async with http_peer(tmp_path, {"c": {"command": sys.executable, "args": [MIRRORED]}}) as (_, peer):
        message, headers = modern(call("c__mirrored", region="東京"))
        tools, named = modern(request("tools/list"))
        await peer.post(tools, **named)
        wrapped = "=?base64?5p2x5Lqs?="
        assert (await peer.post(message, **headers, **{"mcp-param-region": wrapped})).status == 200
        answer = await peer.post(message, **headers, **{"mcp-param-region": "Osaka"})
        assert (answer.status, answer.code) == (400, -32020)
        assert (await peer.post(message, **headers)).code == -32020


async def test_blanks_around_a_header_are_none_of_it(tmp_path: Path) -> None:
    async with http_hub(tmp_path, SERVERS) as here:
        message, headers = modern(call("c__echo"))
        padded = {name: f" \t{value}\t  " for name, value in headers.items()}
        assert (await (await here.peer()).post(message, **padded)).status == 200


async def test_a_notification_is_taken_and_an_answer_is_not(tmp_path: Path) -> None:
    async with http_peer(tmp_path) as (_, peer):
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        taken = await peer.post(note, mcp_protocol_version="2026-07-28")
        assert (taken.status, taken.body) == (202, b"")
        wrong = await peer.post(note, mcp_protocol_version="2031-01-01")
        assert (wrong.status, wrong.code) == (400, -32022)
        reply = await peer.post({"jsonrpc": "2.0", "id": 1, "result": {}}, mcp_protocol_version="2026-07-28")
        assert (reply.status, reply.code) == (400, -32600)
        batch = await peer.post([note], mcp_protocol_version="2026-07-28")
        assert (batch.status, batch.code) == (400, -32600)


async def test_each_path_has_its_mode(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS, mode="light", list_wait=20) as (_, peer):
        lists = {}
        for path in ("/mcp", "/mcp/search", "/mcp/light", "/mcp/full", "/mcp/code"):
            message, headers = modern(request("tools/list"))
            answer = await peer.post(message, path, **headers)
            lists[path] = {tool["name"] for tool in answer.json["result"]["tools"]}
        assert lists["/mcp"] == lists["/mcp/light"]
        assert "describe_tools" in lists["/mcp/light"]
        assert "c__echo" in lists["/mcp/full"]
        assert "describe_tools" not in lists["/mcp/full"]
        assert "c__echo" not in lists["/mcp/search"]
        assert lists["/mcp/code"] == {"search_tools", "run_script", "read_more"}


async def test_a_pretty_printed_body_reaches_a_server_on_a_pipe(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS) as (_, peer):
        message, headers = modern(call("c__echo", nested={"a": [1, 2]}, text="two\nlines"))
        answer = await peer.post(json.dumps(message, indent=2).replace("\n", "\r\n").encode(), **headers)
        assert text_of(answer.json) == {"nested": {"a": [1, 2]}, "text": "two\nlines"}


async def test_a_long_result_is_read_on_by_the_next_post(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS, result_tokens=1000) as (here, peer):
        message, headers = modern(call("call_tool", name="c__huge", arguments={"bytes": 9000}))
        first = (await peer.post(message, **headers)).json["result"]["content"][-1]["text"]
        handle = first.partition('"handle": "')[2].partition('"')[0] or first.split()[-1].strip('".')
        message, headers = modern(call("read_more", handle=handle))
        more = (await (await here.peer()).post(message, **headers)).json["result"]
        assert not more.get("isError"), (first[-300:], more)
        assert "x" * 1000 in more["content"][0]["text"]


async def test_only_post_is_for_who_has_no_session(tmp_path: Path) -> None:
    async with http_peer(tmp_path) as (_, peer):
        for method in ("GET", "DELETE", "PUT", "PATCH"):
            peer.send(method, "/mcp", {"mcp-protocol-version": "2026-07-28"})
            answer = await peer.answer()
            assert answer.status == 405
            assert "POST" in answer.headers["allow"]


async def test_clients_that_come_and_go_leave_nothing(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS) as (here, steady):
        session = await here.session(steady)

        async def one(number: int) -> None:
            peer = await here.peer()
            message = call("c__wait", number, seconds=number % 7 / 50)
            if number % 2:
                peer.send_message(message, **session)
            else:
                message, headers = modern(message)
                peer.send_message(message, **headers)
            if number % 3:
                assert (await peer.reply())["id"] == number
                peer.close()
            else:
                for _ in range(number % 5 * 20):
                    await asyncio.sleep(0)
                peer.abort()

        for begin in range(0, 300, 100):
            await asyncio.gather(*(one(number) for number in range(begin, begin + 100)))
        await until(lambda: here.door.connections == 1, "only the steady one is connected")
        await until(lambda: here.hub.status()["in_flight"] == 0, "nothing is in flight")
        assert len(here.hub.sessions) == 1
        assert (await steady.post(request("ping", number="p"), **session)).status == 200
