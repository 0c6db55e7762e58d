"""A hub process with official servers of each kind behind it, and the official client in each era."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from tests.harness.home import Home, hub
from tests.harness.patience import LONG

ROOT = Path(__file__).parent.parent.parent
SOON = LONG
"""Seconds after which something that should have happened has not."""

Era = Literal["legacy", "modern", "auto"]
Json = dict[str, Any]
MODES = {"legacy": "legacy", "modern": "2026-07-28", "auto": "auto"}


@dataclass(frozen=True)
class Kind:
    """A kind of server: the era it speaks, and how."""

    era: Era
    transport: Literal["stdio", "http", "sse"]

    @property
    def name(self) -> str:
        return f"{self.transport}_{self.era}"

    def command(self, file: Path, port: int = 0) -> list[str]:
        era = "legacy" if self.era == "legacy" else "both"
        return [
            *(sys.executable, "-m", "tests.harness.servers.both_eras"),
            *(self.name, self.transport, era, str(file), str(port)),
        ]


KINDS = (
    Kind("legacy", "stdio"),
    Kind("modern", "stdio"),
    Kind("legacy", "http"),
    Kind("modern", "http"),
    Kind("legacy", "sse"),
)


class Upstream:
    """A server over HTTP, to be killed and started again at the same port."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.kind, self.file = kind, folder / f"{kind.name}.marks"
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{'sse' if self.kind.transport == 'sse' else 'mcp'}"

    def begin(self) -> None:
        self.process = subprocess.Popen(
            self.kind.command(self.file, self.port), stdout=subprocess.PIPE, cwd=ROOT, env=environment()
        )

    def ready(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


@dataclass(frozen=True)
class GridHub:
    """The hub and its servers, while they run. ``url`` and ``token`` are for clients over HTTP."""

    home: Home
    folder: Path
    upstreams: dict[str, Upstream]
    url: str
    token: str

    def marks(self, kind: Kind) -> list[str]:
        """What calls left behind on the server of that kind, in order."""
        file = self.folder / f"{kind.name}.marks"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def status(self) -> Json:
        status: Json = self.home.run("status", "--json").json
        return status

    @property
    def pid(self) -> int:
        return int(self.status["pid"])

    def start_again(self) -> None:
        """Start a hub at the port of the one that is no more."""
        port = self.url.split(":")[2].partition("/")[0]
        started = self.home.run("start", "--http", f"--port={port}")
        assert started.status == 0, started.err


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@contextmanager
def servers(kinds: tuple[Kind, ...], folder: Path) -> Iterator[dict[str, Upstream]]:
    """Those of the kinds that are served over HTTP."""
    started = {kind.name: Upstream(kind, folder) for kind in kinds if kind.transport != "stdio"}
    try:
        for upstream in started.values():
            upstream.begin()
        for upstream in started.values():
            upstream.ready()
        yield started
    finally:
        for upstream in started.values():
            if upstream.process is not None:
                upstream.kill()


def definition(kind: Kind, upstream: Upstream | None, folder: Path, share: str, **keys: Any) -> Json:
    """The server of that kind in the servers file."""
    if upstream is not None:
        return {"type": kind.transport, "url": upstream.url, "share": share, **keys}
    command, *arguments = kind.command(folder / f"{kind.name}.marks")
    variables = {"PYTHONPATH": str(ROOT)}
    process = {"command": command, "args": arguments, "cwd": str(ROOT), "env": variables}
    return {**process, "share": share, **keys}


@contextmanager
def grid_hub(
    folder: Path, kinds: tuple[Kind, ...] = KINDS, share: str = "hub", **keys: Any
) -> Iterator[GridHub]:
    """A hub over servers of those kinds, with those keys, each of which has listed what it has."""
    os.chmod(folder, 0o700)
    with servers(kinds, folder) as started:
        home = Home(folder)
        home.write_servers(
            {kind.name: definition(kind, started.get(kind.name), folder, share, **keys) for kind in kinds}
        )
        with hub(home, "--http", "--port=0", "--start-servers=at_start"):
            url = home.run("status", "--json").json["http"]
            until_listed(home, kinds)
            yield GridHub(home, folder, started, url, (home.tabane / "token").read_text().strip())


def until_listed(home: Home, kinds: tuple[Kind, ...]) -> None:
    deadline = time.monotonic() + 2 * SOON
    while True:
        listed = home.run("tools", "list", "--json").out
        if all(f"{kind.name}__region" in listed for kind in kinds):
            return
        assert time.monotonic() < deadline, home.run("servers", "list").out
        time.sleep(0.1)


@asynccontextmanager
async def over_http(url: str, era: Era, token: str | None = None, **options: Any) -> AsyncIterator[Client]:
    """A client over streamable HTTP."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    timeout = httpx2.Timeout(LONG, read=300)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout) as http,
        Client(streamable_http_client(url, http_client=http), mode=MODES[era], **options) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(here: GridHub, era: Era, mode: str = "full", **options: Any) -> AsyncIterator[Client]:
    """A client of a bridge."""
    bridge = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tabane", "mcp", f"--mode={mode}"],
        env=here.home.environment,
        cwd=here.folder,
    )
    async with Client(bridge, mode=MODES[era], **options) as client:
        yield client


def text(result: CallToolResult) -> str:
    """Return the texts of a result, one below the other."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
