"""A plain load balancer: each request goes to the next hub whose page /readyz answers 200. Nothing sticks."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web

LOOK = 0.3
"""Seconds between two health checks."""

_OF_CONNECTION = frozenset(("connection", "keep-alive", "transfer-encoding", "content-length"))


class RoundRobin:
    """Passes requests on as they are, the Host included, and streams responses. It repeats no request."""

    def __init__(self, hubs: Sequence[str]) -> None:
        self.hubs = list(hubs)
        self.healthy: set[str] = set()
        self.url = ""
        self.counts = dict.fromkeys(hubs, 0)
        """Requests passed on, by hub."""
        self._turns = itertools.count()

    async def look(self) -> None:
        """Ask every hub once whether it takes requests."""
        self.healthy = {hub for hub in self.hubs if await self._ready(hub)}

    async def _ready(self, hub: str) -> bool:
        try:
            async with self._session.get(f"{hub}/readyz") as response:
                return response.status == 200
        except (ClientError, TimeoutError):
            return False

    def _next(self) -> str:
        able = [hub for hub in self.hubs if hub in self.healthy]
        if not able:
            raise web.HTTPServiceUnavailable(text="no hub is ready")
        return able[next(self._turns) % len(able)]

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        hub, body = self._next(), await request.read()
        self.counts[hub] = self.counts.get(hub, 0) + 1
        headers = [pair for pair in request.headers.items() if pair[0].lower() not in _OF_CONNECTION]
        try:
            async with self._session.request(
                request.method, f"{hub}{request.path_qs}", data=body or None, headers=headers
            ) as found:
                response = web.StreamResponse(status=found.status)
                for name, value in found.headers.items():
                    if name.lower() not in _OF_CONNECTION:
                        response.headers.add(name, value)
                if found.content_length is not None:
                    response.content_length = found.content_length
                await response.prepare(request)
                async for chunk in found.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except ClientError as error:
            raise web.HTTPBadGateway(text=str(error)) from None

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            await self.look()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[RoundRobin]:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_route("*", "/{path:.*}", self._pass)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        timeout = ClientTimeout(total=None, sock_connect=5)
        connector = TCPConnector(limit=0, keepalive_timeout=5)
        async with ClientSession(
            connector=connector, timeout=timeout, cookie_jar=DummyCookieJar(), auto_decompress=False
        ) as self._session:
            await self.look()
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            self.url = f"http://{host}:{port}"
            watching = asyncio.ensure_future(self._watch())
            try:
                yield self
            finally:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching
                await runner.cleanup()
