"""A folder with files of an audit log, written without a hub, and what a reader of all lines knows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from tabane.audit.entry import AuditEntry, EntryType, file_name
from tabane.audit.index import AuditIndex
from tabane.audit.index_requests import EntryFilter, IndexTask
from tabane.audit.index_worker import perform

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
Json = dict[str, Any]


def at(seconds: float) -> str:
    """The time that long after the beginning, as the log has it."""
    return (BEGIN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:23] + "Z"


def milliseconds(seconds: float) -> int:
    return round((BEGIN.timestamp() + seconds) * 1000)


def call(seq: int, seconds: float = 0.0, **given: Any) -> AuditEntry:
    """An entry for a call, unless ``type`` is given."""
    type: EntryType = given.pop("type", "call")
    arguments = msgspec.Raw(given.pop("arguments", b"{}"))
    usual: Json = {
        "key": "local", "client": "test", "face": "mcp", "kind": "tool", "name": "time__now",
        "server": "time", "outcome": "ok", "ms": 1.0, "mac": "0" * 64,
    }  # fmt: skip
    return AuditEntry(seq, at(seconds), type, arguments=arguments, **{**usual, **given})


class LogFolder:
    """The folder. Files are begun, appended to and removed as the log does it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.mkdir(exist_ok=True)
        self.seq = 0
        self.lines: list[bytes] = []
        self._file: Path | None = None

    def write(self, *entries: AuditEntry | bytes) -> None:
        """Append entries, or lines that are none."""
        for entry in entries:
            line = entry if isinstance(entry, bytes) else msgspec.json.encode(entry)
            if isinstance(entry, AuditEntry):
                self.seq = entry.seq
                self.lines.append(line)
            self.write_raw(line + b"\n")

    def write_raw(self, data: bytes) -> None:
        if self._file is None:
            self._file = self.path / file_name(self.seq)
        with self._file.open("ab") as file:
            file.write(data)

    @property
    def begun(self) -> bool:
        """Whether the newest file has entries."""
        return self._file is not None

    def rotate(self) -> None:
        """Let the next entry begin a file."""
        self._file = None

    def remove_oldest(self) -> None:
        files = sorted(self.path.glob("*.jsonl"))
        if len(files) > 1:
            gone = set(files[0].read_bytes().split(b"\n"))
            self.lines = [line for line in self.lines if line not in gone]
            files[0].unlink()

    def scan(self, wanted: EntryFilter) -> list[Json]:
        """All matching entries, newest first, found by reading every line."""
        found = [msgspec.json.decode(line) for line in self.lines if matches(wanted, line)]
        return [
            {name: value for name, value in entry.items() if name == "arguments" or (value and name != "mac")}
            for entry in reversed(found)
        ]


def matches(wanted: EntryFilter, line: bytes) -> bool:
    """Whether a line matches, decided in the plainest way."""
    entry = msgspec.json.decode(line)
    moment = round(datetime.fromisoformat(entry["time"]).timestamp() * 1000)
    holders = [entry.get("key", ""), entry.get("label", "")]
    name = entry.get("name", "")
    values = [value for key, value in entry.items() if key not in ("seq", "time", "type", "mac", "ms")]
    return all((
        wanted.start is None or moment >= wanted.start,
        wanted.end is None or moment <= wanted.end,
        not wanted.type or entry["type"] == wanted.type,
        not wanted.outcomes or entry.get("outcome", "") in wanted.outcomes,
        fits(wanted.key, holders),
        fits(wanted.actor, holders),
        fits(wanted.client, [entry.get("client", "")]),
        fits(wanted.server, [entry.get("server", "")]),
        fits(wanted.action, [name]),
        fits(wanted.tool, [name]) and (not wanted.tool or entry["type"] == "call"),
        not wanted.text or any(wanted.text.lower() in str(value).lower() for value in values),
    ))  # fmt: skip


def fits(pattern: str, names: Iterable[str]) -> bool:
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))
    return not pattern or any(re.fullmatch(expression, name, re.DOTALL) for name in names)


def caught_up(folder: LogFolder, zone: str = "UTC") -> AuditIndex:
    """The index of a folder, as it is after all was read."""
    index = AuditIndex(str(folder.path), zone)
    assert index.catch_up(60)
    return index


def answer(folder: LogFolder, task: IndexTask, zone: str = "UTC") -> Any:
    """What a fresh process answers."""
    index = caught_up(folder, zone)
    try:
        return msgspec.json.decode(msgspec.json.encode(perform(index, task)))
    finally:
        index.close()
