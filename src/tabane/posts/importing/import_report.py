"""Reports of an import: counts, rows that could not be used, and the ids of posts."""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from tabane.messages import Lang, Message

LARGEST = 2**63 - 1  # ids are positive, and int64 in the files of vectors

_GOLDEN = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: spreads ids that follow each other (Knuth, 6.4)
_SMALLEST = 1024


def post_id(text: str) -> int | None:
    """Parse a post id. Return None if the text is not one."""
    if not (0 < len(text) <= 19 and text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if 0 < number <= LARGEST else None


class PostIdTable:
    """Post ids with an integer each, in about twenty bytes a post. A dict needs five times as much.

    ``typecode`` is that of the array, and limits the numbers. One thread may write while others read: they
    see the state before or after the write.
    """

    def __init__(self, typecode: str = "Q") -> None:
        self._typecode = typecode
        self._count = 0
        self._table = self._allocate(_SMALLEST)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, post: int) -> bool:
        keys = self._table[0]
        return keys[_slot(keys, post)] != 0

    def __iter__(self) -> Iterator[int]:
        return (key for key in self._table[0] if key)

    def get(self, post: int, default: int) -> int:
        """Return the number of an id, or the default if it has none."""
        keys, values = self._table
        slot = _slot(keys, post)
        return values[slot] if keys[slot] else default

    def __setitem__(self, post: int, value: int) -> None:
        keys, values = self._table
        slot = _slot(keys, post)
        values[slot] = value
        if not keys[slot]:
            keys[slot] = post
            self._count += 1
            if self._count * 8 > len(keys) * 5:
                keys, values = self._allocate(2 * len(keys))
                for key, number in zip(*self._table, strict=True):
                    if key:
                        slot = _slot(keys, key)
                        keys[slot], values[slot] = key, number
                self._table = keys, values

    def _allocate(self, slots: int) -> tuple[array[int], array[int]]:
        values = array(self._typecode)
        return array("Q", bytes(8 * slots)), array(self._typecode, bytes(values.itemsize * slots))


def _slot(keys: array[int], post: int) -> int:
    """Return the slot of the id, or the slot for it. The number of slots is a power of two; some are free."""
    mask = len(keys) - 1
    slot = (post * _GOLDEN >> 24) & mask
    while keys[slot] and keys[slot] != post:
        slot = (slot + 1) & mask
    return slot


MOST_SHOWN = 1000
MOST_WRITTEN = 1_000_000  # lines of a report file


class UnusableRow(ValueError):
    """A row, line or file that cannot be used. ``reason`` says why."""

    def __init__(self, reason: Message, post_id: int = 0) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.post_id = post_id


class RejectedRow(NamedTuple):
    """A row that could not be used. ``line`` is 0 for the whole file.

    ``post_id`` is 0 if the id could not be read either.
    """

    source: str
    line: int
    reason: Message
    post_id: int = 0

    def plain(self, lang: Lang) -> dict[str, Any]:
        """Return the row as JSON, with its reason in that language."""
        row: dict[str, Any] = {"file": self.source, "line": self.line, "reason": self.reason.render(lang)}
        return {**row, "post_id": str(self.post_id)} if self.post_id else row


class SourceCounts(msgspec.Struct):
    """Counts of one source. ``read`` are its usable rows, ``duplicates`` included.

    ``unknown`` are ids of results or vectors that no post has.
    """

    source: str
    kind: str
    read: int = 0
    duplicates: int = 0
    bad: int = 0
    unknown: int = 0


