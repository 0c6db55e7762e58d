"""The lines of the log as it grows: its files, their whole lines from a place on, and search for a text.

A text is searched by scanning the bytes of the log. There is no index of texts: it would be larger than the
log. A scan reads some hundred megabytes a second, and is bounded in bytes.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec

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
        if first not in self._opened:
            try:
                self._opened[first] = os.open(self._paths[first], os.O_RDONLY | os.O_CLOEXEC)
            except (OSError, KeyError):
                self._opened[first] = -1  # removed meanwhile
        fd = self._opened[first]
        return os.pread(fd, end - begin, begin) if fd >= 0 else b""

    def close(self) -> None:
        """Close the files."""
        for fd in self._opened.values():
            if fd >= 0:
                os.close(fd)
        self._opened = {}


def top(counted: Iterable[tuple[str, int]], most: int) -> list[dict[str, Any]]:
    """Return the names with the highest counts, without entries that have none."""
    sums: dict[str, int] = {}
    for name, count in counted:
        if name:
            sums[name] = sums.get(name, 0) + count
    best = sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))[:most]
    return [{"name": name, "count": count} for name, count in best]


MOST_SCANNED = 1 << 28
"""Bytes that are scanned until a page is full."""

_COUNTING = 4  # once the page is full, counting goes on for one part in so many of these bytes
_OF_A_LINE = 10_000  # bytes that could be scanned in the time that a line takes to be checked


class _SearchedValues(msgspec.Struct):
    """The members of a line that a text is searched in, as they are in the log."""

    key: msgspec.Raw = msgspec.Raw()
    label: msgspec.Raw = msgspec.Raw()
    client: msgspec.Raw = msgspec.Raw()
    session: msgspec.Raw = msgspec.Raw()
    source: msgspec.Raw = msgspec.Raw()
    request: msgspec.Raw = msgspec.Raw()
    script: msgspec.Raw = msgspec.Raw()
    name: msgspec.Raw = msgspec.Raw()
    server: msgspec.Raw = msgspec.Raw()
    arguments: msgspec.Raw = msgspec.Raw()
    reason: msgspec.Raw = msgspec.Raw()


_values = msgspec.json.Decoder(_SearchedValues)


def needles_of(text: str) -> tuple[bytes, ...]:
    """Return a text as it may be in the log: escaped as in JSON, with small ASCII letters.

    Some clients escape all that is not ASCII.
    """
    usual = msgspec.json.encode(text)[1:-1].lower()
    return (usual,) if text.isascii() else (usual, json.dumps(text)[1:-1].lower().encode())


def line_holds(line: bytes, needles: tuple[bytes, ...]) -> bool:
    """Return whether one of an entry's values holds the text."""
    lowered = line.lower()
    if not any(needle in lowered for needle in needles):
        return False
    try:
        values = _values.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    held = [bytes(getattr(values, name)).lower() for name in values.__struct_fields__]
    return any(needle in value for value in held for needle in needles)


class TextScan:
    """Scans the log for one text, up to a number of bytes."""

    def __init__(self, reader: LineReader, needles: tuple[bytes, ...], most: int) -> None:
        self._reader, self._needles, self._most = reader, needles, most
        self._scanned = 0

    def spent(self, *, counting: bool) -> bool:
        """Return whether enough was scanned. ``counting``: what is still missing is only the total."""
        return self._scanned >= (self._most // _COUNTING if counting else self._most)

    def holds(self, first: int, place: int) -> bool:
        """Return whether the line at that place of a file holds the text."""
        return line_holds(self._reader.line(first, place), self._needles)

    def places(self, first: int, places: list[int]) -> set[int]:
        """Return which of the lines at these ascending places of a file hold the text."""
        end = places[-1] + len(self._reader.line(first, places[-1])) + 1
        part = self._reader.part(first, places[0], end)
        self._scanned += len(part)
        lowered = part.lower()
        found: set[int] = set()
        for needle in self._needles:
            found |= self._with_needle(needle, lowered, part, places)
        return found

    def _with_needle(self, needle: bytes, lowered: bytes, part: bytes, places: list[int]) -> set[int]:
        found: set[int] = set()
        at = lowered.find(needle)
        while at >= 0:
            number = bisect_right(places, places[0] + at) - 1
            begin = places[number] - places[0]
            self._scanned += _OF_A_LINE
            if line_holds(part[begin : part.find(b"\n", begin)], self._needles):
                found.add(places[number])
            if number + 1 == len(places):
                break
            at = lowered.find(needle, places[number + 1] - places[0])
        return found
