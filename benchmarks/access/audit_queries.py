"""Queries on an audit log of a million entries: python -m benchmarks.access.audit_queries [COUNT]

The log is written by the log itself, with its chain. Each kind of query is asked in a fresh process, and then
again. The page cache is warm.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.report import Goal, goals, machine, publish, table, timed

from tabane.audit.entry import AuditOptions
from tabane.audit.index_process import AuditIndexProcess
from tabane.audit.index_requests import (
    EntryCounts,
    EntryFilter,
    EntryQuery,
    IndexTask,
    NewestEntry,
    UsageQuery,
)
from tabane.audit.log import AuditLog
from tabane.operations import Caller, CallTarget, Face

COUNT, WARM = 1_000_000, 9
BEGIN = 1_790_000_000.0
_STEP = 2.5  # seconds between two calls


def queries(count: int) -> dict[str, IndexTask]:
    """Return each kind of query. None is limited to what is found soon."""
    start, end = (round((BEGIN + count * share * _STEP) * 1000) for share in (0.3, 0.6))
    failed = ("failed",)
    return {
        "newest page": EntryQuery(),
        "page after 90 %, by offset": EntryQuery(offset=count * 9 // 10),
        "page after 50 %, by cursor": EntryQuery(before=count // 2),
        "a key with half of all calls": EntryQuery(EntryFilter(key="local")),
        "a tool, rare": EntryQuery(EntryFilter(tool="server11__tool_3")),
        "servers by a pattern": EntryQuery(EntryFilter(server="server1*")),
        "failed calls": EntryQuery(EntryFilter(outcomes=failed)),
        "failed, of a server and a client": EntryQuery(
            EntryFilter(outcomes=failed, server="server2", client="cursor")
        ),
        "a period of 30 %": EntryQuery(EntryFilter(start=start, end=end)),
        "failed, of a server, in a period": EntryQuery(
            EntryFilter(start=start, end=end, outcomes=failed, server="server3")
        ),
        "nothing matches": EntryQuery(EntryFilter(client="nobody")),
        "counts of all": EntryCounts(),
        "usage by tool": UsageQuery("2000-01-01", "2100-01-01"),
        "usage by day": UsageQuery("2000-01-01", "2100-01-01", "day"),
        "text, common": EntryQuery(EntryFilter(text="widgets")),
        "text, in a few entries": EntryQuery(EntryFilter(text="issue number 77777")),
        "text, in none": EntryQuery(EntryFilter(text="not to be found")),
    }


async def write(home: str, count: int) -> float:
    """Write the log, and return the entries that were written per second."""
    now = [BEGIN]
    options = AuditOptions(files=10_000, days=0)
    log = AuditLog(home, options, asyncio.get_running_loop(), clock=lambda: now[0])
    some = random.Random(17)
    callers = [
        Caller("local", Face.MCP, f"s-{n}", client=("claude-code", "cursor")[n % 2]) for n in range(40)
    ]
    targets = [CallTarget(f"server{s}__tool_{t}", f"server{s}") for s in range(12) for t in range(12)]
    begun = time.perf_counter()
    for number in range(count):
        now[0] += _STEP
        given = {"query": f"issue number {some.randrange(10**6)}", "repo": "acme/widgets", "body": "検索" * 8}
        target = targets[min(int(some.paretovariate(0.7)) - 1, len(targets) - 1)]
        outcome = "ok" if some.random() < 0.95 else "failed"
        arguments = log.prepare(json.dumps(given, ensure_ascii=False).encode())
        log.record(
            some.choice(callers), target, arguments, str(number), outcome,  # type: ignore[arg-type]
            some.lognormvariate(-4, 1), some.randrange(20_000), some.randrange(300),
        )  # fmt: skip
        if number % 1000 == 0:
            await asyncio.sleep(0)
    await asyncio.to_thread(log.close)
    return count / (time.perf_counter() - begun)


async def measure(folder: str, count: int) -> tuple[float, dict[str, tuple[float, float, float]]]:
    """Return entries caught up per second, and milliseconds of each query: cold, median warm, most warm."""
    index = AuditIndexProcess(folder, lambda: "UTC", os.environ, 2)
    begun = time.perf_counter()
    await index.ask(NewestEntry())
    speed = count / (time.perf_counter() - begun)
    await index.close()
    found: dict[str, tuple[float, float, float]] = {}
    for name, task in queries(count).items():
        index = AuditIndexProcess(folder, lambda: "UTC", os.environ, 2)
        cold, *warm = await timed([partial(index.ask, task)] * (WARM + 1))
        warm.sort()
        found[name] = (cold, warm[len(warm) // 2], warm[-1])
        await index.close()
    return speed, found


def main(count: int, *, write_page: bool) -> None:
    with tempfile.TemporaryDirectory() as home:
        written = asyncio.run(write(home, count))
        folder = Path(home) / "audit"
        size = sum(file.stat().st_size for file in folder.glob("*.jsonl"))
        speed, figures = asyncio.run(measure(str(folder), count))
        derived = sum(file.stat().st_size for file in folder.glob("*.db"))
    plain = {name: times for name, times in figures.items() if not name.startswith(("text", "usage"))}
    slowest = max(plain, key=lambda name: plain[name][1])
    publish(
        "audit",
        [
            f"## The audit log, {count:,} entries",
            machine("python -m benchmarks.access.audit_queries"),
            goals([Goal(f"slowest query: {slowest}", plain[slowest][1], 100, " ms", 1, limit_digits=0)]),
            table(
                ("ms", "cold, with start of the process", "warm, median", "warm, most"),
                ((name, *(f"{each:.1f}" for each in times)) for name, times in figures.items()),
            ),
            f"Written at {written:,.0f} entries/s ({size / 1e6:,.0f} MB), indexed at {speed:,.0f} entries/s "
            f"({derived / 1e6:,.0f} MB).",
        ],
        write=write_page,
    )


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:] if each.isdecimal()]
    main(numbers[0] if numbers else COUNT, write_page="--write" in sys.argv)