class PostsImportReport:
    """The result of an import, updated while it runs. ``path`` is the file that lists unusable rows, if any.

    Each post in the sources counts once, as new, changed or unchanged. ``vectors`` is how many were written.
    ``whole`` is False if a source could not be read to its end. Then nothing is removed.
    """

    def __init__(self, path: str | None = None, lang: Lang = "en") -> None:
        self.path = path
        self.new = self.changed = self.unchanged = self.removed = self.vectors = 0
        self.seconds = 0.0
        self.whole = True
        self.sources: list[SourceCounts] = []
        self.bad_rows: list[RejectedRow] = []
        self.bad = 0
        self._lang = lang
        self._unwritten: list[RejectedRow] = []
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def duplicates(self) -> int:
        """Return how many rows repeat an earlier one, in all sources."""
        return sum(each.duplicates for each in self.sources)

    def source(self, name: str, kind: str) -> SourceCounts:
        """Add a source, and return its counts."""
        self.sources.append(SourceCounts(name, kind))
        return self.sources[-1]

    def add(self, bad: RejectedRow, counts: SourceCounts) -> None:
        """Add an unusable row of a source. Any thread may call it."""
        with self._lock:
            self.bad += 1
            counts.bad += 1
            if len(self.bad_rows) < MOST_SHOWN:
                self.bad_rows.append(bad)
            if self.path is not None and self.bad <= MOST_WRITTEN:
                self._unwritten.append(bad)

    def count_vectors(self, number: int) -> None:
        """Add to the count of written vectors. A negative number corrects it for invalid vectors."""
        with self._lock:
            self.vectors += number

    def write(self) -> None:
        """Append new rows to the file, one JSON object a line. Blocks; raises OSError."""
        if self.path is None:
            return
        if self._file is None:
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            # The rows come from a private archive, so only the owner may read the file.
            opened = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            self._file = os.fdopen(opened, "wb")
        with self._lock:
            waiting, self._unwritten = self._unwritten, []
        self._file.writelines(msgspec.json.encode(bad.plain(self._lang)) + b"\n" for bad in waiting)
        self._file.flush()

    def close(self) -> None:
        """Write the rest and, as the last line, the counts. Works once. Blocks; raises OSError."""
        closed, self._closed = self._closed, True
        if self.path is not None and not closed:
            self.write()
            assert self._file is not None
            with self._file as file:
                file.write(msgspec.json.encode({"summary": self.plain(self._lang, rows=False)}) + b"\n")
            self._file = None

    def plain(self, lang: Lang, *, rows: bool = True) -> dict[str, Any]:
        """Return the report as JSON, with reasons in that language."""
        report: dict[str, Any] = {
            "new": self.new,
            "changed": self.changed,
            "unchanged": self.unchanged,
            "removed": self.removed,
            "duplicates": self.duplicates,
            "bad": self.bad,
            "vectors": self.vectors,
            "whole": self.whole,
            "seconds": round(self.seconds, 1),
            "sources": [msgspec.to_builtins(each) for each in self.sources],
            "report": self.path,
        }
        return {**report, "bad_rows": [bad.plain(lang) for bad in self.bad_rows]} if rows else report


_LEVEL = 3


class PostOutcome(IntEnum):
    """The outcome for a post, stored above the two bits of its level."""

    NEW = 4
    CHANGED = 8
    UNCHANGED = 12


class PostOutcomes:
    """The posts that were seen. ``ids`` are all of them, including posts without a row."""

    def __init__(self, report: PostsImportReport) -> None:
        self.ids = PostIdTable("B")
        self._report = report

    def level(self, post: int) -> int:
        """Return the largest log_type of the post's rows so far, 0 before the first."""
        return self.ids.get(post, 0) & _LEVEL

    def give(self, post: int, log_type: int) -> None:
        """Record a row of the post with that log_type."""
        state = self.ids.get(post, 0)
        self.ids[post] = state & ~_LEVEL | max(state & _LEVEL, log_type)

    def count(self, post: int, outcome: PostOutcome) -> None:
        """Count an outcome. A new or changed post stays so, even if a later row does not change it."""
        state = self.ids.get(post, 0)
        before = state & ~_LEVEL
        if before in (0, PostOutcome.UNCHANGED) and before != outcome:
            self._report.unchanged += (outcome is PostOutcome.UNCHANGED) - (before == PostOutcome.UNCHANGED)
            self._report.changed += outcome is PostOutcome.CHANGED
            self._report.new += outcome is PostOutcome.NEW
            self.ids[post] = state & _LEVEL | outcome

    def remove(self, post: int) -> None:
        """Count a removed post. It had no row, but may have had results or vectors."""
        state = self.ids.get(post, 0)
        self._report.unchanged -= state == PostOutcome.UNCHANGED
        self._report.changed -= state == PostOutcome.CHANGED
        self._report.removed += 1
