"""Renewal of a token while calls wait: python -m benchmarks.logins [--write]

A hub calls a server on the official SDK, which refuses a token that has ended. An authorization server beside
it issues tokens, and invalidates each refresh token that was used.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.report import Goal, goals, machine, publish
from tests.harness.login_site import LoginSite, login_site
from tests.harness.patience import until
from tests.harness.running_hub import RunningHub, SocketClient, running_hub

from tabane.operations import Caller, Face

CALLS = 100
LOCAL = Caller("local", Face.RPC, "program")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        requests, valid, renewed = asyncio.run(measured(Path(folder)))
    page = [
        "## Renewal of a login",
        machine("python -m benchmarks.logins"),
        goals([Goal(f"requests for a token while {CALLS} calls wait for it", requests, 1)]),
        f"{CALLS} calls at once take {valid * 1000:,.0f} ms with a valid token, and {renewed * 1000:,.0f} ms "
        "with one that the server has just stopped accepting. Each of them succeeds.",
    ]
    publish("logins", page, write="--write" in sys.argv)


async def measured(folder: Path) -> tuple[int, float, float]:
    """Return the requests for a token, and the seconds of the calls without and with a renewal."""
    async with (
        login_site(rotating=True) as site,
        running_hub(folder / "hub", {"up": {"url": site.url}}) as here,
    ):
        line = await here.connect("2025-11-25", mode="full")
        await log_in(here, site)
        await calls(line)
        valid = await calls(line)
        before = len(site.forms("/as/token"))
        site.expire()
        renewed = await calls(line)
        return len(site.forms("/as/token")) - before, valid, renewed


async def log_in(here: RunningHub, site: LoginSite) -> None:
    begun: dict[str, Any] = json.loads(
        await here.hub.door.respond(
            LOCAL, "start_login", b'{"server":"up"}', lambda value: json.dumps(value).encode()
        )
    )
    await site.browse(begun["url"])
    await until(lambda: here.hub.gateway.catalog.of_server("up"), "the server lists its tools")


async def calls(line: SocketClient) -> float:
    """Make all calls at once. Return the seconds."""
    started = time.perf_counter()
    found = await asyncio.gather(*(line.call("up__echo", text="hello") for _ in range(CALLS)))
    assert all(not result.get("isError") for result in found)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
