"""Memory of a hub while scripts try to take it: python -m benchmarks.script_memory [--write]

The scripts are the bombs of tests/code/test_escapes.py, those of tests/code/greedy_scripts.py, and 200
generated ones. A client calls a small tool meanwhile, so it is seen whether a script holds the hub.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import sys
import tempfile
import time
from pathlib import Path

import psutil
from benchmarks.http.calls import ECHO
from benchmarks.hub import HubProcess
from benchmarks.neighbors.neighbor import Bridged
from benchmarks.report import Goal, goals, machine, publish
from tests.code.greedy_scripts import WRITTEN, generated
from tests.code.test_escapes import BOMBS

COMMAND = "python -m benchmarks.script_memory"
GENERATED = 200
MIB = 1 << 20
SETTLED = 5.0
"""Seconds after the last script until memory is looked at again."""

PROBE = ("tools/call", {"name": "github__search", "arguments": {}})


def main() -> None:
    scripts = [*WRITTEN, *BOMBS, *generated(GENERATED)]
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measured(Path(folder), scripts))
    page = [
        "Scripts that try to take the hub",
        machine(COMMAND),
        goals(
            [
                Goal("memory of the hub above that before, at most", found["most"], 64, " MiB", digits=1),
                Goal("the same after the last script", found["after"], 64, " MiB", digits=1),
                Goal("longest call of another client meanwhile", found["longest"], 1000, " ms"),
            ]
        ),
        f"{len(scripts)} scripts, with `script_seconds` 1 and `script_timeout` 20, one after the other. The "
        f"longest took {found['slowest']:.1f} s; {found['failed']:.0f} were refused with a reason. The 99th "
        f"percentile of the other client's calls was {found['p99']:.0f} ms.",
    ]
    publish("script_memory", page, write="--write" in sys.argv)


async def measured(folder: Path, scripts: list[str]) -> dict[str, float]:
    hub = HubProcess(
        folder, TABANE_SCRIPT_SECONDS="1", TABANE_SCRIPT_TIMEOUT="20", TABANE_SCRIPT_WRITES="allow"
    )
    server = folder / "github.py"
    server.write_text(ECHO.replace('"name": "echo", "inputSchema"', '"name": "search", "inputSchema"'))
    hub.configure({"github": {"command": sys.executable, "args": [str(server)]}})
    hub.start()
    try:
        probe = await Bridged.connect(hub.environment)
        await asyncio.to_thread(run, hub, "1 + 1")
        process, times, most = psutil.Process(hub.pid), list[float](), 0
        before = process.memory_info().rss
        ended = asyncio.ensure_future(asyncio.to_thread(run_all, hub, scripts))
        while not ended.done():
            begun = time.perf_counter()
            await probe.ask(*PROBE)
            times.append(time.perf_counter() - begun)
            most = max(most, process.memory_info().rss)
            await asyncio.sleep(0.005)
        slowest, failed = await ended
        await asyncio.sleep(SETTLED)
        after = process.memory_info().rss
        probe.process.kill()
        await probe.process.wait()
        times.sort()
        return {
            "most": (most - before) / MIB, "after": (after - before) / MIB, "slowest": slowest,
            "failed": failed, "longest": times[-1] * 1e3, "p99": times[len(times) * 99 // 100] * 1e3,
        }  # fmt: skip
    finally:
        hub.stop()


def run_all(hub: HubProcess, scripts: list[str]) -> tuple[float, int]:
    """Run all scripts. Return the seconds of the longest, and how many have failed."""
    slowest, failed = 0.0, 0
    for code in scripts:
        begun = time.perf_counter()
        failed += bool(run(hub, code))
        slowest = max(slowest, time.perf_counter() - begun)
    return slowest, failed


def run(hub: HubProcess, code: str) -> str:
    """Run a script, and return why it failed."""
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=90)
    headers = {"Authorization": f"Bearer {hub.token}", "Content-Type": "application/json"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "run_script", "params": {"code": code}}
    connection.request("POST", "/rpc", json.dumps(body), headers)
    answer = json.loads(connection.getresponse().read())
    return str(answer["result"].get("error", "")) if "result" in answer else str(answer["error"])


if __name__ == "__main__":
    main()
