"""What the suite is pointed at: the conforming server itself, or a hub in front of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.request import Request, urlopen

from tests.e2e.protocol.conformance.suite import ROOT, Revision, SuiteError
from tests.harness.patience import until
from tests.harness.ports import reserved_port
from tests.harness.round_robin import RoundRobin

Era = Literal["both", "legacy"]
Way = Literal["alone", "stdio", "http", "group"]

READY = 120.0
"""Seconds for a server or a hub to be reachable; the official SDK alone takes one to import."""
END = 15.0
"""Seconds for a process to end once it was asked to."""


@dataclass(frozen=True, slots=True)
class Target:
    """A revision of the suite, and what it runs against.

    ``way``: the conforming server alone, or a hub that reaches it over stdio or HTTP, or a group of two hubs
    behind a balancer that sends each request to the next of them; ``era``: what that server speaks.
    """

    revision: Revision
    way: Way
    era: Era = "both"

    @property
    def label(self) -> str:
        places = {"alone": "alone", "group": "two hubs"}
        place = places.get(self.way, f"hub, {self.way}")
        return place if self.era == "both" else f"{place}, legacy"

    @property
    def folder(self) -> str:
        """The name of the folder of its files."""
        return f"{self.revision[:4]}-{self.way}-{self.era}"


TARGETS = (
    Target("2026-07-28", "alone"),
    Target("2026-07-28", "stdio"),
    Target("2026-07-28", "http"),
    Target("2026-07-28", "group"),
    Target("2026-07-28", "stdio", "legacy"),
    Target("2026-07-28", "http", "legacy"),
    Target("2025-11-25", "alone"),
    Target("2025-11-25", "stdio"),
    Target("2025-11-25", "http"),
    Target("2025-11-25", "group"),
    Target("2025-11-25", "alone", "legacy"),
    Target("2025-11-25", "stdio", "legacy"),
    Target("2025-11-25", "http", "legacy"),
)


@asynccontextmanager
async def serving(target: Target, folder: Path) -> AsyncIterator[str]:
    """The URL of what the target names, which is up while the context is; its files are in the folder."""
    os.makedirs(folder)
    if target.way == "group":
        async with _group_over(folder, target.era) as url:
            yield url
        return
    if target.way == "stdio":
        command, *arguments = upstream(target.era)
        configured = {"command": command, "args": arguments, "cwd": str(ROOT)}
        async with hub_over(folder, configured) as url:
            if (target.revision, target.era) == ("2026-07-28", "legacy"):
                await _started(url)
            yield url
        return
    async with _upstream_over_http(target.era, folder) as url:
        if target.way == "alone":
            yield url
            return
        async with hub_over(folder, {"type": "http", "url": url}) as hub:
            yield hub


def upstream(era: Era, *options: str) -> list[str]:
    """The command of the conforming server."""
    return [sys.executable, "-m", "tests.harness.servers.conformance.server", "--era", era, *options]


@asynccontextmanager
async def _group_over(folder: Path, era: Era) -> AsyncIterator[str]:
    """The URL of two hubs behind a plain balancer. Each runs the server itself."""
    from tests.harness.postgres_server import postgres_server  # only this way needs a database

    command, *arguments = upstream(era)
    configured = {"command": command, "args": arguments, "cwd": str(ROOT)}
    async with AsyncExitStack() as stack:
        server = stack.enter_context(postgres_server())
        urls = []
        for number in range(2):
            place, port = folder / f"hub-{number}", reserved_port(stack)
            place.mkdir()
            address = f"http://127.0.0.1:{port}"
            variables = {
                "TABANE_ENGINE": server.url(),
                "TABANE_ADVERTISE": address,
                "TABANE_HOSTS": "127.0.0.1:*,localhost:*",
            }
            await stack.enter_async_context(
                hub_over(place, configured, b"test_simple_text", port, **variables)
            )
            urls.append(address)
        balancer = await stack.enter_async_context(RoundRobin(urls).serving())
        await until(lambda: len(balancer.healthy) == len(urls), "both hubs take requests", READY)
        yield f"{balancer.url}/mcp/full"


@asynccontextmanager
async def _upstream_over_http(era: Era, folder: Path) -> AsyncIterator[str]:
    with (folder / "upstream.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *upstream(era, "--http"),
            cwd=ROOT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
        try:
            assert process.stdout
            line = await asyncio.wait_for(process.stdout.readline(), READY)
            if not line:
                raise SuiteError(f"the conforming server did not start: {_tail(folder / 'upstream.log')}")
            yield line.decode().strip()
        finally:
            await _end(process)


@asynccontextmanager
async def hub_over(
    folder: Path,
    configured: Mapping[str, Any],
    tool: bytes = b"test_simple_text",
    port: int = 0,
    **variables: str,
) -> AsyncIterator[str]:
    """A hub that shows that server whole and under its own names, on a free port, asking no token.

    ``tool`` is one of the server, ``variables`` are further ones of the hub's environment.
    """
    environment = _environment(folder, configured) | variables
    options = ("--foreground", "--http", f"--port={port}", "--no-http-token", "--mode=full")
    with (folder / "hub.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *_tabane("start", *options),
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            url = await _address(process, environment, folder)
            await _listed(environment, tool)
            yield url
        finally:
            await _end(process)


async def _started(url: str) -> None:
    """Wait for the instances that a hub starts once the server has asked: scenarios allow half a second.

    There is one for each set of capabilities that a client has declared.
    """
    await asyncio.to_thread(_call, url, "test_input_required_result_elicitation", {"elicitation": {}})
    declared: tuple[dict[str, Any], ...] = ({}, {"elicitation": {}})
    for capabilities in declared:
        await asyncio.to_thread(_call, url, "test_simple_text", capabilities)


def _call(url: str, tool: str, capabilities: Mapping[str, Any]) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    params = {"name": tool, "arguments": {}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": tool,
    }
    request = Request(url, json.dumps(message).encode(), headers)
    with urlopen(request, timeout=READY) as response:
        if b'"result"' not in response.read():
            raise SuiteError(f"{tool} failed before the suite began")


def _environment(folder: Path, configured: Mapping[str, Any]) -> dict[str, str]:
    servers = folder / "mcp-servers.json"
    servers.write_text(json.dumps({"mcpServers": {"fixtures": {**configured, "prefix": ""}}}))
    servers.chmod(0o600)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "XDG_CONFIG_HOME": str(folder / "config"),
        "TABANE_HOME": str(folder / "home"),
        "TABANE_SERVERS": str(servers),
    }


async def _address(process: asyncio.subprocess.Process, environment: dict[str, str], folder: Path) -> str:
    """The URL of the hub's MCP, once it answers commands. Fails when it ended, or was not ready in time."""
    async with asyncio.timeout(READY):
        while process.returncode is None:
            status, out, _ = await _output(environment, "status", "--json")
            if status == 0:
                return _mcp(json.loads(out))
            await asyncio.sleep(0.1)
    raise SuiteError(f"the hub ended: {_tail(folder / 'hub.log')}")


