"""Python calls of Tabane in one request: python -m benchmarks.gateway.calls_counted [--write] [--by-function]

A hub in this process serves a client over a socket, and real upstream processes. Every call of a function of
the package ``tabane`` on the event loop counts, and every step of a coroutine or generator. The numbers do
not depend on the load of the machine. They say what a change adds to a request or takes away.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

from benchmarks.report import machine, publish, table
from tests.harness.labeled_servers import replayed
from tests.harness.running_hub import Json, SocketClient, running_hub

import tabane

COMMAND = "python -m benchmarks.gateway.calls_counted"
PACKAGE = str(Path(tabane.__file__).parent)

WARM, COUNTED = 20, 15
"""Requests before something is counted, and requests that are counted. Their median is the figure."""

REQUESTS: dict[str, Json] = {
    "a call by its name": {"name": "mail__read_inbox", "arguments": {}},
    "a call through call_tool": {
        "name": "call_tool",
        "arguments": {"name": "mail__read_inbox", "arguments": {}},
    },
    "search_tools, 2 tools": {"name": "search_tools", "arguments": {"query": "messages of the inbox"}},
}
GUARDS: dict[str, Json] = {
    "without rules": {"flow_policy": "off", "credentials_in_calls": "off", "script_writes": "allow"},
    "with rules": {"flow_policy": "ask", "credentials_in_calls": "redact", "script_writes": "ask"},
}
"""Settings of a hub that guards calls, and of one that does not."""


class CountedCalls:
    """Counts calls of functions of the package in this thread, by function."""

    def __init__(self) -> None:
        self.by_function: Counter[str] = Counter()

    def start(self) -> None:
        self.by_function.clear()
        sys.setprofile(self._profile)

    def stop(self) -> int:
        sys.setprofile(None)
        return self.by_function.total()

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            self.by_function[f"{code.co_filename[len(PACKAGE) + 1 :]}:{code.co_qualname}"] += 1


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the performance page")
    parser.add_argument("--by-function", action="store_true", help="print the functions of each request")
    options = parser.parse_args(arguments)
    figures: dict[str, dict[str, int]] = {}
    for guard, settings in GUARDS.items():
        with tempfile.TemporaryDirectory(prefix="tabane-benchmark-") as folder:
            figures[guard] = asyncio.run(_counted(Path(folder), settings, listing=options.by_function))
    rows = [[what, *(f"{figures[guard][what]:,}" for guard in GUARDS)] for what in REQUESTS]
    publish(
        "calls_counted",
        [
            "## Python calls of one request",
            machine(COMMAND),
            table(["calls of our functions", *GUARDS], rows),
            "A call of a function counts, and each step of a coroutine, on the event loop of the hub. The "
            "client speaks 2025-11-25, and the audit log is on.",
        ],
        write=options.write,
    )


async def _counted(folder: Path, settings: Json, *, listing: bool) -> dict[str, int]:
    """Return how many calls of ours each request takes."""
    servers = {"mail": replayed(folder, "mail")}
    async with running_hub(folder / "home", servers, mode="search", **settings) as here:
        client = await here.connect("2025-11-25")
        found = {}
        for what, params in REQUESTS.items():
            calls = CountedCalls()
            figures = [await _count(client, params, calls) for _ in range(WARM + COUNTED)]
            found[what] = round(median(figures[WARM:]))
            if listing:
                print(f"\n{what}: {found[what]}")
                for name, count in calls.by_function.most_common():
                    print(f"{count:6} {name}")
        return found


async def _count(client: SocketClient, params: Json, calls: CountedCalls) -> int:
    await asyncio.sleep(0.01)  # what the request before has left to do
    calls.start()
    await client.result("tools/call", params)
    await asyncio.sleep(0)
    return calls.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
