"""The hub's own client over a WebSocket: the same calls as on the hub's socket."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tabane.errors import BadArguments, HubError
from tabane.hub.local.client import HubCallDeclined, HubCallFailed
from tabane.hub.rpc.client import connect_to
from tests.harness.patience import LONG, run
from tests.harness.rpc_hub import RpcHub, rpc_hub


def play(folder: Path, scene: Callable[[RpcHub], Any], **settings: Any) -> None:
    """A hub, and a scene in a thread of its own, since the client blocks."""

    async def scenario() -> None:
        async with rpc_hub(folder, **settings) as here:
            await asyncio.to_thread(scene, here)

    run(scenario)


def test_calls_and_streams_are_answered(tmp_path: Path) -> None:
    def scene(here: RpcHub) -> None:
        with connect_to(here.url(), here.door.token) as client:
            assert client.call("secret", {"text": "束ね" * 100_000}) == "束ね" * 100_000
            parts = list(client.stream("count", {"parts": 5, "size": 300_000}))
            assert [part["number"] for part in parts] == [1, 2, 3, 4, 5]
            with pytest.raises(HubCallDeclined, match="not found"):
                client.call("nothing")
            with pytest.raises(HubCallFailed, match="internal"):
                client.call("fail")
            assert client.call("echo") == ""
        with connect_to(here.url("/rpc", "http")) as client, pytest.raises(HubCallFailed, match="token"):
            client.call("secret")

    play(tmp_path, scene)


def test_it_answers_pings_while_it_waits(tmp_path: Path) -> None:
    def scene(here: RpcHub) -> None:
        with connect_to(here.url()) as client:
            timer = threading.Timer(2, lambda: here.hub.loop.call_soon_threadsafe(here.works.gate.set))
            timer.start()
            assert client.call("wait") == "opened"
            timer.join()

    play(tmp_path, scene, ping_interval=0.4)


def test_what_a_hub_refuses_is_said(tmp_path: Path) -> None:
    def scene(here: RpcHub) -> None:
        with pytest.raises(HubError, match="token of the hub is needed"):
            connect_to(here.url(), "wrong")
        with pytest.raises(HubError, match="nothing at this path"):
            connect_to(here.url("/other"))

    play(tmp_path, scene)


def test_where_no_hub_is_that_is_said() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(HubError, match="tabane start"):
            connect_to(f"ws://127.0.0.1:{nobody.getsockname()[1]}/", limit=1)
        nobody.listen()
        with pytest.raises(HubError, match="There is no hub at"):
            connect_to(f"ws://127.0.0.1:{nobody.getsockname()[1]}/", limit=0.2)
    for url in ("", "x", "wss://", "ftp://x", "ws://x:port", "ws://"):
        with pytest.raises(BadArguments):
            connect_to(url)


def test_a_hub_that_ends_is_told(tmp_path: Path) -> None:
    def scene(here: RpcHub) -> None:
        with connect_to(here.url()) as client:
            assert client.call("echo") == ""
            asyncio.run_coroutine_threadsafe(here.door.close(), here.hub.loop).result(LONG)
            with pytest.raises(HubError, match="the hub ended"):
                client.call("echo")

    play(tmp_path, scene)