def _mcp(status: Mapping[str, Any]) -> str:
    """The URL where a hub with that status shows every tool whole."""
    if not status.get("http"):
        raise SuiteError(f"the hub serves no HTTP: {status.get('http_problem') or json.dumps(status)}")
    return f"{status['http']}/full"


async def _listed(environment: dict[str, str], tool: bytes) -> None:
    """Wait until the hub knows the server's tools: no client of the suite waits for a server to start."""
    deadline = time.monotonic() + READY
    while time.monotonic() < deadline:
        status, out, errors = await _output(environment, "tools", "list", "--json")
        if status:
            raise SuiteError(f"tabane tools list: {(errors or out).decode().strip()}")
        if tool in out:
            return
        await asyncio.sleep(0.1)
    _, out, _ = await _output(environment, "servers", "list")
    raise SuiteError(f"the hub never learnt the server's tools: {out.decode().strip()}")


async def _output(environment: dict[str, str], *arguments: str) -> tuple[int, bytes, bytes]:
    process = await asyncio.create_subprocess_exec(
        *_tabane(*arguments),
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(), READY)
    finally:
        await _end(process)
    return process.returncode or 0, out, errors


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), END)
    except TimeoutError:
        process.kill()
        await process.wait()


def _tabane(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tabane", *arguments]


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:].strip() or "it said nothing"
