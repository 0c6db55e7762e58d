"""Log files that rotate, and their last lines: of the hub, and of each upstream server."""

from __future__ import annotations

import contextlib
import os

_CHUNK = 1 << 16


class RotatingFile:
    """A file that becomes ``.1`` when it has ``size`` bytes, and so on up to ``count`` files; each 0600.

    With ``keep_open`` it can be written even when the process has no descriptor left; without, it is opened
    for each entry, so that many logs cost no descriptors. Several processes may write to one file, and rotate
    it.
    :class:`logging.handlers.RotatingFileHandler` does the same, and costs 2 MB to import.
    """

    def __init__(self, path: str, size: int, count: int, *, keep_open: bool) -> None:
        self._path, self._size, self._count = path, size, count
        self._fd = self._open() if keep_open else -1

    def append(self, entry: bytes) -> None:
        """Add whole lines. Raises OSError if the file cannot be written, and then they are lost."""
        fd = self._fd if self._fd >= 0 else self._open()
        try:
            status = os.fstat(fd)
            if status.st_size and status.st_size + len(entry) > self._size:
                self._rotate(fd, status)
            os.write(fd, entry)
        finally:
            if fd != self._fd:
                os.close(fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _rotate(self, fd: int, status: os.stat_result) -> None:
        # A file that another process put there is not renamed: it may have rotated the log just now.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.lstat(self._path), status):
                self._rename(fd)
        # The descriptor keeps its number: closed and opened, a connection could get it in between.
        new = self._open()
        os.dup2(new, fd, inheritable=False)
        os.close(new)

    def _rename(self, fd: int) -> None:
        names = [self._path, *(f"{self._path}.{number}" for number in range(1, self._count))]
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            with contextlib.suppress(FileNotFoundError):
                os.replace(newer, older)
        if self._count == 1:
            os.truncate(fd, 0)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._path, flags, 0o600)


def last_lines(path: str, count: int) -> tuple[list[str], int]:
    """Return the last ``count`` lines of a file, read from its end, and that end. Raises OSError."""
    with open(path, "rb") as file:
        at = end = file.seek(0, os.SEEK_END)
        data = b""
        while at > 0 and data.count(b"\n") <= count:
            step = min(_CHUNK, at)
            at -= step
            file.seek(at)
            data = file.read(step) + data
    return data.decode(errors="replace").splitlines()[-count:] if count > 0 else [], end
