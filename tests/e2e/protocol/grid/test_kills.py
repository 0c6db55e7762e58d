"""kill -9 in the middle of HTTP traffic: every request is answered, nothing is done twice, all goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from mcp import Client, MCPError

from tests.harness.official_client import KINDS, Era, GridHub, grid_hub, over_http
from tests.harness.patience import LONG, until

REMOTE = tuple(kind for kind in KINDS if kind.transport == "http")
CLIENTS = 16
ANSWER = LONG
"""Seconds in which each request has to be answered, whatever happens: only a hang takes as long."""
BACK = LONG
"""Seconds in which calls succeed again once what was killed has been started anew."""


class Visitor:
    """One client that calls without a pause; ``answers`` are how its calls ended, by token."""

    def __init__(self, here: GridHub, era: Era, number: int) -> None:
        self.here, self.era, self.number = here, era, number
        self.sent: list[str] = []
        self.answers: dict[str, bool] = {}
        self.failures: list[str] = []
        self.begun_anew = 0
        self.stop = False

    @property
    def good(self) -> int:
        return sum(self.answers.values())

    async def call_on(self) -> None:
        """Call until it is told to stop; a legacy client whose session is gone begins another."""
        while not self.stop:
            try:
                async with AsyncExitStack() as stack:
                    client = await stack.enter_async_context(
                        over_http(self.here.url, self.era, self.here.token, read_timeout_seconds=ANSWER)
                    )
                    while not self.stop and await self._call(client):
                        pass
            except* (MCPError, httpx2.TransportError, httpx2.HTTPStatusError):
                await asyncio.sleep(0.05)  # the hub is away: do not spin
            self.begun_anew += 1

    async def _call(self, client: Client) -> bool:
        """One call; whether the client can go on."""
        token = f"{self.number}-{len(self.sent)}-{uuid4().hex[:8]}"
        kind = REMOTE[len(self.sent) % len(REMOTE)]
        tool = ("marks", "naps", "peeks")[len(self.sent) % 3]
        name, arguments = f"{kind.name}__{tool}", {"token": token, "seconds": 0.1}
        if len(self.sent) % 5 == 0:
            name, arguments = "call_tool", {"name": name, "arguments": arguments}
        self.sent.append(token)
        try:
            async with asyncio.timeout(ANSWER + 5):
                result = await client.call_tool(name, arguments)
        except MCPError as error:
            self._answered(token, False, str(error))
            return "Mcp-Session-Id" not in str(error)
        except BaseException as error:
            # The connection is gone, and the SDK ends all that its client was doing.
            self._answered(token, False, f"connection: {error!r}")
            raise
        self._answered(token, not result.is_error, repr(result))
        return True

    def _answered(self, token: str, good: bool, said: str) -> None:
        assert token not in self.answers
        self.answers[token] = good
        if not good:
            self.failures.append(said)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[GridHub]:
    with grid_hub(tmp_path, REMOTE) as built:
        yield built


class Crowd:
    """All visitors, half of them of either era."""

    def __init__(self, here: GridHub) -> None:
        self.here = here
        self.visitors = [
            Visitor(here, "legacy" if number % 2 else "modern", number) for number in range(CLIENTS)
        ]

    async def __aenter__(self) -> Crowd:
        self._tasks = [asyncio.create_task(visitor.call_on()) for visitor in self.visitors]
        return self

    async def __aexit__(self, *raised: object) -> None:
        for visitor in self.visitors:
            visitor.stop = True
        await asyncio.wait_for(asyncio.gather(*self._tasks), ANSWER + 10)

    async def succeeds(self, what: str) -> None:
        """Wait until every visitor has had ten more good answers."""
        before = [visitor.good for visitor in self.visitors]
        await until(
            lambda: all(v.good >= b + 10 for v, b in zip(self.visitors, before, strict=True)), what, BACK
        )

    async def fails(self, *words: str) -> None:
        """Wait until calls have failed, and each of the words was said of them."""

        def failed() -> bool:
            said = [failure for visitor in self.visitors for failure in visitor.failures]
            return len(said) >= 4 and all(any(word in failure for failure in said) for word in words)

        await until(failed, "calls fail")

    def nothing_was_lost_or_doubled(self) -> None:
        answers: dict[str, bool] = {}
        for visitor in self.visitors:
            assert set(visitor.sent) == set(visitor.answers)
            answers.update(visitor.answers)
        marks = Counter(mark for kind in REMOTE for mark in self.here.marks(kind))
        assert {mark: count for mark, count in marks.items() if count > 1} == {}
        assert set(marks) <= set(answers)
        # Every third call leaves no mark; of the others, what is said to be done was done.
        done = {token for token, good in answers.items() if good and int(token.split("-")[1]) % 3 < 2}
        assert done <= set(marks)


async def test_servers_that_are_killed_under_load_lose_and_double_nothing(here: GridHub) -> None:
    crowd = Crowd(here)
    async with crowd:
        await crowd.succeeds("calls succeed")
        for upstream in here.upstreams.values():
            await asyncio.to_thread(upstream.kill)
        await crowd.fails(*here.upstreams)
        for upstream in here.upstreams.values():
            upstream.begin()
        for upstream in here.upstreams.values():
            await asyncio.to_thread(upstream.ready)
        await crowd.succeeds("calls reach the new servers")
    crowd.nothing_was_lost_or_doubled()
    assert sum(visitor.begun_anew for visitor in crowd.visitors) == CLIENTS, "nobody lost the hub"


async def test_a_hub_that_is_killed_under_load_loses_and_doubles_nothing(here: GridHub) -> None:
    crowd = Crowd(here)
    before = here.pid
    async with crowd:
        await crowd.succeeds("calls succeed")
        os.kill(before, signal.SIGKILL)
        await crowd.fails()
        await asyncio.to_thread(here.start_again)
        await crowd.succeeds("calls reach the new hub")
    crowd.nothing_was_lost_or_doubled()
    assert here.pid != before
    for visitor in crowd.visitors:
        assert visitor.begun_anew >= (2 if visitor.era == "legacy" else 1), visitor.failures


async def test_a_session_of_a_killed_hub_is_404_and_the_client_begins_another(here: GridHub) -> None:
    url, token, before = here.url, here.token, here.pid
    headers = {
        "authorization": f"Bearer {token}",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
    }
    hello: dict[str, Any] = {
        "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}}}  # fmt: skip
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        answer = await http.post(url, json=hello)
        session = {"mcp-session-id": answer.headers["mcp-session-id"]}
        assert (await http.post(url, json=listing, headers=session)).status_code == 200
        os.kill(before, signal.SIGKILL)
        await asyncio.to_thread(here.start_again)
        assert (await http.post(url, json=listing, headers=session)).status_code == 404
        assert (await http.get(url, headers=session)).status_code == 404
        assert (await http.delete(url, headers=session)).status_code == 404
    async with over_http(url, "legacy", token) as client:
        assert not (await client.call_tool("http_legacy__peeks", {})).is_error
