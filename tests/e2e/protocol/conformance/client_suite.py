"""Run the official suite's client scenarios with the hub as the client, and say which fail.

    python -m tests.e2e.protocol.conformance.client_suite [--revision R] [--scenario NAME]

Exit status 0: all scored scenarios passed.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
from collections.abc import Sequence

from tests.e2e.protocol.conformance.suite import REVISIONS, ROOT, TOOLS, SuiteError, absent
from tests.harness.patience import LONG

AT_ONCE = 2
_SECTION = re.compile(r"^Client scenarios\b.*\n((?:  - .+\n?)+)", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.e2e.protocol.conformance.client_suite")
    parser.add_argument("--revision", action="append", choices=REVISIONS, help="this one alone; repeatable")
    parser.add_argument("--scenario", action="append", help="this one alone; repeatable")
    options = parser.parse_args(arguments)
    if missing := absent():
        print(f"missing: {missing}", file=sys.stderr)
        return 1
    return asyncio.run(_conform(options.revision or REVISIONS, options.scenario))


async def _conform(revisions: Sequence[str], only: Sequence[str] | None) -> int:
    places, failed = asyncio.Semaphore(AT_ONCE), 0
    for revision in revisions:
        scenarios = only or await scored(revision)
        results = await asyncio.gather(*(_run(places, revision, scenario) for scenario in scenarios))
        for scenario, output in zip(scenarios, results, strict=True):
            print(f"{revision}  client  {scenario}: {'FAILED' if output else 'ok'}")
            if output:
                failed += 1
                print(output[-4000:], file=sys.stderr)
    return 1 if failed else 0


async def scored(revision: str) -> list[str]:
    """The scenarios that a client must pass to conform to the revision."""
    listing = await _output("list", "--requirements", revision)
    found = _SECTION.search(listing[1])
    if not found:
        raise SuiteError(f"no client scenarios in the suite's list for {revision}")
    return [line.removeprefix("  - ").strip() for line in found[1].splitlines()]


async def _run(places: asyncio.Semaphore, revision: str, scenario: str) -> str:
    """The output of a scenario that failed; empty if it passed."""
    command = f"{sys.executable} -m tests.e2e.protocol.conformance.client"
    with tempfile.TemporaryDirectory(prefix="tabane-conformance-") as folder:
        async with places:
            status, output = await _output(
                "client", "--command", command, "--scenario", scenario, "--spec-version", revision,
                "--timeout", str(int(LONG * 1000)), "-o", folder,
            )  # fmt: skip
    return output or "no output" if status else ""


async def _output(*arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        str(TOOLS / "node"), str(TOOLS / "conformance"), *arguments, cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), 2 * LONG)
    return process.returncode or 0, out.decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
