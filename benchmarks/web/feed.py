"""Cost of open pages for a hub: python -m benchmarks.web.feed

A hub runs in a process of its own. Pages follow its events over HTTP, as browsers do, while one assistant
calls a tool 100 times a second. The table shows the share of a core that the hub uses, without and with
pages, and how many of the calls each page was told of.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psutil
from benchmarks.gateway.client import Client
from benchmarks.hub import HubProcess
from benchmarks.report import Goal, machine, table

PAGES, RATE, SECONDS = (0, 1, 50), 100, 20
HEADS = ("open pages", "share of a core", "calls that the least informed page saw")
CHILD = str(Path(__file__).parents[2] / "tests" / "harness" / "servers" / "child.py")


class FollowedCalls(NamedTuple):
    """The cost of open pages: the share of a core, and the calls that the least informed page saw."""

    pages: int
    share: float
    told: int
    calls: int

    @property
    def texts(self) -> tuple[str, str, str]:
        told = f"{self.told:,} of {self.calls:,}" if self.pages else ""
        return f"{self.pages}", f"{100 * self.share:.1f}%", told


class PageSession:
    """The cookie and the secret of a browser that is signed in."""

    def __init__(self, hub: HubProcess) -> None:
        url = urlsplit(hub.url)
        self.host, self.port = str(url.hostname), int(url.port or 80)
        link = hub.tabane("open", "--print").strip()
        connection = http.client.HTTPConnection(self.host, self.port)
        body = json.dumps({"code": link.partition("#")[2]})
        connection.request(
            "POST", "/sign-in", body, {"Content-Type": "application/json", "Origin": f"http://{url.netloc}"}
        )
        answer = connection.getresponse()
        said = json.loads(answer.read())
        assert answer.status == 200, said
        self.page = said["page"]
        self.cookie = str(answer.headers["set-cookie"]).partition(";")[0]
        connection.close()

    def request(self, path: str) -> bytes:
        lines = (
            f"GET {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            f"Cookie: {self.cookie}",
            f"Tabane-Page: {self.page}",
            "Accept: text/event-stream",
        )
        return "\r\n".join((*lines, "", "")).encode()


class OpenPage:
    """A page that follows the events, and counts the calls that it is told of."""

    def __init__(self, session: PageSession) -> None:
        self._session = session
        self.calls: set[int] = set()
        self.ready = asyncio.Event()

    async def follow(self) -> None:
        reader, writer = await asyncio.open_connection(self._session.host, self._session.port)
        writer.write(self._session.request("/events"))
        rest = b""
        while chunk := await reader.read(1 << 16):
            self.ready.set()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.startswith(b'data: {"number":'):
                    row: dict[str, Any] = json.loads(line[6:])
                    if row["outcome"] == "ok":
                        self.calls.add(row["number"])


async def call_steadily(client: Client, count: int) -> None:
    """Call a tool so many times, :data:`RATE` times a second, and wait for the answers."""
    began = time.monotonic()
    async with asyncio.TaskGroup() as calls:
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
            calls.create_task(client.call({"name": "c__echo", "arguments": {"text": f"call {number}"}}))


async def share(hub: HubProcess, pages: int) -> FollowedCalls:
    """Measure so many pages."""
    session = await asyncio.to_thread(PageSession, hub) if pages else None
    client = await Client.start([sys.executable, "-m", "tabane", "mcp"], hub.environment)
    await client.initialize()
    await client.request("tools/call", {"name": "c__echo", "arguments": {}})
    await asyncio.sleep(0.5)  # until the event of this call has gone out
    followers = [OpenPage(session) for _ in range(pages)] if session else []
    tasks = [asyncio.ensure_future(one.follow()) for one in followers]
    for one in followers:
        await one.ready.wait()
    process = psutil.Process(hub.pid)
    count = RATE * SECONDS
    before, began = sum(process.cpu_times()[:2]), time.monotonic()
    await call_steadily(client, count)
    used = (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began)
    await asyncio.sleep(2)  # more than a delivery takes
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)
    await client.close()
    told = min((len(one.calls) for one in followers), default=0)
    return FollowedCalls(pages, used, told, count)


def rows() -> list[FollowedCalls]:
    """Start a hub, and measure each number of pages."""
    with tempfile.TemporaryDirectory() as folder:
        hub = HubProcess(Path(folder) / "hub", TABANE_HTTP="true")
        hub.configure({"c": {"command": sys.executable, "args": [CHILD], "env": {"PYTHONPATH": os.getcwd()}}})
        hub.start()
        try:
            return [asyncio.run(share(hub, pages)) for pages in PAGES]
        finally:
            hub.tabane("stop")


def reached(found: list[FollowedCalls]) -> list[Goal]:
    """Return the goals: what pages cost, and that they miss nothing."""
    without, *_, most = found
    added = 100 * (most.share - without.share)
    seen = 100 * most.told / most.calls
    return [
        Goal(f"{most.pages} open pages, share of a core", added, 5, "%", 1, limit_digits=0),
        Goal("events that reach every page", seen, 100, "%", least=True),
    ]


def main() -> None:
    print(machine("python -m benchmarks.web.feed"))
    print(table(HEADS, (row.texts for row in rows())))


if __name__ == "__main__":
    main()
