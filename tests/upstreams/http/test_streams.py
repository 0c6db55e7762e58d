"""Streams with much data and no message: the event loop keeps running while they are read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tabane.net.http_connections import HttpResponse
from tabane.net.http_responses import StreamPosition, read_events
from tests.harness.patience import until
from tests.harness.running_hub import Json, running_hub, text
from tests.harness.servers.raw_http import Raw, Request, Wire, modern, raw

pytestmark = pytest.mark.heavy("real servers as processes")

MANY = 40


class Flood:
    """A body of which the next chunk is always there already, so that reading it never waits."""

    def __init__(self, chunk: bytes, chunks: int) -> None:
        self._chunk, self._left = chunk, chunks

    async def readany(self) -> bytes:
        self._left -= 1
        return self._chunk if self._left >= 0 else b""

    def at_eof(self) -> bool:
        return self._left < 0


@pytest.mark.parametrize("chunk", [b":\n\n" * 20_000, b"data\n\n" * 10_000, b"retry: 1\nid: 1\n\n" * 4_000])
def test_the_loop_turns_while_a_stream_is_read_that_never_makes_it_wait(chunk: bytes) -> None:
    turns = 0

    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        def turn() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(turn)

        loop.call_soon(turn)
        response = cast("HttpResponse", SimpleNamespace(content=Flood(chunk, MANY)))
        await read_events(response, 1 << 20, lambda event: False, StreamPosition(), lambda head: None)

    asyncio.run(scenario())
    # Each chunk takes several slices of time, however fast the machine is.
    assert turns > MANY


def test_streams_of_one_server_share_a_slice_of_time() -> None:
    """Many calls of one server at once get no more of each turn of the loop than one call does."""
    streams, turn = 16, 0
    seen: dict[int, set[int]] = {}

    async def scenario() -> None:
        loop, shared = asyncio.get_running_loop(), asyncio.Lock()

        def count() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(count)

        async def read(number: int) -> None:
            def take(event: object) -> bool:
                seen.setdefault(turn, set()).add(number)
                return False

            response = cast("HttpResponse", SimpleNamespace(content=Flood(b"data: 1\n\n" * 5_000, 4)))
            await read_events(response, 1 << 20, take, StreamPosition(), lambda head: None, shared)

        loop.call_soon(count)
        await asyncio.gather(*map(read, range(streams)))

    asyncio.run(scenario())
    assert set().union(*seen.values()) == set(range(streams))
    assert max(map(len, seen.values())) == 1


async def test_nothing_is_read_before_what_was_read_is_taken() -> None:
    gate: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    taken: list[bytes] = []

    def take(event: object) -> asyncio.Future[bool] | bool:
        taken.append(b"")
        return gate if len(taken) == 1 else False

    response = cast("HttpResponse", SimpleNamespace(content=Flood(b"data: 1\n\n", 3)))
    reading = asyncio.ensure_future(read_events(response, 1 << 20, take, StreamPosition(), lambda head: None))
    for _ in range(10):
        await asyncio.sleep(0)
    assert (len(taken), reading.done()) == (1, False)
    gate.set_result(False)
    await asyncio.wait_for(reading, 60)
    assert len(taken) == 3


@pytest.mark.parametrize("streamed", [True, False])
async def test_an_answer_that_waits_for_its_client_is_asked_for_once(tmp_path: Path, streamed: bool) -> None:
    asked: list[int] = []

    async def large(server: Raw, request: Request, wire: Wire) -> None:
        asked.append(1)
        message = json.dumps(request.text("x" * (3 << 20))).encode()
        if streamed:
            wire.send(200, b"data: " + message + b"\n\n", content_type="text/event-stream")
        else:
            wire.send(200, message, content_type="application/json")

    gate = asyncio.Event()

    async def handle(server: Raw, request: Request, wire: Wire) -> None:
        arguments = request.message.get("params", {}).get("arguments", {})
        if arguments.get("waits"):
            await gate.wait()
        await (large if arguments.get("large") else modern)(server, request, wire)

    servers: Json = {}
    async with raw(handle) as server:
        servers["web"] = {"type": "http", "url": server.url}
        async with running_hub(tmp_path, servers, outbox=4 << 20) as here:
            slow, other = await here.connect(), await here.connect()
            await other.call("web__echo")
            slow.pause()
            held = other.begin("tools/call", {"name": "web__echo", "arguments": {"waits": True}})
            wanted = {"name": "web__echo", "arguments": {"large": True}}
            waiting = [slow.begin("tools/call", wanted) for _ in range(3)]
            (instance,) = here.hub.gateway.instances("web")
            assert instance.connection is not None
            requests = instance.connection.conversation.transport._requests  # type: ignore[attr-defined]
            await until(lambda: len(asked) == 3 and len(requests) == 1, "none but the other's goes on")
            gate.set()
            await asyncio.wait_for(held, 60)
            slow.resume()
            answers = await asyncio.wait_for(asyncio.gather(*waiting), 60)
            assert [len(text(answer["result"])) for answer in answers] == [3 << 20] * 3
            assert len(asked) == 3
