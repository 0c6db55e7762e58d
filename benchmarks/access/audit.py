"""Cost of the audit log: microseconds for each recorded call, and entries that are verified in a second.

Run: .venv/bin/python benchmarks/access/audit.py [CALLS]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time

from tabane.audit.entry import AuditOptions, audit_paths
from tabane.audit.log import AuditLog
from tabane.audit.verification import verify_files
from tabane.operations import Caller, Face
from tabane.operations.caller import CallTarget

CALLER = Caller("local", Face.MCP, "s1", client="claude-code")
TARGET = CallTarget("github__get_issue", "github", "tools")
ARGUMENTS = {
    "no arguments": b"",
    "three plain members": b'{"owner":"octocat","repo":"hello-world","issue_number":42}',
    "a query": b'{"query":"how do I parse JSON in python","limit":10}',
    "a list": b'{"owner":"octocat","repo":"hello-world","issue_number":42,"labels":["bug","help wanted"]}',
    "a URL": b'{"url":"https://docs.python.org/3/library/json.html"}',
    "a secret": b'{"password":"hunter2","user":"bob"}',
    "2 KiB of code": b'{"code":"' + b"def f(x):\\n    return x + 1\\n" * 60 + b'"}',
    "50 MB": b'{"text":"' + b"words and " * 5_000_000 + b'"}',
}
BATCH = 500


async def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        log = AuditLog(home, AuditOptions(), asyncio.get_running_loop())
        for name, arguments in ARGUMENTS.items():
            number = count // 100 if len(arguments) > 1000 else count // 4
            print(f"{name:>20}: {best(log, arguments, number):7.2f} µs for each call")
        log.close()
    with tempfile.TemporaryDirectory() as home:
        log = AuditLog(home, AuditOptions(), asyncio.get_running_loop())
        prepared = log.prepare(ARGUMENTS["three plain members"])
        for number in range(count):
            log.record(CALLER, TARGET, prepared, str(number), "ok", 0.001, 1000)
        log.close()
        began = time.perf_counter()
        report = verify_files(audit_paths(home))
        seconds = time.perf_counter() - began
        assert report.intact
        print(f"verified: {report.entries / seconds:,.0f} entries/s ({seconds:.2f} s)")


def best(log: AuditLog, arguments: bytes, count: int) -> float:
    """Return the microseconds of a call in the fastest batch: redaction and entry."""
    times = []
    for _ in range(max(3, count // BATCH)):
        began = time.perf_counter()
        for _ in range(BATCH):
            log.record(CALLER, TARGET, log.prepare(arguments), "abc123", "ok", 0.001, 1000)
        times.append((time.perf_counter() - began) / BATCH * 1e6)
    return min(times)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000))
