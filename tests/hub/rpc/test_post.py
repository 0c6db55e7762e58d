"""JSON-RPC by POST: one answer, lines for several answers, no body for a notification."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tabane.hub.rpc.dispatcher import MOST_ANSWER
from tests.harness.http_hub import Answer, HttpClient, request
from tests.harness.patience import until
from tests.harness.rpc_hub import rpc_hub, rpc_peer
from tests.harness.running_hub import SOON


async def post(client: HttpClient, message: Any, **headers: str | None) -> Answer:
    return await client.post(message, "/rpc", **{"authorization": None, **headers})


async def lines(client: HttpClient) -> list[Any]:
    """The lines of the response that has begun."""
    body = b""
    while chunk := await client.chunk():
        body += chunk
    assert body.endswith(b"\n")
    return [json.loads(line) for line in body.splitlines()]


async def test_a_message_is_answered_in_json(tmp_path: Path) -> None:
    async with rpc_peer(tmp_path) as (here, client):
        answer = await post(client, request("echo", {"text": "束ね"}, "a"))
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json == {"jsonrpc": "2.0", "id": "a", "result": "束ね"}
        both = await post(client, [request("echo", {}, 1), {"jsonrpc": "2.0", "method": "echo"}])
        assert [one["id"] for one in both.json] == [1]
        assert not here.door.busy


async def test_a_job_goes_on_after_the_request_that_began_it(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path) as here:
        client, bearer = await here.peer(), here.bearer
        state = (await post(client, request("work"), authorization=bearer)).json["result"]
        assert (state["status"], state["owner"]["detached"]) == ("running", True)
        client.close()
        await until(lambda: not here.door.connections, "the program has left")
        here.works.gate.set()
        await until(lambda: not here.hub.jobs.running, "the job is over")
        follow = request("follow_job", {"job": state["job"]})
        assert (await post(await here.peer(), follow, authorization=bearer)).json["result"][
            "result"
        ] == "opened"


async def test_what_is_only_told_has_no_answer(tmp_path: Path) -> None:
    async with rpc_peer(tmp_path) as (here, client):
        note = {"jsonrpc": "2.0", "method": "echo", "params": {"text": "told"}}
        for message in (note, [note, note], {**note, "method": "nothing"}, {**note, "method": "count"}):
            client.send_message(message, "/rpc", authorization=None)
            assert (await client.head()).status == 204
        assert len(here.works.callers) == 3


async def test_a_stream_comes_as_lines(tmp_path: Path) -> None:
    async with rpc_peer(tmp_path) as (_, client):
        client.send_message(request("count", {"parts": 3}, 7), "/rpc", authorization=None)
        head = await client.head()
        assert (head.status, head.headers["content-type"]) == (200, "application/x-ndjson")
        answers = await lines(client)
        assert [(answer["id"], answer["more"]) for answer in answers] == [(7, True), (7, True), (7, False)]
        client.send_message(request("count", {"parts": 3, "fail": 2}, 8), "/rpc", authorization=None)
        assert (await client.head()).status == 200
        first, failed = await lines(client)
        assert (first["more"], failed["error"]["code"]) == (True, -32603)
        in_batch = await post(client, [request("count")])
        assert in_batch.json[0]["error"]["code"] == -32600
        # The connection is kept for what comes next.
        assert (await post(client, request("echo"))).status == 200


async def test_who_does_not_read_a_stream_costs_a_few_parts_and_who_leaves_ends_it(tmp_path: Path) -> None:
    async with rpc_peer(tmp_path) as (here, client):
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        params = {"parts": 1000, "size": 500_000}
        client.send_message(request("count", params), "/rpc", authorization=None)
        await until(lambda: here.works.made > 0, "the stream has begun")
        other = await here.frames()
        for _ in range(500):
            await other.ask("echo")
        assert here.works.made < 40
        client.abort()
        await until(lambda: here.works.left > 0, "the stream was given up")
        await until(lambda: here.door.connections == 1, "its client is gone")


async def test_who_leaves_has_what_they_asked_for_cancelled(tmp_path: Path) -> None:
    async with rpc_peer(tmp_path) as (here, client):
        client.send_message(request("wait"), "/rpc", authorization=None)
        await until(lambda: here.works.running > 0, "it is asked")
        client.abort()
        await until(lambda: here.works.cancelled > 0, "it has ended")
        await until(lambda: not here.door.busy, "nobody is there")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (request("nothing"), -32601),
        (request("assistants_only"), -32601),
        (request("echo", {"number": 101}), -32602),
        (request("fail"), -32603),
        (request("secret"), -31403),
    ],
)
async def test_an_error_of_rpc_is_an_answer(tmp_path: Path, message: Any, code: int) -> None:
    async with rpc_peer(tmp_path) as (_, client):
        answer = await post(client, message)
        assert (answer.status, answer.code) == (200, code)
        assert (await post(client, request("echo"))).status == 200


async def test_what_http_is_about_has_its_status(tmp_path: Path) -> None:
    async with rpc_peer(tmp_path, origins=["http://localhost:3000"]) as (here, client):
        echo = request("echo")
        assert (await post(client, echo, content_type="text/plain")).status == 415
        assert (await post(client, echo, origin="https://evil.example")).status == 403
        assert (await post(client, echo, host="evil.example")).status == 421
        assert (await post(client, echo, authorization="Bearer wrong")).status == 401
        assert (await client.get("/rpc")).headers["upgrade"] == "websocket"
        client.send("DELETE", "/rpc", {})
        assert (await client.answer()).headers["allow"] == "GET, POST, OPTIONS"
        origin = {"origin": "http://localhost:3000", "access-control-request-method": "POST"}
        client.send("OPTIONS", "/rpc", origin)
        allowed = await client.answer()
        assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (204, origin["origin"])
        too_long = await here.peer()
        too_long.send("POST", "/rpc", {"content-type": "application/json", "content-length": "16777217"})
        assert (await too_long.answer()).status == 413
        here.door.drain()
        here.door.hub.sessions.draining = True
        assert (await post(client, echo)).headers["retry-after"] == "1"


async def test_an_answer_that_is_too_long_is_shortened_here_too(tmp_path: Path) -> None:
    async with rpc_peer(tmp_path) as (_, client):
        answer = await post(client, request("posts", {"times": 2000}))
        assert len(answer.body) <= MOST_ANSWER
        assert answer.json["truncated"] == ["reasoning", "summary", "tags"]
        assert len(answer.json["result"]) == 2000


async def test_one_batch_does_not_hold_up_another_client(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path) as here:
        client, other = await here.peer(), await here.peer()
        client.send_message([request("wait", {}, n) for n in range(200)], "/rpc", authorization=None)
        await until(lambda: here.works.running == 64, "as many as run at once")
        assert (await asyncio.wait_for(post(other, request("echo")), SOON)).status == 200
        here.works.gate.set()
        assert len((await client.answer()).json) == 200
