"""The end of a log file, and what is added to it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

_CHUNK = 1 << 16
_LOOK = 0.2


def last_lines(path: str, count: int) -> list[str]:
    """The last ``count`` lines of a file, read from its end. Raises OSError."""
    with open(path, "rb") as file:
        at = file.seek(0, os.SEEK_END)
        data = b""
        while at > 0 and data.count(b"\n") <= count:
            step = min(_CHUNK, at)
            at -= step
            file.seek(at)
            data = file.read(step) + data
    return data.decode(errors="replace").splitlines()[-count:]


def follow_file(path: str) -> Iterator[str]:
    """Lines that are added from now on, for ever; goes on with the new file when the log is rotated."""
    file = open(path, "rb")  # noqa: SIM115  (it is another file after each rotation)
    file.seek(0, os.SEEK_END)
    rest = b""
    try:
        while True:
            chunk = file.read(_CHUNK)
            if not chunk:
                time.sleep(_LOOK)
                if _replaced(path, file.fileno()):
                    file.close()
                    file = open(path, "rb")  # noqa: SIM115
                continue
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)
    finally:
        file.close()


def _replaced(path: str, fd: int) -> bool:
    mine = os.fstat(fd)
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino)
