"""JSON-RPC over a WebSocket: with the library `websockets`, and with raw frames."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tabane.hub.http import websocket as sockets
from tabane.hub.rpc import dispatcher
from tabane.hub.rpc.dispatcher import MOST_ANSWER
from tabane.wire import websocket
from tests.harness.http_hub import request
from tests.harness.patience import until
from tests.harness.rpc_hub import RpcHub, WebSocketClient, rpc_frames, rpc_hub
from tests.harness.running_hub import SOON


@pytest.mark.parametrize("path", ["/", "/rpc", "/rpc?x=1"])
async def test_a_client_with_default_limits_is_answered(tmp_path: Path, path: str) -> None:
    async with rpc_hub(tmp_path) as here, connect(here.url(path)) as client:
        assert client.response
        assert "Sec-WebSocket-Extensions" not in client.response.headers
        await client.send(json.dumps(request("echo", {"text": "束ね"}, "a")))
        assert json.loads(await client.recv()) == {"jsonrpc": "2.0", "id": "a", "result": "束ね"}


async def test_a_stream_is_several_answers_with_the_same_id(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path) as here, connect(here.url()) as client:
        await client.send(json.dumps(request("count", {"parts": 3, "size": 1}, 1.5)))
        answers = [json.loads(await client.recv()) for _ in range(3)]
        assert answers[0] == {"jsonrpc": "2.0", "id": 1.5, "result": {"number": 1, "data": "x"}, "more": True}
        assert [answer["more"] for answer in answers] == [True, True, False]
        await client.send(json.dumps(request("echo")))
        assert "more" not in json.loads(await client.recv())


async def test_a_stream_that_fails_ends_with_an_error(tmp_path: Path) -> None:
    async with rpc_frames(tmp_path) as (here, frames):
        assert (await frames.ask("count", {"fail": 2}))["more"]
        failed = await frames.next()
        assert (failed["id"], failed["error"]["code"]) == (1, -32603)
        assert failed["error"]["data"] == {"reason": "internal"}
        assert "more" not in failed
        # A part that no client would take ends it too.
        too_long = await frames.ask("count", {"size": 2 << 20})
        assert (too_long["error"]["code"], too_long["error"]["data"]) == (-32603, {"reason": "size"})
        assert str(MOST_ANSWER) in too_long["error"]["message"]
        assert await frames.ask("count", {"size": -1}) == {
            "jsonrpc": "2.0",
            "id": 1,
            "error": {
                "code": -32602,
                "message": "size: Expected `int` >= 0 (allowed: 0 to 2097152)",
                "data": {"parameter": "size"},
            },
        }
        assert here.works.left == here.works.made  # each made one part, and was closed


async def test_streams_and_calls_of_one_connection_run_beside_each_other(tmp_path: Path) -> None:
    async with rpc_frames(tmp_path) as (here, frames):
        frames.send(request("wait", {}, "slow"))
        frames.send(request("count", {"parts": 2}, "stream"))
        frames.send(request("echo", {}, "call"))
        answers = [await frames.next() for _ in range(3)]
        assert sorted(answer["id"] for answer in answers) == ["call", "stream", "stream"]
        here.works.gate.set()
        assert (await frames.next())["id"] == "slow"


async def stalled(here: RpcHub, parts: int) -> socket.socket:
    """A client that asks for a stream of that many parts of 500 kB, and reads nothing."""
    frames = await here.frames()
    peer: socket.socket = frames.writer.get_extra_info("socket")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    frames.send(request("count", {"parts": parts, "size": 500_000}))
    frames.writer.transport.pause_reading()  # type: ignore[attr-defined]
    return peer


async def test_a_client_that_does_not_read_a_stream_costs_a_few_parts(tmp_path: Path) -> None:
    async with rpc_frames(tmp_path) as (here, frames):
        frames.writer.transport.pause_reading()  # type: ignore[attr-defined]
        frames.send(request("count", {"parts": 200, "size": 500_000}))
        await until(lambda: here.works.made > 0, "the stream has begun")
        # Another client is served all the while, often enough for all of it to have been made.
        other = await here.frames()
        for _ in range(500):
            await other.ask("echo")
        # The kernel's buffers hold some megabytes, and we one or two: far from 100.
        assert here.works.made < 40
        made = here.works.made
        for _ in range(200):
            await other.ask("echo")
        assert here.works.made <= made + 2
        frames.writer.transport.resume_reading()  # type: ignore[attr-defined]
        answers = [await frames.next() for _ in range(200)]
        assert [answer["result"]["number"] for answer in answers] == list(range(1, 201))
        assert not answers[-1]["more"]


async def test_only_so_many_streams_of_a_connection_have_a_part_in_hand(tmp_path: Path) -> None:
    async with rpc_frames(tmp_path) as (here, frames):
        frames.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(40):
            frames.send(request("count", {"parts": 200, "size": 500_000}, number))
        other = await here.frames()
        await until(lambda: here.works.made > 0, "the streams have begun")
        for _ in range(500):
            await other.ask("echo")
        assert here.works.streams == dispatcher.STREAMS
        assert here.works.made < 50


async def test_who_does_not_read_its_answers_is_not_read_either(tmp_path: Path) -> None:
    async with rpc_frames(tmp_path) as (_, frames):
        frames.writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer = frames.writer
        sent = 0
        for sent in range(2000):
            frames.send(request("echo", {"text": "x" * 500_000}, sent))
            try:
                await asyncio.wait_for(writer.drain(), 0.5)
            except TimeoutError:
                break
        assert sent < 400, "the hub took 200 MB of questions whose answers are not read"
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        ids = {(await frames.next())["id"] for _ in range(sent + 1)}
        assert ids == set(range(sent + 1))


async def test_who_hangs_up_has_what_they_asked_for_cancelled(tmp_path: Path) -> None:
    async with rpc_frames(tmp_path) as (here, frames):
        frames.send(request("wait"))
        frames.send(request("count", {"parts": 100_000, "size": 100_000}, 2))
        await until(lambda: here.works.running > 0 and here.works.made > 0, "both run")
        frames.writer.transport.abort()
        await until(lambda: here.works.cancelled > 0 and here.works.left > 0, "both have ended")
        await until(lambda: not here.door.connections, "nobody is there")
        assert not here.door.busy


@pytest.mark.parametrize("detached", [False, True])
async def test_a_job_ends_with_its_websocket_unless_it_is_detached(tmp_path: Path, detached: bool) -> None:
    async with rpc_hub(tmp_path) as here:
        frames = await here.frames(authorization=here.bearer)
        job = (await frames.ask("work"))["result"]["job"]
        await until(lambda: here.works.running > 0, "it runs")
        if detached:
            assert (await frames.ask("detach_job", {"job": job}))["result"]["owner"]["detached"]
        frames.close()
        await until(lambda: not here.door.connections, "the program has left")
        here.works.gate.set()  # too late for a job that was canceled
        other = await here.frames(authorization=here.bearer)
        await until(lambda: not here.hub.jobs.running, "the job is over")
        state = (await other.ask("follow_job", {"job": job}))["result"]
        assert state["status"] == ("done" if detached else "cancelled")


@pytest.mark.parametrize("pongs", [True, False])
async def test_a_client_without_a_sign_of_life_is_gone(tmp_path: Path, pongs: bool) -> None:
    async with rpc_frames(tmp_path, ping_interval=0.1) as (here, frames):
        frames.pongs = pongs
        frames.send(request("wait"))
        await until(lambda: here.works.running > 0, "it is asked")
        if pongs:
            listening = asyncio.ensure_future(frames.next())
            await until(lambda: frames.pings > 3 * sockets.DEAF, "it answers long enough")
            assert not listening.done()
            here.works.gate.set()
            assert (await listening)["result"] == "opened"
        else:
            assert await frames.event() is None
            await until(lambda: here.works.cancelled > 0, "what it asked for has ended")


async def test_a_client_that_leaves_a_stream_unread_is_gone_in_the_end(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path, ping_interval=0.1) as here:
        await stalled(here, 1000)
        await until(lambda: here.works.made > 0, "the stream has begun")
        await until(lambda: here.works.left > 0, "the stream was given up")
        await until(lambda: not here.door.connections, "the connection is gone")


async def test_pings_are_answered_and_closing_is_closed(tmp_path: Path) -> None:
    async with rpc_frames(tmp_path) as (here, frames):
        frames.write(b"are you there?", websocket.PING)
        assert await frames.event() == websocket.WebSocketPong(b"are you there?")
        frames.writer.write(websocket.close_frame(3000, "enough", b"abcd"))
        assert await frames.event() == websocket.WebSocketClosed(3000, "")
        assert await frames.event() is None
        frames = await here.frames()
        frames.writer.write(websocket.close_frame(websocket.NO_CODE, "", b"abcd"))
        assert await frames.event() == websocket.WebSocketClosed(websocket.NO_CODE, "")


GOOD = json.dumps(request("echo", {"text": "ok"})).encode()


def parts_of(payload: bytes, *sizes: int) -> bytes:
    """A text in frames of those sizes, and the rest."""
    key, data, opcode = b"abcd", b"", websocket.TEXT
    for size in sizes:
        part, payload = payload[:size], payload[size:]
        data += bytes([opcode, 0x80 | len(part)]) + key + websocket.masked_with(part, key)
        opcode = websocket.CONTINUATION
    return data + bytes([0x80 | opcode, 0x80 | len(payload)]) + key + websocket.masked_with(payload, key)


@pytest.mark.parametrize(
    "data",
    [
        parts_of(GOOD, 0, 1, 0, 7),
        parts_of(GOOD, 5)[:11] + websocket.frame(b"!", websocket.PONG, b"abcd") + parts_of(GOOD, 5)[11:],
        websocket.frame(GOOD, websocket.BINARY, b"abcd"),
        websocket.frame(b" \n" + GOOD + b"\r\n", websocket.TEXT, b"abcd"),
    ],
)
async def test_however_a_message_is_framed_it_is_read(tmp_path: Path, data: bytes) -> None:
    async with rpc_frames(tmp_path) as (_, frames):
        for byte in data:
            frames.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert (await frames.next())["result"] == "ok"


DEEP = b'{"jsonrpc":"2.0","id":1,"method":"echo","params":' + b"[" * 500_000 + b"]" * 500_000 + b"}"


@pytest.mark.parametrize(
    ("payload", "opcode", "code"),
    [
        (b"", websocket.TEXT, -32700),
        (b"{", websocket.TEXT, -32700),
        (b"\xff\xfe{\x00}\x00", websocket.BINARY, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', websocket.BINARY, -32700),
        (DEEP, websocket.TEXT, -32700),
        (b"[" * 100_000, websocket.TEXT, -32700),
        (
            b'{"jsonrpc":"2.0","id":9,"method":"echo","params":{"text":"' + b"x" * (16 << 20) + b'"}}',
            1,
            -32600,
        ),
        (b'{"jsonrpc":"2.0","id":1,"method":"' + b"m" * (2 << 20) + b'"}', websocket.TEXT, -32601),
        (b'{"jsonrpc":"2.0","id":"' + b"i" * (1 << 20) + b'","method":"echo"}', websocket.TEXT, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"' + b"p" * (2 << 20) + b'":1}}', 1, -32602),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"mode":"' + b"m" * (2 << 20) + b'"}}',
            1,
            -32602,
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"' + b"t" * (5 << 20) + b'"}}',
            1,
            -32602,
        ),
    ],
)
async def test_what_is_wrong_is_answered_and_the_connection_lives_on(
    tmp_path: Path, payload: bytes, opcode: int, code: int
) -> None:
    async with rpc_frames(tmp_path) as (_, frames):
        frames.write(payload, opcode)
        event = await frames.event()
        assert isinstance(event, websocket.WebSocketMessage)
        assert len(event.data) < 20_000
        error = json.loads(event.data)["error"]
        assert error["code"] == code, error
        if len(payload) > 16 << 20:
            assert json.loads(event.data)["id"] == 9
            assert error["data"] == {"limit": 16 << 20}
        assert (await frames.ask("echo", {"text": "still"}))["result"] == "still"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (websocket.frame(b'"\xff"', websocket.TEXT, b"abcd"), 1007),
        (websocket.frame(b"{}"), 1002),
        (b"\xc1\x80abcd", 1002),
        (b"\x80\x80abcd", 1002),
    ],
)
async def test_what_breaks_the_protocol_ends_the_connection_with_its_code(
    tmp_path: Path, data: bytes, code: int
) -> None:
    async with rpc_hub(tmp_path) as here:
        frames, other = await here.frames(), await here.frames()
        frames.writer.write(data + websocket.frame(GOOD, key=b"abcd"))
        closed = await frames.event()
        assert isinstance(closed, websocket.WebSocketClosed)
        assert (closed.code, bool(closed.reason)) == (code, True)
        assert "result" in await other.ask("echo")
        assert await frames.event() is None


async def test_a_list_that_is_too_long_leaves_out_what_posts_can_do_without(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path) as here, connect(here.url()) as client:

        async def posts(**params: Any) -> Any:
            await client.send(json.dumps(request("posts", params)))
            return json.loads(await client.recv())

        whole = await posts(times=900)
        assert "truncated" not in whole
        assert whole["result"][0]["post"]["tags"]
        shortened = await posts(times=2000, text="本文")
        assert shortened["truncated"] == ["reasoning", "summary", "tags"]
        assert len(shortened["result"]) == 2000
        assert shortened["result"][-1] == {
            "rank": 1999,
            "score": 0.5,
            "post": {"post_id": 1, "content": "本文", "user": "alice"},
        }
        error = (await posts(times=2000, text="x" * 1000))["error"]
        assert (error["code"], error["data"]) == (-32603, {"reason": "size"})
        assert str(MOST_ANSWER) in error["message"]


async def test_a_batch_never_passes_what_a_client_takes_either(tmp_path: Path) -> None:
    async with rpc_frames(tmp_path) as (_, frames):
        long = {"text": "x" * 400_000}
        frames.send([request("echo", long, 1), request("echo", long, 2), request("echo", long, 3)])
        event = await frames.event()
        assert isinstance(event, websocket.WebSocketMessage)
        assert len(event.data) <= MOST_ANSWER
        answers = json.loads(event.data)
        assert [answer["id"] for answer in answers] == [1, 2, 3]
        assert sorted("result" in answer for answer in answers) == [False, True, True]
        frames.send([request("echo", {}, "i" * 60_000) for _ in range(30)])
        refused = await frames.next()
        assert (refused["id"], refused["error"]["data"]) == (None, {"reason": "size"})


async def test_a_stream_in_a_batch_is_refused_alone(tmp_path: Path) -> None:
    async with rpc_frames(tmp_path) as (here, frames):
        frames.send([request("count", {}, 1), request("echo", {}, 2)])
        first, second = await frames.next()
        assert (first["id"], first["error"]["code"]) == (1, -32600)
        assert (second["id"], second["result"]) == (2, "")
        assert not here.works.made


async def refused(here: RpcHub, path: str = "/", **headers: str | None) -> tuple[int, Any, dict[str, str]]:
    status, found, frames = await here.connect(path, **headers)
    body = await asyncio.wait_for(frames.reader.readexactly(int(found["content-length"])), SOON)
    assert not await asyncio.wait_for(frames.reader.read(), SOON), "it is closed"
    return status, json.loads(body)["error"], found


async def test_who_may_not_become_a_websocket_is_told_why(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path) as here:
        assert (await refused(here, host="evil.example"))[0] == 421
        assert (await refused(here, origin="https://evil.example"))[0] == 403
        assert (await refused(here, origin="null"))[0] == 403
        assert (await refused(here, authorization="Bearer wrong"))[0] == 401
        assert (await refused(here, sec_websocket_protocol="tabane.rpc, tabane.token.wrong"))[0] == 401
        assert (await refused(here, "/mcp/other"))[0] == 404
        assert (await refused(here, sec_websocket_key="x"))[0] == 400
        status, _, headers = await refused(here, sec_websocket_version="8")
        assert (status, headers["sec-websocket-version"]) == (426, "13")
        with pytest.raises(InvalidStatus) as caught:
            await connect(here.url(), origin="https://evil.example").__aenter__()  # type: ignore[arg-type]
        assert caught.value.response.status_code == 403
        assert (await refused(here, origin="http://localhost:3000"))[0] == 403
        assert (await here.connect(host="localhost"))[0] == 101


async def test_only_so_many_are_connected_at_the_same_time(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path, max_sessions=2) as here:
        first, _ = await here.frames(), await here.frames()
        status, error, headers = await refused(here)
        assert (status, bool(headers["retry-after"])) == (503, True)
        assert "max_sessions" in error["message"]
        first.writer.write(websocket.close_frame(1000, "", b"abcd"))
        assert await first.event()
        await until(lambda: here.door.connections < 2, "one has left")
        await here.frames()


async def test_a_hub_that_ends_finishes_what_it_has_and_says_goodbye(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path) as here, connect(here.url()) as client:
        await client.send(json.dumps(request("wait", {}, 1)))
        await until(lambda: here.works.running > 0, "it is asked")
        here.door.drain()
        await client.send(json.dumps(request("echo", {}, 2)))
        late = json.loads(await client.recv())
        assert (late["id"], late["error"]["data"]) == (2, {"reason": "draining"})
        assert (await refused(here))[0] == 503
        idle = asyncio.ensure_future(here.door.idle())
        await asyncio.sleep(0)
        assert not idle.done()
        here.works.gate.set()
        assert json.loads(await client.recv())["result"] == "opened"
        await asyncio.wait_for(idle, SOON)
        await here.door.close()
        with pytest.raises(ConnectionClosed) as caught:
            await client.recv()
        assert caught.value.rcvd
        assert caught.value.rcvd.code == 1001


async def test_a_client_that_does_not_take_its_leave_does_not_keep_the_hub(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path) as here:
        await stalled(here, 1000)
        await until(lambda: here.works.made > 0, "the stream has begun")
        await here.door.close()
        await until(lambda: here.works.left > 0, "the stream was given up")


async def test_a_client_that_breaks_off_within_a_frame_is_gone(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path) as here:
        frames: WebSocketClient = await here.frames()
        frames.writer.write(websocket.frame(GOOD, key=b"abcd")[:9])
        frames.writer.write_eof()
        assert await frames.event() is None
        await until(lambda: not here.door.connections, "it is gone")
