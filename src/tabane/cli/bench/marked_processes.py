"""The processes of a demo or of a benchmark: found by a mark in their environment, and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

MARK = "RUN_OF_TABANE"
"""The variable that marks all processes of a demo or of a benchmark.

Children inherit it. A process keeps it when it changes its group, session or parent.
"""


def marked(mark: str) -> dict[int, str]:
    """Return the processes with ``mark`` except this one: pid to program name."""
    found = _from_proc(mark) if sys.platform == "linux" else _from_ps(mark)
    found.pop(os.getpid(), None)
    return found


def wait_until_gone(mark: str, seconds: float) -> dict[int, str]:
    """Wait until no process has ``mark``. Return those that are left after ``seconds``."""
    deadline = time.monotonic() + seconds
    while left := marked(mark):
        if time.monotonic() >= deadline:
            return left
        time.sleep(0.05)
    return {}


def kill(processes: dict[int, str]) -> None:
    """Kill processes that :func:`marked` returned. Those that have ended are skipped."""
    for pid in processes:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _from_proc(mark: str) -> dict[int, str]:
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as environ:
                if wanted not in environ.read().split(b"\0"):
                    continue
            with open(f"/proc/{entry}/comm", encoding="utf-8", errors="replace") as name:
                found[int(entry)] = name.read().strip()
        except OSError:
            continue  # it has ended, or belongs to another user
    return found


def _from_ps(mark: str) -> dict[int, str]:
    table = subprocess.run(
        ["ps", "-axwwE", "-o", "pid=,command="], capture_output=True, text=True, errors="replace", check=True
    )
    rows = (line.split(None, 1) for line in table.stdout.splitlines() if f"{MARK}={mark}" in line.split())
    return {int(pid): command.split()[0] for pid, command in rows}
