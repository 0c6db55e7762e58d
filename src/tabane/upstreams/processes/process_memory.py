"""Memory of servers: the resident memory of a process with everything that it started. Linux only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

_RESIDENT = 21
"""Position of the resident pages in /proc/PID/stat, counted from the state (proc_pid_stat(5))."""


class ProcessMemory:
    """The resident pages of every running process, read once."""

    def __init__(self, stats: Mapping[int, bytes]) -> None:
        """Parse the texts of /proc/PID/stat by pid. Texts that are not of that form are left out."""
        self._pages: dict[int, int] = {}
        self._below: dict[int, list[int]] = {}
        for pid, stat in stats.items():
            fields = stat.rpartition(b")")[2].split()
            if len(fields) > _RESIDENT:
                self._pages[pid] = int(fields[_RESIDENT])
                # parent, group and session: a grandchild whose parent has ended is still in its group
                for above in {int(field) for field in fields[1:4]} - {pid}:
                    self._below.setdefault(above, []).append(pid)

    def of(self, pids: Iterable[int]) -> int | None:
        """Return the bytes of these processes and their descendants; None if none of them runs.

        Memory that several of them share is counted for each.
        """
        found: set[int] = set()
        waiting = [pid for pid in pids if pid in self._pages]
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found.add(pid)
                waiting.extend(self._below.get(pid, ()))
        if not found:
            return None
        return sum(self._pages[pid] for pid in found) * os.sysconf("SC_PAGE_SIZE")


def read_process_memory() -> ProcessMemory:
    """Read the memory of all processes from /proc. Blocks for some microseconds for each process."""
    stats: dict[int, bytes] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return ProcessMemory({})
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                    stats[int(name)] = file.read(4096)
            except OSError:
                continue  # ended since the folder was listed
    return ProcessMemory(stats)
