"""Memory of what a person has running: ``python -m benchmarks.memory [--minutes 60] [--idle 12] [--write]``.

A hub with four servers and two assistants, and one with 10,000 posts, from their first commands on
until they were idle for a while. The servers themselves are not counted: they need the same without Tabane.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from benchmarks.http.calls import ECHO
from benchmarks.hub import HubProcess
from benchmarks.neighbors.neighbor import Bridged
from benchmarks.posts.realistic import Posts
from benchmarks.report import Goal, goals, machine, publish, table

POSTS = 10_000
SETTLED = 5.0
"""Seconds after the last command until memory is looked at."""

CALL_EACH, SEARCH_EACH = 20.0, 180.0
"""Seconds between two calls of a tool, and between two searches over everything."""

EMBEDDED = 1800.0
"""Seconds that the embedding of the posts may take."""

PARTS = ("hub", "keeper", "embedding process", "other workers", "bridges")
QUERIES = (
    "what time is it in Tokyo", "猫の写真", "release notes of last week", "会議の予定", "add a server",
)  # fmt: skip
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
_METHOD = """
- The first home has one real server (`uvx mcp-server-time`) and three that answer at
  once. The second one has {posts:,} posts of realistic lengths, embedded by the default model, and no server.
- Use is a tool call every {call:.0f} seconds, a tool search every minute, and a search over everything every
  {search:.0f} seconds, from two assistants. Memory is looked at five seconds after the last command.
- The memory of a process is its resident memory, as `top` shows it. "Together" counts a file that several
  processes map once. The servers themselves are not counted: they need the same memory without Tabane.
