"""Two hubs of one group restart one after the other, while clients of both eras work. No request is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from tests.e2e.protocol.conformance.servers import hub_over
from tests.harness.http_hub import BOTH, LEGACY, call, modern, request
from tests.harness.patience import until
from tests.harness.ports import reserved_port
from tests.harness.postgres_server import PostgresServer
from tests.harness.round_robin import RoundRobin
from tests.harness.running_hub import Json, child

WORKERS = 4  # of each era


class Restartable:
    """One hub process at a fixed port, which can be ended in order and started again."""

    def __init__(self, folder: Path, engine: str) -> None:
        self._folder, self._engine = folder, engine
        folder.mkdir()
        self._port = reserved_port(self)
        self.address = f"http://127.0.0.1:{self._port}"
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        variables = {"TABANE_ENGINE": self._engine, "TABANE_ADVERTISE": self.address, "TABANE_MODEL": "none"}
        variables["TABANE_DRAIN_NOTICE"] = "3"  # the balancer looks more often, also on a busy machine
        running = hub_over(self._folder, child(), b"echo", self._port, **variables)
        await self._stack.enter_async_context(running)

    async def stop(self) -> None:
        await self._stack.aclose()


class Load:
    """Clients that send one request after the other. ``answered`` are counts, ``lost`` what went wrong."""

    def __init__(self, url: str, client: ClientSession) -> None:
        self._url, self._client = url, client
        self.answered, self.number = 0, 0
        self.lost: list[str] = []

    async def modern(self) -> None:
        message, headers = modern(self._call())
        await self._echoed(message, headers)

    async def session(self) -> Callable[[], Awaitable[None]]:
        """Begin a session, and return what sends a request in it."""
        params = {
            "protocolVersion": LEGACY,
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        status, named, _ = await self._post(request("initialize", params), {})
        assert status == 200
        headers = {"mcp-session-id": named, "mcp-protocol-version": LEGACY}

        async def one() -> None:
            await self._echoed(self._call(), headers)

        return one

    async def repeat(self, one: Callable[[], Awaitable[None]], over: asyncio.Event) -> None:
        while not over.is_set():
            await one()

    async def goes_on(self) -> None:
        before = self.answered
        await until(lambda: self.answered > before + 50, "requests are answered")

    def _call(self) -> Json:
        self.number += 1
        return call("echo", self.number, n=self.number)

    async def _echoed(self, message: Json, headers: dict[str, str]) -> None:
        number = message["id"]
        try:
            status, _, body = await self._post(message, headers)
            if status == 200 and f'\\"n\\": {number}}}' in body:
                self.answered += 1
                return
            self.lost.append(f"{status}: {body[:300]}")
        except Exception as error:
            self.lost.append(repr(error))

    async def _post(self, message: Json, headers: dict[str, Any]) -> tuple[int, str, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        given = {"accept": BOTH, "content-type": "application/json", **named}
        async with self._client.post(self._url, data=json.dumps(message), headers=given) as response:
            return response.status, response.headers.get("mcp-session-id", ""), await response.text()


@asynccontextmanager
async def working(url: str) -> AsyncIterator[Load]:
    """Let clients of both eras work, and stop them at the end."""
    over = asyncio.Event()
    async with ClientSession() as client:
        load = Load(url, client)
        sessions = [await load.session() for _ in range(WORKERS)]
        work = [load.repeat(one, over) for one in [*sessions, *[load.modern] * WORKERS]]
        tasks = [asyncio.ensure_future(each) for each in work]
        try:
            yield load
        finally:
            over.set()
            await asyncio.gather(*tasks)


@pytest.mark.heavy("kills real processes, many times")
async def test_a_rolling_restart_under_load_loses_no_request(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    hubs = [Restartable(tmp_path / str(number), postgres.url("rolling")) for number in range(2)]
    async with AsyncExitStack() as stack:
        for hub in hubs:
            stack.push_async_callback(hub.stop)
        await asyncio.gather(*(hub.start() for hub in hubs))
        balancer = await stack.enter_async_context(RoundRobin([hub.address for hub in hubs]).serving())
        await until(lambda: len(balancer.healthy) == 2, "both hubs take requests")
        async with working(f"{balancer.url}/mcp/full") as load:
            for hub in hubs:
                await load.goes_on()
                await hub.stop()
                await hub.start()
                await until(lambda: len(balancer.healthy) == 2, "the hub is back")
            await load.goes_on()
        assert load.lost == []
        assert min(balancer.counts.values()) > 50
