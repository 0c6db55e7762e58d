"""Run the official suite's client scenarios with the hub as the client, and say which fail.

    python -m tests.e2e.protocol.conformance.client_suite [--revision R] [--scenario NAME]

Each scenario has a server of its own and a hub of its own, which a process of client.py runs. Exit status 0:
all scored scenarios passed. Nothing is tried twice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.protocol.conformance.suite import REVISIONS, Revision, SuiteError, absent, run_suite, scored
from tests.harness.patience import LONG

AT_ONCE = 3
"""Scenarios that run at the same time: each mostly waits for its processes to start."""

CLIENT = f"{shlex.quote(sys.executable)} -m tests.e2e.protocol.conformance.client"
"""The command that the suite runs for each scenario."""

SHOWN = 6000
"""Characters of the output of a scenario that failed, from its end."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.e2e.protocol.conformance.client_suite")
    parser.add_argument("--revision", action="append", choices=REVISIONS, help="this one alone; repeatable")
    parser.add_argument("--scenario", action="append", help="this one alone; repeatable")
    options = parser.parse_args(arguments)
    if missing := absent():
        print(f"missing: {missing}", file=sys.stderr)
        return 1
    return asyncio.run(_conform(options.revision or REVISIONS, options.scenario))


async def _conform(revisions: Sequence[Revision], only: Sequence[str] | None) -> int:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(revision: Revision, scenario: str) -> str | None:
        async with places:
            return await measure_client(revision, scenario)

    chosen = [(revision, name) for revision in revisions for name in only or await scored(revision, "Client")]
    failed = 0
    async with asyncio.TaskGroup() as group:
        running = [(*each, group.create_task(one(*each))) for each in chosen]
        for revision, scenario, task in running:
            fault = await task
            print(f"{revision}  client  {scenario}: {'ok' if fault is None else 'FAILED'}", flush=True)
            if fault is not None:
                failed += 1
                print(fault[-SHOWN:], file=sys.stderr, flush=True)
    if failed:
        print(f"problem: {failed} of {len(chosen)} client scenarios failed", file=sys.stderr)
    return 1 if failed else 0


async def measure_client(revision: Revision, scenario: str, command: str = CLIENT) -> str | None:
    """Run one scenario; return what the suite wrote if it failed, None if it passed."""
    with tempfile.TemporaryDirectory(prefix="tabane-conformance-") as folder:
        try:
            status, output = await run_suite(
                "client", "--command", command, "--scenario", scenario, "--spec-version", revision,
                "--force", "--timeout", str(int(2 * LONG * 1000)), "-o", folder, limit=3 * LONG,
            )  # fmt: skip
        except SuiteError as failure:
            return str(failure)
        if status:
            return output or f"exit status {status}"
        # The suite also ends with 0 if it skipped the scenario, or checked nothing.
        return None if _successes(Path(folder)) else f"no check succeeded:\n{output}"


def _successes(folder: Path) -> int:
    checks = [check for file in folder.rglob("checks.json") for check in json.loads(file.read_text())]
    return sum(check.get("status") == "SUCCESS" for check in checks)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