""".strip()


@dataclass(frozen=True, slots=True)
class Look:
    """Resident memory at one time, in MB (10⁶ bytes): by part, and of all parts together."""

    when: str
    parts: dict[str, float]
    together: float

    def cells(self) -> list[str]:
        shown = (f"{self.parts[part]:,.0f}" if part in self.parts else "–" for part in PARTS)
        return [self.when, *shown, f"{self.together:,.0f}"]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory")
    parser.add_argument("--minutes", type=float, default=60, help="of ordinary use")
    parser.add_argument("--idle", type=float, default=12, help="minutes after it without a request")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="memory-") as folder:
        servers, posts = asyncio.run(_both(Path(folder), options.minutes * 60, options.idle * 60))
    publish("memory", _page(servers, posts, options.minutes, options.idle), write=options.write)


async def _both(folder: Path, used: float, idle: float) -> tuple[list[Look], list[Look]]:
    async with asyncio.TaskGroup() as both:
        servers = both.create_task(_with_servers(folder / "servers", used, idle))
        posts = both.create_task(_with_posts(folder / "posts", used, idle))
    return servers.result(), posts.result()


def _hub(folder: Path) -> HubProcess:
    passed = {name: os.environ[name] for name in _CERTIFICATES if name in os.environ}
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])  # uvx of the environment
    return HubProcess(folder, TABANE_MODEL="auto", PATH=path, **passed)


async def _with_servers(folder: Path, used: float, idle: float) -> list[Look]:
    hub = _hub(folder)
    server = folder / "echo.py"
    server.write_text(ECHO)
    run = _Run(hub)
    try:
        hub.start()
        await run.command("servers", "add", "time", "--", "uvx", "mcp-server-time")
        await run.command("tools", "search", "今何時")
        await run.command("tools", "show", "time__get_current_time")
        await run.command("tools", "call", "time__get_current_time", "timezone=Asia/Tokyo")
        await run.look("after the quick start")
        await run.connect(2)
        for number in (1, 2, 3):
            await run.command("servers", "add", f"echo{number}", "--", sys.executable, str(server))
            await run.command("tools", "call", f"echo{number}__echo")
        await run.look("two assistants, four servers")
        await run.command("search", QUERIES[0])
        await run.look("after one search")
        return await run.used_and_idle(used, idle, "time__get_current_time", {"timezone": "Asia/Tokyo"})
    finally:
        await run.close()


async def _with_posts(folder: Path, used: float, idle: float) -> list[Look]:
    hub = _hub(folder)
    file = folder / "twilog.csv"
    for _ in Posts().write(file, POSTS):
        pass
    run = _Run(hub)
    try:
        hub.start()
        await run.command("posts", "import", str(file))
        await run.embedded()
        await run.look("imported and embedded")
        await run.command("restart")
        hub.note_status()
        await run.look("after a restart")
        await run.connect(2)
        await run.command("posts", "search", QUERIES[1])
        await run.look("after one search, two assistants")
        return await run.used_and_idle(used, idle, "search_posts_by_text", {"search_term": "今日"})
    finally:
        await run.close()


class _Run:
    """A hub that is used and looked at. ``looks`` are what was seen, in order."""

    def __init__(self, hub: HubProcess) -> None:
        self._hub = hub
        self._assistants: list[Bridged] = []
        self.looks: list[Look] = []

    async def command(self, *words: str) -> str:
        return await asyncio.to_thread(self._hub.tabane, *words)

    async def connect(self, count: int) -> None:
        self._assistants += [await Bridged.connect(self._hub.environment) for _ in range(count)]

    async def embedded(self) -> None:
        """Wait until the jobs of the hub have ended. Raises TimeoutError."""
        async with asyncio.timeout(EMBEDDED):
            while True:
                await asyncio.sleep(SETTLED)
                jobs = json.loads(await self.command("jobs", "list", "--json"))["results"]
                running = any(job["status"] == "running" for job in jobs)
                if not running and any(job["operation"] == "embed" for job in jobs):
                    return

    async def used_and_idle(
        self, used: float, idle: float, tool: str, arguments: dict[str, str]
    ) -> list[Look]:
        """Look after use, and after a time without a request. Return everything that was seen."""
        await self.use(used, tool, arguments)
        await self.look(f"after {used / 60:.0f} minutes of use")
        await asyncio.sleep(idle)
        await self.look(f"{idle / 60:.0f} idle minutes later")
        return self.looks

    async def use(self, seconds: float, tool: str, arguments: dict[str, str]) -> None:
        """Call and search as two assistants do."""
        ends = time.monotonic() + seconds
        searched, number = 0.0, 0
        while time.monotonic() < ends:
            assistant = self._assistants[number % len(self._assistants)]
            await assistant.ask("tools/call", {"name": tool, "arguments": arguments})
            query = f"{QUERIES[number % len(QUERIES)]} {number}"  # vectors of queries are kept
            if number % 3 == 0:
                await assistant.ask("tools/call", {"name": "search_tools", "arguments": {"query": query}})
            if time.monotonic() - searched > SEARCH_EACH:
                searched = time.monotonic()
                await assistant.ask(
                    "tools/call", {"name": "search_everything", "arguments": {"query": query}}
                )
            number += 1
            await asyncio.sleep(min(CALL_EACH, max(0.0, ends - time.monotonic())))

    async def look(self, when: str) -> None:
        await asyncio.sleep(SETTLED)
        found = await asyncio.to_thread(_look, self._hub.pid, [one.process.pid for one in self._assistants])
        self.looks.append(Look(when, *found))
        print("memory:", *self.looks[-1].cells(), sep="  ", file=sys.stderr, flush=True)

    async def close(self) -> None:
        for one in self._assistants:
            one.process.kill()
            await one.process.wait()
        if self._hub.pid:
            await asyncio.to_thread(self._hub.stop)


def _look(hub: int, bridges: Iterable[int]) -> tuple[dict[str, float], float]:
    """Return resident memory by part, and of all together."""
    processes = {one: part for one in psutil.Process(hub).children(recursive=True) if (part := _part(one))}
    processes[psutil.Process(hub)] = "hub"
    processes |= {psutil.Process(pid): "bridges" for pid in bridges}
    parts: dict[str, float] = {}
    for one, part in processes.items():
        parts[part] = parts.get(part, 0.0) + one.memory_info().rss / 1e6
    return parts, _together(one.pid for one in processes)


def _part(process: psutil.Process) -> str:
    """Return the part that a child of the hub plays; empty for a server."""
    command = " ".join(process.cmdline()[:6])
    if "tabane." not in command:
        return ""
    names = {"tabane.upstreams.processes.keeper": "keeper", "tabane.search.embedding": "embedding process"}
    return next((part for module, part in names.items() if module in command), "other workers")


def _together(pids: Iterable[int]) -> float:
    """Return MB of several processes: of a file that several map, the largest part that one of them holds.

    The kernel's proportional sizes would depend on what else runs on the machine.
    """
    own, files = 0, dict[str, int]()
    for pid in pids:
        held = dict[str, int]()
        for mapping in psutil.Process(pid).memory_maps(grouped=True):
            # An anonymous mapping has no path; pages of a file that were written to are the process's own.
            written = mapping.private_dirty if mapping.path.startswith("/") else mapping.rss
            own += written
            held[mapping.path] = mapping.rss - written
        for path, size in held.items():
            files[path] = max(files.get(path, 0), size)
    return (own + sum(files.values())) / 1e6


def _page(servers: Sequence[Look], posts: Sequence[Look], minutes: float, idle: float) -> list[object]:
    start, _, searched, used, rested = servers
    head = ("resident memory, MB", *PARTS, "together")
    return [
        "Memory of a hub in use",
        machine("python -m benchmarks.memory"),
        _METHOD.format(posts=POSTS, call=CALL_EACH, search=SEARCH_EACH),
        goals([
            Goal("hub, after the quick start", start.parts["hub"], None, " MB"),
            Goal("together, after the quick start", start.together, None, " MB"),
            Goal("together, after one search", searched.together, None, " MB"),
            Goal(f"together, after {minutes:.0f} minutes of use", used.together, None, " MB"),
            Goal(f"together, {idle:.0f} idle minutes later", rested.together, None, " MB"),
            Goal("together, with 10,000 posts, after the use", posts[-2].together, None, " MB"),
        ]),
        table(head, [look.cells() for look in servers]),
        "With 10,000 posts:",
        table(head, [look.cells() for look in posts]),
    ]  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
