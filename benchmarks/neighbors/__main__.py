"""Calls of three assistants next to a server that misbehaves: python -m benchmarks.neighbors [--write]

Two assistants over stdio and one over HTTP call a server that answers at once. Meanwhile, a fourth one calls
a server of tests/harness/servers without a pause. Each misbehavior has its own baseline, measured just
before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.http.calls import ECHO
from benchmarks.hub import HubProcess
from benchmarks.neighbors.neighbor import Bridged, Latency, Neighbor, Posting, measure
from benchmarks.report import machine, publish, table
from tests.harness.servers import hostile_http, hostile_stdio
from tests.harness.servers.hostile_entry import Entry
from tests.harness.servers.hostile_schemas import SCHEMAS

SECONDS = 5.0
MOST_LOOKS = 20
"""Looks whether a server has listed its tool."""

SMALL, LARGE = 0.050, 0.100
"""Goals for the 99th percentile: with messages up to 8 MB, and above."""

CHOSEN = (
    ("stdio", "schema_doubling_refs", SMALL),
    ("stdio", "schema_catastrophic_pattern", SMALL),
    ("stdio", "schema_many_properties", SMALL),
    ("stdio", "answers_of_8_megabytes", SMALL),
    ("stdio", "a_lone_surrogate_in_8_megabytes", SMALL),
    ("stdio", "a_million_empty_lines", SMALL),
    ("stdio", "lines_of_rubbish", SMALL),
    ("stdio", "a_storm_of_log_messages", SMALL),
    ("stdio", "a_storm_of_progress", SMALL),
    ("stdio", "a_storm_of_elicitations", SMALL),
    ("stdio", "a_storm_of_changed_lists_with_each_call", SMALL),
    ("stdio", "endless_large_pages", SMALL),
    ("stdio", "a_hundred_thousand_tools", LARGE),
    ("stdio", "a_flood_on_standard_error", SMALL),
    ("stdio", "a_lone_surrogate_in_60_megabytes", LARGE),
    ("stdio", "an_answer_longer_than_a_message_may_be", LARGE),
    ("stdio", "three_answers_of_50_megabytes", LARGE),
    ("http", "comments_without_end", SMALL),
    ("http", "empty_events_without_end", SMALL),
    ("http", "notifications_without_end", SMALL),
    ("http", "a_byte_in_each_chunk", SMALL),
    ("http", "a_gzip_bomb_in_a_stream", LARGE),
    ("http", "an_event_of_70_megabytes", LARGE),
    ("http", "a_body_of_60_megabytes_with_a_surrogate", LARGE),
)


@dataclass(frozen=True)
class Row:
    """One misbehavior: its baseline, and the latency of the other assistants."""

    way: str
    name: str
    goal: float
    idle: Latency
    beside: Latency
    answers: int


class ChangingHub(HubProcess):
    """A hub whose servers file is changed while it runs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        echo = folder / "echo.py"
        echo.write_text(ECHO)
        self._good = {"command": sys.executable, "args": [str(echo)]}
        self.configure({"good": self._good})
        self.start()

    def add(self, more: dict[str, Any]) -> None:
        """Change the servers, and wait until the hub has loaded them."""
        self.configure({"good": self._good, **more})
        self.reload()
        while {row["name"] for row in self._rows()} != {"good", *more}:
            pass

    def begin(self, server: str) -> None:
        """Start a server, and wait until it has listed its tool. If it does not, it is measured anyway."""
        command = [sys.executable, "-m", "tabane", "servers", "start", server]
        subprocess.run(command, env=self.environment, capture_output=True, check=False)
        for _ in range(MOST_LOOKS):
            if any(row["name"] == server and row["tools"] for row in self._rows()):
                return

    def _rows(self) -> list[dict[str, Any]]:
        return list(json.loads(self.tabane("servers", "list", "--json"))["results"])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--write", action="store_true", help="put the table into the performance page")
    arguments.add_argument("--seconds", type=float, default=SECONDS, help="of each measurement")
    arguments.add_argument("names", nargs="*", help="of misbehaviors, all where none are given")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(run(Path(folder), given.seconds, given.names))
    publish("neighbors", page(rows), write=given.write)


