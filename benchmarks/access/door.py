"""Cost of the door for a call, on the event loop: python -m benchmarks.access.door [--write]

The door admits a call and ends it: permission, limits, counters, audit. Nothing else runs, so the figures are
the work of the hub alone, without pipes and servers.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.report import machine, publish, table

from tabane.access.limits import CallLimits
from tabane.access.permissions import PermissionPatterns, PermissionRules
from tabane.audit.entry import AuditOptions
from tabane.audit.log import AuditLog
from tabane.catalog.tools.catalog import ConfirmRule
from tabane.catalog.tools.tool import Tool
from tabane.hub.people.guards import HubGuard
from tabane.hub.telemetry.metering import CallCounters, HubMeter
from tabane.operations import LOCAL, Access, Caller, CallTarget, Door, Face, OperationTable
from tabane.operations.door import CallVerdict, OpenApproval
from tabane.servers.redaction import Redactor
from tabane.servers.server import Server
from tabane.settings.limit_rules import DEFAULT_TIER, CallRate, LimitRules, TierLimits

COMMAND = "python -m benchmarks.access.door"
CALLS = 200
"""Calls of one batch: so few that the fastest batch is not interrupted by other processes."""

RULES = LimitRules({DEFAULT_TIER: TierLimits(CallRate(10**9, 1e9), 64, 32)})
"""All kinds of limits of a tier, and so high that no call is refused."""

TARGET = CallTarget("github__search_issues", "github")
CONFIRMING = Server("github", confirm=("delete_*", "write_*", "merge_*", "*_admin", "close_issue"))
TOOL = Tool(TARGET.name, "github", "search_issues", b"{}")
SMALL = b'{"query":"find me some issues about parsing","limit":10,"state":"open"}'
LONG = b'{"path":"notes/today.txt","content":"%b"}' % (b"A line of the notes of today. " * 60)
SECRET = b'{"url":"https://example.com/","headers":{"authorization":"Bearer %b"}}' % (b"a1B2" * 8)


class KeyHolder:
    """A caller with a key that may call what its patterns allow."""

    holder, label, tier = "key:ab12cd34", "laptop", "premium"
    everything, revision = False, 0

    def __init__(self) -> None:
        self._rules = PermissionRules(PermissionPatterns(("github__*", "files__*"), ("*__delete_*",)))

    def allows(self, target: CallTarget) -> bool:
        return self._rules.allows(target)

    def sees_server(self, server: str) -> bool:
        return self._rules.sees_server(server)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the performance page")
    parser.add_argument("--batches", type=int, default=400, help="batches of 200 calls (400)")
    options = parser.parse_args(arguments)
    rows = asyncio.run(_measure(options.batches))
    publish(
        "door",
        [
            "## Access and audit of a call",
            machine(COMMAND),
            table(["one call, on the event loop", "fastest batch", "median batch"], rows),
            f"A batch has {CALLS} calls. The fastest one is the time that the work takes when no other "
            "process interrupts it; the median shows the load of the machine. The small arguments have "
            f"{len(SMALL)} bytes. The entry of a call is in the kernel when the time ends, and is "
            "written to disk later by a thread.",
        ],
        write=options.write,
    )


async def _measure(batches: int) -> list[list[str]]:
    with tempfile.TemporaryDirectory(prefix="tabane-benchmark-") as folder, _log(folder) as log:
        count = CallCounters().count
        limits = CallLimits(asyncio.get_running_loop().time, lambda: RULES)
        defaults = HubMeter(recorder=log, count=count)
        limited = HubMeter(lambda tier: limits, log, count)
        guard = HubGuard(_asks_nobody)
        confirm = HubGuard(_asks_nobody, (ConfirmRule([CONFIRMING], {TOOL.alias: TOOL}.get),))
        ways: list[tuple[str, HubMeter | None, Access, bytes, HubGuard | None]] = [
            ("door alone: permission", None, LOCAL, SMALL, None),
            ("guard without a rule", None, LOCAL, SMALL, guard),
            ("guard with five patterns of `confirm`, none of which matches", None, LOCAL, SMALL, confirm),
            ("meter without parts", HubMeter(), LOCAL, SMALL, None),
            ("counters for Prometheus", HubMeter(count=count), LOCAL, SMALL, None),
            ("audit", HubMeter(recorder=log), LOCAL, SMALL, None),
            ("**defaults: counters and audit**", defaults, LOCAL, SMALL, None),
            ("defaults, arguments of 1.8 KB", defaults, LOCAL, LONG, None),
            ("defaults, arguments with a secret", defaults, LOCAL, SECRET, None),
            ("limits of a key", HubMeter(lambda tier: limits), KeyHolder(), SMALL, None),
            ("a key: limits, counters and audit", limited, KeyHolder(), SMALL, None),
        ]
        found = []
        for name, meter, access, given, judge in ways:
            times = await _batches(_call(meter, access, given, judge), batches)
            found.append([name, f"{times[0]:.1f} µs", f"{times[len(times) // 2]:.1f} µs"])
        return found


def _call(
    meter: HubMeter | None, access: Access, arguments: bytes, guard: HubGuard | None
) -> Callable[[], None]:
    door = Door(OperationTable([]), None, meter, guard)
    caller = Caller("local", Face.MCP, "1", client="benchmark", access=access)

    def call() -> None:
        door.admit(caller, TARGET, arguments, "123").end("ok", 1234)

    return call


def _asks_nobody(
    verdicts: tuple[CallVerdict, ...], caller: Caller, target: CallTarget, arguments: bytes, request: str
) -> OpenApproval:
    raise AssertionError("no call of this benchmark has to be approved")


async def _batches(call: Callable[[], None], batches: int) -> list[float]:
    """Return the microseconds of a call in each batch, in ascending order."""
    found = []
    for _ in range(batches):
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        found.append((time.perf_counter() - began) / CALLS * 1e6)
        await asyncio.sleep(CALLS / 20_000)  # as many calls a second as a hub could have at most
    return sorted(found)


@contextmanager
def _log(folder: str) -> Iterator[AuditLog]:
    """Open a log with the settings that a hub has by default, and one secret to hide."""
    log = AuditLog(str(Path(folder)), AuditOptions(), asyncio.get_running_loop())
    secrets = ["k" * 43]
    log.hide(secrets, Redactor(secrets).text)
    try:
        yield log
    finally:
        log.close()


if __name__ == "__main__":
    main(sys.argv[1:])
