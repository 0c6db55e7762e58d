"""Command lines of processes that may end at any moment."""

from __future__ import annotations

import psutil


def command(process: psutil.Process) -> list[str]:
    """Return the command line of a process; an empty list if it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []
