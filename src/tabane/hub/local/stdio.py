"""Standard input and output, reserved for the client within this process."""

from __future__ import annotations

import fcntl
import os
import stat


def steal() -> tuple[int, int]:
    """Return private descriptors of the current standard input and output, as (read, write).

    From now on fd 0 is /dev/null and fd 1 is standard error, for Python and for any library: a
    stray print cannot reach the client. If standard error is closed, it becomes /dev/null.
    """
    null = os.open(os.devnull, os.O_RDWR)
    taken = tuple(_private(fd, null) for fd in (0, 1))
    try:
        os.fstat(2)
    except OSError:
        os.dup2(null, 2)
    os.dup2(null, 0)
    os.dup2(2, 1)
    if null > 2:
        os.close(null)
    return taken[0], taken[1]


def waits(fd: int) -> bool:
    """Return whether the descriptor is a pipe or a socket. Only those can be made non-blocking for us alone.

    A terminal is shared with the shell, and a file never blocks.
    """
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _private(fd: int, null: int) -> int:
    # Above 2, so that it survives the standard descriptors being laid over.
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:
        return fcntl.fcntl(null, fcntl.F_DUPFD_CLOEXEC, 3)
