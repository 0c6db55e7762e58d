"""Log files that rotate, and their last lines: of the hub, and of each upstream server."""

from __future__ import annotations

import contextlib
import os
from binascii import crc32
from typing import BinaryIO, NamedTuple

_CHUNK = 1 << 16
_MOST_READ = 1 << 18
_CHECKED = 64


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
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _rotate(self, fd: int, status: os.stat_result) -> None:
        # A file that another process put there is not renamed: it may have rotated the log just now.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.lstat(self._path), status):
                names = [self._path, *(f"{self._path}.{number}" for number in range(1, self._count))]
                for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(newer, older)
                if self._count == 1:
                    os.truncate(fd, 0)
        # The descriptor keeps its number: closed and opened, a connection could get it in between.
        new = self._open()
        os.dup2(new, fd, inheritable=False)
        os.close(new)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._path, flags, 0o600)


class LinesAfter(NamedTuple):
    """Lines behind a position, the position behind them, and whether some between were left out."""

    lines: list[str]
    cursor: str
    missed: bool


def log_end(path: str, count: int) -> LinesAfter:
    """Return the last ``count`` lines of a log, which may not exist yet, and the position behind them."""
    try:
        with open(path, "rb") as file:
            lines, end = _last_of(file, count)
            return LinesAfter(lines, str(_LogPosition.at(file, end)), False)
    except OSError:
        return LinesAfter([], str(_NO_POSITION), False)


def lines_after(path: str, cursor: str, count: int) -> LinesAfter:
    """Return the lines behind ``cursor``, also if the log rotated once since. At most ``count`` are returned.

    At most 256 KiB are read: of more, only the last. A cursor that is not known any more is followed by
    what the log has now.
    """
    position = _LogPosition.of(cursor)
    begun = position == _NO_POSITION
    lines: list[str] = []
    missed = False
    for name in (f"{path}.1", path):
        with contextlib.suppress(OSError), open(name, "rb") as file:
            start = 0
            if position.is_in(file):
                begun, start = True, position.offset
            elif not begun:
                if name != path:
                    continue
                missed = True  # it rotated more than once
            data, end, cut = _lines_from(file, start)
            lines += data
            missed |= cut
            cursor = str(_LogPosition.at(file, end))
    return LinesAfter(lines[-count:], cursor, missed or len(lines) > count)


class _LogPosition(NamedTuple):
    """A position in a log, which is known by its inode and the bytes before: an inode is soon used again."""

    inode: int
    offset: int
    check: int

    @classmethod
    def at(cls, file: BinaryIO, offset: int) -> _LogPosition:
        return cls(os.fstat(file.fileno()).st_ino, offset, _check(file, offset))

    @classmethod
    def of(cls, cursor: str) -> _LogPosition:
        """Return the position of a cursor; the beginning if the text is none."""
        parts = cursor.split(":")
        good = len(parts) == len(cls._fields) and all(part.isascii() and part.isdigit() for part in parts)
        return cls(*map(int, parts)) if good else _NO_POSITION

    def __str__(self) -> str:
        return f"{self.inode}:{self.offset}:{self.check}"

    def is_in(self, file: BinaryIO) -> bool:
        found = os.fstat(file.fileno())
        same = found.st_ino == self.inode and self.offset <= found.st_size
        return same and _check(file, self.offset) == self.check


_NO_POSITION = _LogPosition(0, 0, 0)


def _check(file: BinaryIO, offset: int) -> int:
    first = max(0, offset - _CHECKED)
    file.seek(first)
    return crc32(file.read(offset - first))


def _lines_from(file: BinaryIO, start: int) -> tuple[list[str], int, bool]:
    """Return whole lines from ``start``, their end, and whether some at the beginning were left out."""
    end = _end_of_lines(file)
    first = max(start, end - _MOST_READ)
    if end <= first:
        return [], max(start, end), False
    file.seek(first)
    data = file.read(end - first)
    if first > start:
        data = data.partition(b"\n")[2]
    return data.decode(errors="replace").splitlines(), end, first > start


def _end_of_lines(file: BinaryIO) -> int:
    """Return the position behind the last line break within the last 64 KiB."""
    size = file.seek(0, os.SEEK_END)
    first = max(0, size - _CHUNK)
    file.seek(first)
    return first + file.read(size - first).rfind(b"\n") + 1


def last_lines(path: str, count: int) -> tuple[list[str], int]:
    """Return the last ``count`` lines of a file, read from its end, and that end. Raises OSError."""
    with open(path, "rb") as file:
        return _last_of(file, count)


def _last_of(file: BinaryIO, count: int) -> tuple[list[str], int]:
    at = end = file.seek(0, os.SEEK_END)
    data = b""
    while at > 0 and data.count(b"\n") <= count:
        step = min(_CHUNK, at)
        at -= step
        file.seek(at)
        data = file.read(step) + data
    return data.decode(errors="replace").splitlines()[-count:] if count > 0 else [], end