async def run(folder: Path, seconds: float, names: list[str]) -> list[Row]:
    hub = ChangingHub(folder)
    try:
        bridges = [await Bridged.connect(hub.environment) for _ in range(2)]
        neighbors = [*bridges, await Posting.connect(hub.url, hub.token)]
        await measure(neighbors, 1)
        rows: list[Row] = []
        for way, name, goal in CHOSEN:
            if not names or name in names:
                # A name for each: what the hub learned about one server is of no meaning for the next.
                what = (f"bad{len(rows)}", way, name, goal)
                rows.append(await one(hub, neighbors, what, seconds))
                print(shown(rows[-1]), file=sys.stderr)
        for bridge in bridges:
            bridge.process.kill()
            await bridge.process.wait()
        return rows
    finally:
        hub.stop()


async def one(
    hub: ChangingHub, neighbors: list[Neighbor], what: tuple[str, str, str, float], seconds: float
) -> Row:
    server, way, name, goal = what
    entry = (hostile_stdio if way == "stdio" else hostile_http).ENTRIES[name]
    idle = await measure(neighbors, seconds)
    with ExitStack() as stack:
        definition = stack.enter_context(serving(way, entry))
        hub.add({server: definition})
        if entry.moment != "list":
            hub.begin(server)
        caller = stack.enter_context(calling(hub, entry, f"{server}__hit"))
        beside = await measure(neighbors, seconds)
        assert caller.stdin is not None
        assert caller.stdout is not None
        caller.stdin.close()
        answers = int(caller.stdout.read() or 0)
    hub.add({})
    return Row(way, name, goal, idle, beside, answers)


@contextmanager
def serving(way: str, entry: Entry) -> Iterator[dict[str, Any]]:
    """Return the definition of the hostile server; if it is over HTTP, it runs meanwhile."""
    if way == "stdio":
        command = [str(hostile_stdio.__file__), entry.name]
        yield {"command": sys.executable, "args": command, "timeout": 30}
        return
    process = subprocess.Popen(
        [sys.executable, str(hostile_http.__file__), entry.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield {"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "timeout": 30}
    finally:
        process.kill()
        process.communicate()


@contextmanager
def calling(hub: ChangingHub, entry: Entry, tool: str) -> Iterator[subprocess.Popen[bytes]]:
    """Connect the assistant that calls the hostile server."""
    params: dict[str, Any] = {"name": tool, "arguments": {}}
    if entry.through:
        made = SCHEMAS[entry.name.removeprefix("schema_")]()[1]
        params = {"name": "call_tool", "arguments": {"name": tool, "arguments": made}}
    command = [sys.executable, "-m", "benchmarks.neighbors.caller", json.dumps(params), str(entry.calls)]
    caller = subprocess.Popen(
        command, env=hub.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    try:
        assert caller.stdout is not None
        assert caller.stdout.readline() == b"ready\n"
        yield caller
    finally:
        caller.kill()
        caller.wait()


def page(rows: list[Row]) -> list[str]:
    head = ("", "idle p50", "idle p99", "p50", "p99", "longest", "goal of p99", "")
    return [
        "## Beside a server that misbehaves",
        machine("python -m benchmarks.neighbors"),
        "Two assistants over stdio and one over HTTP call a server that answers at once, with 2 ms between "
        "an answer and the next call. A fourth one calls a server of `tests/harness/servers` without a "
        "pause. Times are of the calls of the three, in milliseconds; idle is just before, without the "
        "fourth.",
        table(head, [cells(row) for row in rows]),
    ]


def cells(row: Row) -> tuple[str, ...]:
    name = f"{row.name.replace('_', ' ')} ({row.way})"
    idle = (ms(row.idle.p50), ms(row.idle.p99))
    beside = (ms(row.beside.p50), ms(row.beside.p99), ms(row.beside.longest))
    return name, *idle, *beside, f"≤ {row.goal * 1000:.0f}", "met" if row.beside.p99 <= row.goal else "missed"


def shown(row: Row) -> str:
    return f"{' | '.join(cells(row))} | {row.beside.calls} calls, {row.answers} answers of the hostile server"


def ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f}"


if __name__ == "__main__":
    main()
