"""Entries that are added to the audit log, read from its files as they grow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

import msgspec

from tabane.audit.conditions import filter_of, matches
from tabane.audit.entry import audit_files, decode_entry, entry_object
from tabane.audit.parameters import QueryAuditLogs

_POLL = 0.2
_CHUNK = 1 << 20


class EntryFollower:
    """Follows the log in ``folder`` from its end on, as it is now."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        files = audit_files(folder)
        self._first = files[-1].first if files else 0
        self._place = _end_of(files[-1].path) if files else 0

    def entries(self, params: Mapping[str, Any], newest: int) -> Iterator[dict[str, Any]]:
        """Yield matching entries with a seq greater than ``newest``, without end."""
        given = msgspec.convert({**params, "start": None, "end": None, "cursor": None}, QueryAuditLogs)
        wanted = filter_of(given, UTC, time.time())
        while True:
            lines = self._lines()
            for line in lines:
                try:
                    entry = decode_entry(line)
                except ValueError:
                    continue
                if entry.seq > newest and matches(wanted, entry, line):
                    yield entry_object(entry)
            if not lines:
                time.sleep(_POLL)

    def _lines(self) -> list[bytes]:
        """Return the next whole lines; none if nothing was added."""
        files = [file for file in audit_files(self._folder) if file.first >= self._first]
        for file in files:
            if file.first != self._first:
                self._first, self._place = file.first, 0
            try:
                with open(file.path, "rb") as opened:
                    opened.seek(self._place)
                    chunk = opened.read(_CHUNK)
            except FileNotFoundError:
                continue
            end = chunk.rfind(b"\n") + 1
            if end:
                self._place += end
                return chunk[: end - 1].split(b"\n")
        return []


def _end_of(path: str) -> int:
    """Return the place after the last whole line."""
    with open(path, "rb") as opened:
        size = opened.seek(0, 2)
        begin = max(0, size - _CHUNK)
        opened.seek(begin)
        return begin + opened.read(size - begin).rfind(b"\n") + 1
