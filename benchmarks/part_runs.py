"""Parts of the plan, each run in processes of its own: with a limit of time, a log, and a clean end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.plan import Need, Part

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"
LOGS = BUILD / "bench-logs"

PREPARATION = 1200
"""Seconds that the data of a part may take to make."""

_GRACE = 30.0
"""Seconds that a part has to stop its hubs, once it was told to end."""

_TAIL = 12
"""Lines of a log that are shown of a part that failed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a part ended. ``problem`` is empty if it wrote its section."""

    part: Part
    seconds: float
    problem: str = ""


def part_command(part: Part) -> list[str]:
    return [sys.executable, "-m", part.module, *part.arguments, "--write"]


def preparation(part: Part) -> Part:
    """Return the run of a part that only makes its data, which takes long once."""
    return replace(part, arguments=(*part.arguments, "--prepare"))


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a part: this process's, with the tokenizer of ``build``."""
    return {**os.environ, "PYTHONPATH": str(BUILD / "tokens" / "python"), "PYTHONUNBUFFERED": "1", **more}


def run_part(
    part: Part,
    variables: Mapping[str, str],
    *,
    command: Callable[[Part], Sequence[str]] = part_command,
    logs: Path = LOGS,
    limit: float | None = None,
) -> Ended:
    """Run a part and wait for it, at most for its ``limit`` in seconds. Its output goes into a log.

    It has a session of its own: an interrupt reaches this process alone, which then ends the part.
    """
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{part.name}.log"
    limit = part.limit if limit is None else limit
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(part),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(variables),
            start_new_session=True,
        )
        try:
            status = process.wait(limit)
            problem = f"exit status {status}, {log}:\n{tail(log)}" if status else ""
        except subprocess.TimeoutExpired:
            problem = f"took longer than {limit:.0f} s, {log}:\n{tail(log)}"
        finally:
            end(process)
    return Ended(part, time.monotonic() - began, problem)


def end(process: subprocess.Popen[bytes], grace: float = _GRACE) -> None:
    """End a part and all it started in its session: an interrupt first, so that it stops its hubs."""
    if process.poll() is None:
        _signal(process, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # nothing is left of it
        os.killpg(process.pid, number)


def tail(log: Path) -> str:
    """Return the last lines of a log, indented."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]
    return "\n".join(f"    {line}" for line in lines)


def prepared(need: Need) -> str:
    """Install what some parts need, with make. Return why it failed; empty if it did not."""
    done = subprocess.run(
        ["make", "--no-print-directory", need.value],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if not done.returncode:
        return ""
    return f"make {need.value} failed:\n" + "\n".join(f"    {it}" for it in done.stdout.splitlines()[-_TAIL:])
