"""The index of the audit log: a database that is derived from the log's files, and caught up on demand.

Each entry is a row: seq, time, combination, and its place in a file. A combination is a set of equal
properties (type, holder, server, tool, outcome, …). Blocks count the combinations of each 4,096 entries,
so a query reads the rows of few blocks. The log itself holds the rest of an entry.

``index.db`` may be deleted: it is built again. ``usage.db`` beside it has the usage of days whose log is
gone (:mod:`tabane.audit.usage_rollups`). Each has its own mark in each file of the log, changed in the
transaction that adds what was read. If a crash leaves one mark behind the other, only that one reads on.

A query returns a page of entries, or counts of them. Blocks are read from the newest one. A block whose times
are all in the period gives its counts without its rows, so a total is exact and cheap, and pages that are
skipped cost nothing.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

from tabane.audit.entry import INDEX, USAGE, AuditEntry, decode_entry, entry_object
from tabane.audit.index_requests import EntryCounts, EntryFilter, EntryQuery
from tabane.audit.log_lines import (
    MOST_SCANNED,
    LineReader,
    LinesRead,
    LogFile,
    TextScan,
    log_files,
    needles_of,
    read_lines,
    timed_entry,
    top,
)
from tabane.audit.lookups import condition as lookup_condition
from tabane.audit.usage_rollups import KEPT_DAYS, UsageRollups, glob
from tabane.audit.usage_rollups import VERSION as USAGE_VERSION
from tabane.text.time_zones import zone_of

VERSION = 1
BLOCK_BITS = 12
"""A block has 2 ** 12 entries."""

_MOST_VALUES = 500  # in one statement of SQL
_MOST_KNOWN = 100_000  # combinations that are remembered
_QUARTER = 900_000  # ms: no time zone changes its offset within a quarter of an hour
_MOST_QUARTERS = 10_000

_SCHEMA = (
    "CREATE TABLE files (first INTEGER PRIMARY KEY, path TEXT NOT NULL, identity BLOB NOT NULL, "
    "bytes INTEGER NOT NULL)",
    "CREATE TABLE combos (id INTEGER PRIMARY KEY, type TEXT NOT NULL, key TEXT NOT NULL, "
    "label TEXT NOT NULL, client TEXT NOT NULL, face TEXT NOT NULL, kind TEXT NOT NULL, "
    "server TEXT NOT NULL, name TEXT NOT NULL, outcome TEXT NOT NULL, "
    "UNIQUE (name, outcome, key, server, client, face, label, type, kind))",
    "CREATE TABLE entries (seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, combo INTEGER NOT NULL, "
    "place INTEGER NOT NULL)",
    "CREATE TABLE blocks (block INTEGER NOT NULL, combo INTEGER NOT NULL, count INTEGER NOT NULL, "
    "earliest INTEGER NOT NULL, latest INTEGER NOT NULL, PRIMARY KEY (block, combo)) WITHOUT ROWID",
)

Combo = tuple[str, str, str, str, str, str, str, str, str]
_Row = tuple[int, int, int, int]


class AuditIndex:
    """The index of the log in ``folder``. One process uses it at a time.

    ``zone`` is the name of the time zone whose days usage is counted by. :meth:`close` it.
    """

    def __init__(self, folder: str, zone: str) -> None:
        self.folder, self.zone = folder, zone
        self._days = _Days(zone_of(zone))
        self.database = _open_databases(folder)
        self.rollups = UsageRollups(self.database)
        self._combos: dict[Combo, int] = {}
        self._inodes = _inodes(folder)
        self.behind = 0

    def close(self) -> None:
        """Close the databases."""
        self.database.close()

    @property
    def in_place(self) -> bool:
        """Whether its files are still there. They may be deleted at any time."""
        try:
            return _inodes(self.folder) == self._inodes
        except FileNotFoundError:
            return False

    @property
    def paths(self) -> dict[int, str]:
        """The path of each file that is indexed, by its first seq."""
        return dict(self.database.execute("SELECT first, path FROM files"))

    @property
    def last(self) -> int:
        """The seq of the newest entry."""
        return int(self.database.execute("SELECT ifnull(max(seq), 0) FROM entries").fetchone()[0])

    def catch_up(self, seconds: float) -> bool:
        """Read what was added to the log, for that long. Return whether all that was there is read.

        Then ``behind`` is 0, otherwise the number of bytes that are left.
        """
        deadline = time.monotonic() + seconds
        files = log_files(self.folder)
        self._drop_missing(files)
        marks = self._read_marks()
        self.behind = sum(file.size - self._mark_of(file, marks) for file in files)
        for file in files:
            begin = place = self._mark_of(file, marks)
            with contextlib.suppress(FileNotFoundError):
                for read in read_lines(file, place):
                    self._take_lines(file, read, marks.get(file.first, (b"", 0))[1])
                    self.behind -= read.end - place
                    place = read.end
                    if time.monotonic() > deadline:
                        return False
            self.behind -= file.size - begin - (place - begin)
        return True

    # -- inside ----------------------------------------------------------------------------------

    def _read_marks(self) -> dict[int, tuple[bytes, int]]:
        rows = self.database.execute("SELECT first, identity, bytes FROM files")
        return {first: (identity, end) for first, identity, end in rows}

    def _mark_of(self, file: LogFile, marks: dict[int, tuple[bytes, int]]) -> int:
        """Return the place in a file up to which both databases have it."""
        indexed = marks.get(file.first, (b"", 0))[1]
        return min(indexed, self.rollups.counted(file.identity), file.size)

    def _drop_missing(self, files: list[LogFile]) -> None:
        """Drop the entries of files that are gone, or everything if files were replaced or came back."""
        there = {file.first: file for file in files}
        marks = self._read_marks()
        changed = any(
            first in there and (there[first].identity != identity or there[first].size < end)
            for first, (identity, end) in marks.items()
        )
        returned = bool(marks) and any(first < max(marks) and first not in marks for first in there)
        gone = [first for first in marks if first not in there]
        if changed or returned:
            with self._transaction():
                for table in ("files", "entries", "blocks", "combos"):
                    self.database.execute(f"DELETE FROM {table}")
        elif gone:
            with self._transaction():
                self._drop_files(gone, sorted(marks))

    def _drop_files(self, gone: list[int], known: list[int]) -> None:
        execute = self.database.execute
        for first in gone:
            later = [other for other in known if other > first]
            end = min(later) if later else sys.maxsize
            execute("DELETE FROM entries WHERE seq >= ? AND seq < ?", (first, end))
            execute("DELETE FROM files WHERE first = ?", (first,))
            blocks = (first >> BLOCK_BITS, end - 1 >> BLOCK_BITS)
            execute("DELETE FROM blocks WHERE block BETWEEN ? AND ?", blocks)
            for block in set(blocks):
                execute(
                    "INSERT OR REPLACE INTO blocks SELECT ?, combo, count(*), min(time), max(time) "
                    "FROM entries WHERE seq >= ? AND seq < ? GROUP BY combo",
                    (block, block << BLOCK_BITS, min(block + 1 << BLOCK_BITS, sys.maxsize)),
                )
        execute("DELETE FROM combos WHERE id NOT IN (SELECT combo FROM blocks)")
        self._combos = {}
        self.rollups.keep_days(KEPT_DAYS)

    def _take_lines(self, file: LogFile, read: LinesRead, indexed: int) -> None:
        """Add lines to both databases, to each only those that it does not have yet."""
        counted = self.rollups.counted(file.identity)
        with self._transaction():
            last, rows, place = self.last, [], read.begin
            for line in read.lines:
                found = timed_entry(line)
                if found is not None:
                    entry, moment = found
                    if place >= counted:
                        self.rollups.add(entry, self._days.day(moment))
                    if place >= indexed and entry.seq > last:
                        last = entry.seq
                        rows.append((last, moment, self._combo_number(entry), place))
                place += len(line) + 1
            if read.end > indexed:
                self._insert_rows(rows)
                self.database.execute(
                    "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)",
                    (file.first, file.path, file.identity, read.end),
                )
            if read.end > counted:
                self.rollups.write(file.identity, read.end)

    def _insert_rows(self, rows: list[_Row]) -> None:
        blocks: dict[tuple[int, int], list[int]] = {}
        for seq, moment, combo, _ in rows:
            key = (seq >> BLOCK_BITS, combo)
            known = blocks.get(key)
            if known is None:
                blocks[key] = [1, moment, moment]
            else:
                known[0] += 1
                known[1], known[2] = min(known[1], moment), max(known[2], moment)
        self.database.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", rows)
        self.database.executemany(
            "INSERT INTO blocks VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "count = count + excluded.count, earliest = min(earliest, excluded.earliest), "
            "latest = max(latest, excluded.latest)",
            [(*key, *value) for key, value in blocks.items()],
        )

    def _combo_number(self, entry: AuditEntry) -> int:
        combo = (
            entry.type, entry.key, entry.label, entry.client, entry.face, entry.kind, entry.server,
            entry.name, entry.outcome,
        )  # fmt: skip
        number = self._combos.get(combo)
        if number is None:
            if len(self._combos) >= _MOST_KNOWN:
                self._combos.clear()
            row = self.database.execute(
                "SELECT id FROM combos WHERE type = ? AND key = ? AND label = ? AND client = ? AND face = ? "
                "AND kind = ? AND server = ? AND name = ? AND outcome = ?",
                combo,
            ).fetchone()
            number = (
                row[0]
                if row
                else self.database.execute(
                    "INSERT INTO combos VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)", combo
                ).lastrowid
            )
            assert number is not None
            self._combos[combo] = number
        return number

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit what the block writes, or nothing of it."""
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.database.execute("COMMIT")
        except BaseException:
            self.database.rollback()
            self._combos = {}
            self.rollups.forget_pending()
            raise


