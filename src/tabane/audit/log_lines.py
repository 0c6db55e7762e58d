"""The log as it grows: its files with what each begins with, and their whole lines from a place on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b

from tabane.audit.entry import LONGEST_LINE, AuditEntry, AuditFile, audit_files, decode_entry

_CHUNK = 4 << 20
_HEAD = 1 << 16
_USUAL = 4096  # bytes that most lines are shorter than


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of the log as it was when it was listed. ``identity`` is a hash of its first line."""

    path: str
    first: int
    inode: int
    size: int
    identity: bytes


@dataclass(frozen=True, slots=True)
class LinesRead:
    """Whole lines without their newlines, and the place after them. The first one begins at ``begin``."""

    begin: int
    end: int
    lines: list[bytes]


def log_files(folder: str) -> list[LogFile]:
    """Return the files that have at least one whole line, oldest first."""
    return [found for file in audit_files(folder) if (found := _log_file(file))]


def _log_file(file: AuditFile) -> LogFile | None:
    try:
        with open(file.path, "rb") as opened:
            status = os.fstat(opened.fileno())
            head = opened.readline(_HEAD)
    except OSError:
        return None  # removed meanwhile
    if len(head) < _HEAD and not head.endswith(b"\n"):
        return None
    identity = blake2b(head, digest_size=16).digest()
    return LogFile(file.path, file.first, status.st_ino, status.st_size, identity)


def read_lines(file: LogFile, place: int) -> Iterator[LinesRead]:
    """Yield the whole lines from ``place`` to the size that the file had, some megabytes at a time.

    A line that is too long to be an entry is yielded in pieces. Raises OSError.
    """
    with open(file.path, "rb") as opened:
        while place < file.size:
            opened.seek(place)
            chunk = opened.read(min(_CHUNK, file.size - place))
            end = chunk.rfind(b"\n") + 1
            if not end and len(chunk) > LONGEST_LINE:
                end = len(chunk)
            if not end:
                return
            lines = chunk[:end].split(b"\n")
            yield LinesRead(place, place + end, lines if lines[-1] else lines[:-1])
            place += end


def timed_entry(line: bytes) -> tuple[AuditEntry, int] | None:
    """Return an entry and its time in milliseconds since 1970; None for a line that is none."""
    try:
        entry = decode_entry(line)
        moment = datetime.fromisoformat(entry.time)
        seconds = moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
    return None if seconds is None or not 0 < entry.seq < 1 << 62 else (entry, round(seconds * 1000))


class LineReader:
    """Reads single lines again. Files stay open until :meth:`close`."""

    def __init__(self, paths: dict[int, str]) -> None:
        self._paths = paths
        self._opened: dict[int, int] = {}

    def line(self, first: int, place: int) -> bytes:
        """Return the line at that place of the file that begins with ``first``; b"" if it is gone."""
        read = self.part(first, place, place + _USUAL)
        if b"\n" not in read and len(read) == _USUAL:
            read = self.part(first, place, place + LONGEST_LINE)
        line, newline, _ = read.partition(b"\n")
        return line if newline else b""

    def part(self, first: int, begin: int, end: int) -> bytes:
        """Return the bytes of a file between two places; fewer if they are gone."""
        fd = self._file(first)
        return os.pread(fd, end - begin, begin) if fd >= 0 else b""

    def close(self) -> None:
        for fd in self._opened.values():
            if fd >= 0:
                os.close(fd)
        self._opened = {}

    def _file(self, first: int) -> int:
        if first not in self._opened:
            try:
                self._opened[first] = os.open(self._paths[first], os.O_RDONLY | os.O_CLOEXEC)
            except (OSError, KeyError):
                self._opened[first] = -1  # removed meanwhile
        return self._opened[first]
