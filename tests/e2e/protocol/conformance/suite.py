"""The official suite as a program: what a revision requires, and how a server fared."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[4]
TOOLS = ROOT / "build" / "node" / "bin"
LIMIT = 240.0
"""Seconds for one run of a revision; some ten are usual, and each scenario has a limit of its own."""

Revision = str
REVISIONS: tuple[Revision, ...] = ("2026-07-28", "2025-11-25")

_FOLDER = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


class SuiteError(Exception):
    """The suite itself could not run; the text says why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one scenario went: the messages of the checks that failed, and of those that only warn."""

    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.failures


def absent() -> str | None:
    """What is missing to run the suite, or None."""
    missing = [name for name in ("node", "conformance") if not (TOOLS / name).exists()]
    return f"{', '.join(missing)} (make node)" if missing else None


async def scored(revision: Revision, side: Literal["Server", "Client"] = "Server") -> tuple[str, ...]:
    """The scenarios that this side must pass to conform to the revision, in the suite's order."""
    listing = await _run("list", "--requirements", revision)
    found = re.search(rf"^{side} scenarios\b.*\n((?:  - .+\n?)+)", listing, re.MULTILINE)
    if not found:
        raise SuiteError(f"no scenarios of the {side} in the suite's list for {revision}:\n{listing}")
    return tuple(line.removeprefix("  - ").strip() for line in found[1].splitlines())


async def measure(url: str, revision: Revision, folder: Path) -> dict[str, Outcome]:
    """Run a revision's scenarios against a server, scored or not; the suite's own files go to the folder."""
    output = await _run("server", "--url", url, "--requirements", revision, "-o", str(folder), fails=True)
    outcomes = outcomes_in(folder)
    if not outcomes:
        raise SuiteError(f"the suite left no results:\n{output[-2000:]}")
    return outcomes


async def measure_scenario(url: str, name: str, revision: Revision, folder: Path) -> Outcome:
    """Run one scenario against a server, also one that no revision requires, such as that of an extension."""
    given = ("--scenario", name, "--spec-version", revision, "--force", "-o", str(folder))
    output = await _run("server", "--url", url, *given, fails=True)
    found = outcomes_in(folder)
    if name not in found:
        raise SuiteError(f"the suite left no results of {name}:\n{output[-2000:]}")
    return found[name]


def outcomes_in(folder: Path) -> dict[str, Outcome]:
    """The outcomes that a run left behind, by scenario."""
    found: dict[str, Outcome] = {}
    for file in sorted(folder.glob("server-*/checks.json")):
        if name := _FOLDER.fullmatch(file.parent.name):
            found[name[1]] = outcome(json.loads(file.read_text()))
    return found


def outcome(checks: Iterable[Mapping[str, Any]]) -> Outcome:
    """What a scenario's checks come to."""

    def with_status(status: str) -> tuple[str, ...]:
        chosen = (check for check in checks if check.get("status") == status)
        return tuple(f"{check.get('id')}: {check.get('errorMessage') or 'no message'}" for check in chosen)

    checks = list(checks)
    return Outcome(with_status("FAILURE"), with_status("WARNING"))


async def _run(*arguments: str, fails: bool = False) -> str:
    status, out = await run_suite(*arguments)
    if status and not fails:
        raise SuiteError(f"conformance {' '.join(arguments)}: {out}")
    return out


async def run_suite(*arguments: str, limit: float = LIMIT) -> tuple[int, str]:
    """The exit status and the output of the suite. What it started ends with it."""
    process = await asyncio.create_subprocess_exec(
        str(TOOLS / "node"),
        str(TOOLS / "conformance"),
        *arguments,
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), limit)
    except TimeoutError:
        raise SuiteError(f"the suite did not end in {limit:.0f} s: {' '.join(arguments)}") from None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return process.returncode or 0, out.decode(errors="replace")