class _Days:
    """The day of a time in a zone, as an ISO date."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._known: dict[int, str] = {}

    def day(self, moment: int) -> str:
        quarter = moment // _QUARTER
        day = self._known.get(quarter)
        if day is None:
            if len(self._known) >= _MOST_QUARTERS:
                self._known.clear()
            try:
                day = datetime.fromtimestamp(quarter * _QUARTER / 1000, self._zone).date().isoformat()
            except (ValueError, OverflowError, OSError):
                day = "1970-01-01"
            self._known[quarter] = day
        return day


# -- files ---------------------------------------------------------------------------------------


def _inodes(folder: str) -> list[int]:
    return [os.stat(os.path.join(folder, name)).st_ino for name in (INDEX, USAGE)]


def _open_databases(folder: str) -> sqlite3.Connection:
    """Open both databases; one that is damaged, or of another version of the index, is replaced."""
    index, usage = os.path.join(folder, INDEX), os.path.join(folder, USAGE)
    _check_database(usage, USAGE_VERSION, _set_aside)
    _check_database(index, VERSION, _remove_database)
    for path in (index, usage):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    database = sqlite3.connect(index, isolation_level=None, timeout=10.0, cached_statements=256)
    database.execute("ATTACH ? AS usage", (usage,))
    for name, version in (("main", VERSION), ("usage", USAGE_VERSION)):
        database.execute(f"PRAGMA {name}.journal_mode = WAL")
        database.execute(f"PRAGMA {name}.synchronous = NORMAL")
        database.execute(f"PRAGMA {name}.user_version = {version}")
    if not database.execute("SELECT 1 FROM main.sqlite_schema LIMIT 1").fetchone():
        database.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            database.execute(statement)
        database.execute("COMMIT")
    return database


def _check_database(path: str, version: int, replace: Callable[[str], None]) -> None:
    """Call ``replace`` if the database at ``path`` cannot be used."""
    if not os.path.exists(path):
        return
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=10.0)) as database:
            (found,) = database.execute("PRAGMA user_version").fetchone()
            database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        usable = found in (0, version)
    except sqlite3.DatabaseError:
        usable = False
    if not usable:
        replace(path)


def repair(folder: str) -> None:
    """Remove the index after it was found damaged, so that it is built again; keep usage if it is whole."""
    usage = os.path.join(folder, USAGE)
    with contextlib.suppress(sqlite3.DatabaseError), contextlib.closing(sqlite3.connect(usage)) as database:
        if database.execute("PRAGMA quick_check(1)").fetchone() == ("ok",):
            usage = ""
    if usage:
        _set_aside(usage)
    _remove_database(os.path.join(folder, INDEX))


def _remove_database(path: str) -> None:
    for name in (path, path + "-wal", path + "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _set_aside(path: str) -> None:
    """Keep a database that cannot be used beside the new one: it may be of a newer version."""
    os.replace(path, f"{path}.unusable-{int(time.time())}")
    _remove_database(path)


_END = 1 << 62
_OF_COMBOS = ("type", "outcome", "server", "name", "key", "client", "face")


class _Block(NamedTuple):
    """Matching entries of a block: how many, and whether all of them are in the period."""

    number: int
    entries: int
    whole: bool


class FoundEntry(NamedTuple):
    """A row of the index."""

    seq: int
    place: int


class EntrySearch:
    """One filter, applied to the index as it is now. Use it as a context manager."""

    def __init__(self, index: AuditIndex, wanted: EntryFilter, *, most_scanned: int = MOST_SCANNED) -> None:
        self._database = index.database
        self._filter = wanted
        self._start = -_END if wanted.start is None else wanted.start
        self._end = _END if wanted.end is None else wanted.end
        self._firsts = sorted(index.paths)
        self._reader = LineReader(index.paths)
        self._scan = TextScan(self._reader, needles_of(wanted.text), most_scanned) if wanted.text else None
        self._matched = _match_combos(self._database, wanted)

    def __enter__(self) -> EntrySearch:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    # -- answers ---------------------------------------------------------------------------------

    def page(self, query: EntryQuery) -> dict[str, Any]:
        """Return the entries of a page, how many match in all, and where the next page begins.

        ``exact`` is False if ``total`` counts only a part, because a text was searched in many entries.
        """
        blocks = list(self._matching_blocks())
        if query.seq is not None:
            one = [row for row in self._older_rows(blocks, query.seq + 1, 0, 1) if row.seq == query.seq]
            results = self._read_entries(one)
            return {"results": results, "total": len(results), "exact": True, "before": None}
        if query.after is not None:
            found = self._newer_rows(blocks, query)
            return {"results": self._read_entries(found), "total": None, "exact": False, "before": None}
        if self._scan is not None:
            return self._page_with_text(blocks, query)
        rows = list(self._older_rows(blocks, query.before or _END, query.offset, query.limit + 1))
        more = len(rows) > query.limit
        rows = rows[: query.limit]
        total = sum(block.entries if block.whole else self._count_rows(block) for block in blocks)
        before = rows[-1].seq if more else None
        return {"results": self._read_entries(rows), "total": total, "exact": True, "before": before}

    def counts(self, query: EntryCounts) -> dict[str, Any]:
        """Return how many entries match, in all and by property, and the times of the first and last one."""
        found = self._combo_counts()
        answer: dict[str, Any] = {"total": sum(count for _, count in found)}
        for place, name in enumerate(_OF_COMBOS):
            answer[f"by_{name}"] = top(((row[place], count) for row, count in found), query.top)
        earliest, latest = self._period_of_rows()
        return answer | {"earliest": earliest, "latest": latest}

    # -- blocks ----------------------------------------------------------------------------------

    def _matching_blocks(self) -> Iterator[_Block]:
        """Yield the blocks that may have matching entries, newest first."""
        rows = self._database.execute(
            "SELECT block, sum(count), min(earliest), max(latest) FROM blocks "
            f"WHERE earliest <= ? AND latest >= ?{self._combo_condition()} "
            "GROUP BY block ORDER BY block DESC",
            (self._end, self._start),
        )
        for number, count, earliest, latest in rows:
            yield _Block(number, count, self._start <= earliest and latest <= self._end)

    def _combo_condition(self) -> str:
        return " AND combo IN (SELECT id FROM temp.matched)" if self._matched else ""

    def _count_rows(self, block: _Block) -> int:
        return int(self._select_rows("count(*)", block, "").fetchone()[0])

    def _select_rows(
        self, what: str, block: _Block, order: str, begin: int = 0, end: int = _END
    ) -> sqlite3.Cursor:
        low = max(block.number << BLOCK_BITS, begin)
        high = min(block.number + 1 << BLOCK_BITS, end)
        return self._database.execute(
            f"SELECT {what} FROM entries WHERE seq >= ? AND seq < ? AND time BETWEEN ? AND ?"
            f"{self._combo_condition()} {order}",
            (low, high, self._start, self._end),
        )

    def _older_rows(
        self, blocks: Iterable[_Block], before: int, skip: int, limit: int
    ) -> Iterator[FoundEntry]:
        """Yield matching rows from the newest one, only those before a seq, without the first ``skip``."""
        for block in blocks:
            if limit <= 0 or block.number << BLOCK_BITS >= before:
                if limit <= 0:
                    return
                continue
            inside = block.whole and block.number + 1 << BLOCK_BITS <= before
            if inside and skip >= block.entries:
                skip -= block.entries
                continue
            rows = self._select_rows("seq, place", block, "ORDER BY seq DESC", end=before).fetchall()
            taken = rows[skip : skip + limit]
            skip = max(0, skip - len(rows))
            limit -= len(taken)
            yield from (FoundEntry(*row) for row in taken)

    def _newer_rows(self, blocks: list[_Block], query: EntryQuery) -> list[FoundEntry]:
        assert query.after is not None
        found: list[FoundEntry] = []
        for block in reversed(blocks):
            if block.number + 1 << BLOCK_BITS <= query.after + 1:
                continue
            cursor = self._select_rows("seq, place", block, "ORDER BY seq", begin=query.after + 1)
            rows = [FoundEntry(*row) for row in cursor]
            if self._scan is not None:
                rows = [row for row in rows if self._scan.holds(self._first_of(row.seq), row.place)]
            found += rows
            if len(found) >= query.limit:
                break
        return found[: query.limit]

    # -- texts -----------------------------------------------------------------------------------

    def _page_with_text(self, blocks: list[_Block], query: EntryQuery) -> dict[str, Any]:
        """Scan from the newest entry on; once the page is full, only to count, and for a part of the bytes.

        Later pages are not counted.
        """
        assert self._scan is not None
        before = query.before or _END
        wanted = query.offset + query.limit + 1
        found: list[FoundEntry] = []
        exact, reached = True, 0
        for block in blocks:
            full = len(found) >= wanted
            if self._scan.spent(counting=full) or (full and query.before):
                exact, reached = False, block.number + 1 << BLOCK_BITS
                break
            if block.number << BLOCK_BITS < before:
                found += self._rows_with_text(block, before)
        shown = found[query.offset : query.offset + query.limit]
        if len(found) >= wanted:
            reached = shown[-1].seq
        total = None if query.before else len(found)
        return {
            "results": self._read_entries(shown), "total": total, "exact": exact and total is not None,
            "before": reached or None,
        }  # fmt: skip

    def _rows_with_text(self, block: _Block, before: int) -> list[FoundEntry]:
        """Return the matching entries of a block that hold the text, newest first."""
        assert self._scan is not None
        cursor = self._select_rows("seq, place", block, "ORDER BY seq", end=before)
        rows = [FoundEntry(*row) for row in cursor]
        found: list[FoundEntry] = []
        parts: dict[int, list[FoundEntry]] = {}
        for row in rows:
            parts.setdefault(self._first_of(row.seq), []).append(row)
        for first, part in parts.items():
            places = self._scan.places(first, [row.place for row in part])
            found += [row for row in part if row.place in places]
        return found[::-1]

    # -- rows ------------------------------------------------------------------------------------

    def _first_of(self, seq: int) -> int:
        """Return the first seq of the file that an entry is in."""
        return self._firsts[bisect_right(self._firsts, seq) - 1]

    def _read_entries(self, rows: Iterable[FoundEntry]) -> list[dict[str, Any]]:
        """Read entries from the log. One whose file was removed meanwhile is left out."""
        found = []
        for row in rows:
            line = self._reader.line(self._first_of(row.seq), row.place)
            try:
                entry = decode_entry(line)
            except ValueError:
                continue
            if entry.seq == row.seq:
                found.append(entry_object(entry))
        return found

    def _combo_counts(self) -> list[tuple[tuple[str, ...], int]]:
        blocks = list(self._matching_blocks())
        counts: dict[int, int] = {}
        whole = [block.number for block in blocks if block.whole]
        for begin in range(0, len(whole), _MOST_VALUES):
            part = whole[begin : begin + _MOST_VALUES]
            marks = ", ".join("?" * len(part))
            rows = self._database.execute(
                f"SELECT combo, sum(count) FROM blocks WHERE block IN ({marks}) "
                f"AND earliest <= ? AND latest >= ?{self._combo_condition()} GROUP BY combo",
                (*part, self._end, self._start),
            )
            _add_counts(counts, rows)
        for block in blocks:
            if not block.whole:
                _add_counts(counts, self._select_rows("combo, count(*)", block, "GROUP BY combo"))
        columns = ", ".join(_OF_COMBOS)
        combos = self._database.execute(f"SELECT id, {columns} FROM combos")
        return [(row[1:], counts[row[0]]) for row in combos if row[0] in counts]

    def _period_of_rows(self) -> tuple[int | None, int | None]:
        """Return the times of the oldest and the newest matching entry, in milliseconds since 1970."""
        blocks = list(self._matching_blocks())
        times = [
            next(iter(self._select_rows("time", block, f"ORDER BY seq {order} LIMIT 1")), None)
            for some, order in ((blocks[::-1], "ASC"), (blocks, "DESC"))
            for block in next(([block] for block in some if block.whole or self._count_rows(block)), [])
        ]
        return (times[0][0], times[1][0]) if len(times) == 2 and times[0] and times[1] else (None, None)


def _match_combos(database: sqlite3.Connection, wanted: EntryFilter) -> bool:
    """Put the ids of matching combinations into ``temp.matched``. Return False if all match."""
    parts: list[str] = []
    values: list[str] = []
    for condition, given in (
        ("type = ?", (wanted.type,)),
        ("client GLOB ?", (glob(wanted.client),)),
        ("server GLOB ?", (glob(wanted.server),)),
        ("type = 'call' AND name GLOB ?", (glob(wanted.tool),)),
        ("name GLOB ?", (glob(wanted.action),)),
        ("(key GLOB ? OR label GLOB ?)", (glob(wanted.key),) * 2),
        ("(key GLOB ? OR label GLOB ?)", (glob(wanted.actor),) * 2),
        (f"outcome IN ({', '.join('?' * len(wanted.outcomes))})", wanted.outcomes),
    ):
        if given and (given[0] or given is wanted.outcomes):
            parts.append(condition)
            values += given
    hidden, names = lookup_condition(
        wanted.lookups, "name", "type = 'call' AND server = '' AND outcome = 'ok'", "?"
    )
    if hidden:
        parts.append(hidden)
        values += names
    if not parts:
        return False
    database.execute("CREATE TEMP TABLE IF NOT EXISTS matched (id INTEGER PRIMARY KEY)")
    database.execute("DELETE FROM temp.matched")
    database.execute(f"INSERT INTO temp.matched SELECT id FROM combos WHERE {' AND '.join(parts)}", values)
    return True


def _add_counts(counts: dict[int, int], rows: Iterable[tuple[int, int]]) -> None:
    for combo, count in rows:
        counts[combo] = counts.get(combo, 0) + count
