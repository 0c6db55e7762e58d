"""What a lost keeper leaves behind comes to the hub, and ends here.

On Linux the hub is a subreaper while it has children: when the keeper is killed, the servers it
started are killed by the kernel, and what those had started becomes the hub's to kill and to reap.
Elsewhere the servers' groups are killed, which is all that can be found.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Collection

from tabane.gateway.processes import launch, process_table

log = logging.getLogger(__name__)

LIMIT = 5.0
"""Seconds after which what cannot be killed is left to itself."""

_PAUSE = 0.002, 0.05  # seconds between two looks, the first and at most


class Subreaper:
    """Makes this process the one that orphans below it come to, if the system has that."""

    def __init__(self) -> None:
        self._control = launch.prctl() if launch.LINUX else None
        self._before = 0
        if self._control is not None:
            import ctypes  # which prctl has imported

            before = ctypes.c_int()
            self._control(launch.GET_SUBREAPER, ctypes.byref(before))
            self._before = before.value
            self._control(launch.SET_SUBREAPER, 1)

    def end(self) -> None:
        """Leave it as it was before."""
        if self._control is not None:
            self._control(launch.SET_SUBREAPER, self._before)


async def end_orphans(keeper: int, leaders: Collection[int], token: str) -> None:
    """Kill and reap the keeper, and what is left of the servers it had started.

    ``leaders`` are the servers' pids, ``token`` stands in the marker of their environments. Bounded
    by :data:`LIMIT`.
    """
    send(os.kill, keeper)
    if not launch.LINUX:
        for leader in leaders:
            send(os.killpg, leader)
    marker = process_table.marker(token)
    pause, until = _PAUSE[0], asyncio.get_running_loop().time() + LIMIT
    while not (_reap(keeper) and not _end_some(leaders, marker)):
        if asyncio.get_running_loop().time() > until:
            log.warning("something that keeper %d left cannot be ended", keeper)
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, _PAUSE[1])


def send(kill: Callable[[int, int], None], target: int) -> None:
    """SIGKILL to a process or group that may be gone."""
    try:
        kill(target, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _end_some(leaders: Collection[int], marker: bytes) -> bool:
    """Kill what is there now and reap what has ended. Whether anything was left to do."""
    table, hub = process_table.processes(), os.getpid()
    if hub not in table:
        return False
    members = process_table.belonging(table, hub, leaders, lambda pid: process_table.carries(pid, marker))
    left = False
    for process in table.values():
        # A zombie shows no marker. The hub's own children stay in its session; an orphan has another.
        orphan = process.zombie and process.parent == hub and process.session != table[hub].session
        if process.pid not in members and not orphan:
            continue
        left = True
        if not process.zombie:
            send(os.kill, process.pid)
        elif process.parent == hub:
            _reap(process.pid)
    return left


def _reap(pid: int) -> bool:
    """Return whether a child has ended and is reaped, now or before."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
