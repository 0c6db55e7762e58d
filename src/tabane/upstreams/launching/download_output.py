"""Output of a launcher that downloads, and how much it has written."""

from __future__ import annotations

import asyncio
import contextlib
import os

LINE_LIMIT = 200
"""Characters of the last line of a launcher's output."""


class OutputDrain:
    """Reads what a download writes to its stdout, and keeps the last line."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        self._loop, self._fd, self.line = loop, fd, ""
        loop.add_reader(fd, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 1 << 14)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._fd)
        elif lines := data[-4096:].decode(errors="replace").split():
            text = data[-4096:].decode(errors="replace").splitlines()[-1]
            self.line = (text if text.strip() else lines[-1])[:LINE_LIMIT]

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)


def written_bytes(pid: int) -> int | None:
    """Return how many bytes a process has written so far; None if that is not known."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/io", "rb") as file:
        for line in file:
            if line.startswith(b"wchar:"):
                return int(line.split()[1])
    return None
