"""Queries on the index of the audit log: pages of entries, and counts of them.

Blocks are read from the newest one. A block whose times are all in the period gives its counts without its
rows, so a total is exact and cheap, and pages that are skipped cost nothing.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tabane.audit.counted_names import top
from tabane.audit.entry import decode_entry, entry_object
from tabane.audit.index import BLOCK_BITS, AuditIndex
from tabane.audit.index_requests import EntryCounts, EntryFilter, EntryQuery
from tabane.audit.log_lines import LineReader
from tabane.audit.text_scan import MOST_SCANNED, TextScan, needles_of
from tabane.audit.usage_rollups import glob

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
        self._matched = _match(self._database, wanted)

    def __enter__(self) -> EntrySearch:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    # -- answers ---------------------------------------------------------------------------------

    def page(self, query: EntryQuery) -> dict[str, Any]:
        """Return the entries of a page, how many match in all, and where the next page begins.

        ``exact`` is False if ``total`` counts only a part, because a text was searched in many entries.
        """
        blocks = list(self._blocks())
        if query.seq is not None:
            one = [row for row in self._older(blocks, query.seq + 1, 0, 1) if row.seq == query.seq]
            results = self._entries(one)
            return {"results": results, "total": len(results), "exact": True, "before": None}
        if query.after is not None:
            found = self._newer(blocks, query)
            return {"results": self._entries(found), "total": None, "exact": False, "before": None}
        if self._scan is not None:
            return self._page_with_text(blocks, query)
        rows = list(self._older(blocks, query.before or _END, query.offset, query.limit + 1))
        more = len(rows) > query.limit
        rows = rows[: query.limit]
        total = sum(block.entries if block.whole else self._count(block) for block in blocks)
        before = rows[-1].seq if more else None
        return {"results": self._entries(rows), "total": total, "exact": True, "before": before}

    def counts(self, query: EntryCounts) -> dict[str, Any]:
        """Return how many entries match, in all and by property, and the times of the first and last one."""
        found = self._combo_counts()
        answer: dict[str, Any] = {"total": sum(count for _, count in found)}
        for place, name in enumerate(_OF_COMBOS):
            answer[f"by_{name}"] = top(((row[place], count) for row, count in found), query.top)
        earliest, latest = self._period()
        return answer | {"earliest": earliest, "latest": latest}

    # -- blocks ----------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[_Block]:
        """Yield the blocks that may have matching entries, newest first."""
        rows = self._database.execute(
            "SELECT block, sum(count), min(earliest), max(latest) FROM blocks "
            f"WHERE earliest <= ? AND latest >= ?{self._in()} GROUP BY block ORDER BY block DESC",
            (self._end, self._start),
        )
        for number, count, earliest, latest in rows:
            yield _Block(number, count, self._start <= earliest and latest <= self._end)

    def _in(self) -> str:
        return " AND combo IN (SELECT id FROM temp.matched)" if self._matched else ""

    def _count(self, block: _Block) -> int:
        return int(self._select("count(*)", block, "").fetchone()[0])

    def _select(
        self, what: str, block: _Block, order: str, begin: int = 0, end: int = _END
    ) -> sqlite3.Cursor:
        low = max(block.number << BLOCK_BITS, begin)
        high = min(block.number + 1 << BLOCK_BITS, end)
        return self._database.execute(
            f"SELECT {what} FROM entries WHERE seq >= ? AND seq < ? AND time BETWEEN ? AND ?{self._in()} "
            + order,
            (low, high, self._start, self._end),
        )

    def _older(self, blocks: Iterable[_Block], before: int, skip: int, limit: int) -> Iterator[FoundEntry]:
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
            rows = self._select("seq, place", block, "ORDER BY seq DESC", end=before).fetchall()
            taken = rows[skip : skip + limit]
            skip = max(0, skip - len(rows))
            limit -= len(taken)
            yield from (FoundEntry(*row) for row in taken)

    def _newer(self, blocks: list[_Block], query: EntryQuery) -> list[FoundEntry]:
        assert query.after is not None
        found: list[FoundEntry] = []
        for block in reversed(blocks):
            if block.number + 1 << BLOCK_BITS <= query.after + 1:
                continue
            cursor = self._select("seq, place", block, "ORDER BY seq", begin=query.after + 1)
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
                found += self._holding(block, before)
        shown = found[query.offset : query.offset + query.limit]
        if len(found) >= wanted:
            reached = shown[-1].seq
        total = None if query.before else len(found)
        return {
            "results": self._entries(shown), "total": total, "exact": exact and total is not None,
            "before": reached or None,
        }  # fmt: skip

    def _holding(self, block: _Block, before: int) -> list[FoundEntry]:
        """Return the matching entries of a block that hold the text, newest first."""
        assert self._scan is not None
        cursor = self._select("seq, place", block, "ORDER BY seq", end=before)
        rows = [FoundEntry(*row) for row in cursor]
        found: list[FoundEntry] = []
        for first, part in self._by_file(rows):
            places = self._scan.places(first, [row.place for row in part])
            found += [row for row in part if row.place in places]
        return found[::-1]

    def _by_file(self, rows: list[FoundEntry]) -> Iterator[tuple[int, list[FoundEntry]]]:
        parts: dict[int, list[FoundEntry]] = {}
        for row in rows:
            parts.setdefault(self._first_of(row.seq), []).append(row)
        yield from parts.items()

    # -- rows ------------------------------------------------------------------------------------

    def _first_of(self, seq: int) -> int:
        """Return the first seq of the file that an entry is in."""
        return self._firsts[bisect_right(self._firsts, seq) - 1]

    def _entries(self, rows: Iterable[FoundEntry]) -> list[dict[str, Any]]:
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
        blocks = list(self._blocks())
        counts: dict[int, int] = {}
        whole = [block.number for block in blocks if block.whole]
        for part in _parts(whole):
            marks = ", ".join("?" * len(part))
            rows = self._database.execute(
                f"SELECT combo, sum(count) FROM blocks WHERE block IN ({marks}) "
                f"AND earliest <= ? AND latest >= ?{self._in()} GROUP BY combo",
                (*part, self._end, self._start),
            )
            _add(counts, rows)
        for block in blocks:
            if not block.whole:
                _add(counts, self._select("combo, count(*)", block, "GROUP BY combo"))
        columns = ", ".join(_OF_COMBOS)
        combos = self._database.execute(f"SELECT id, {columns} FROM combos")
        return [(row[1:], counts[row[0]]) for row in combos if row[0] in counts]

    def _period(self) -> tuple[int | None, int | None]:
        """Return the times of the oldest and the newest matching entry, in milliseconds since 1970."""
        blocks = list(self._blocks())
        times = [
            next(iter(self._select("time", block, f"ORDER BY seq {order} LIMIT 1")), None)
            for some, order in ((blocks[::-1], "ASC"), (blocks, "DESC"))
            for block in self._first_with_rows(some)
        ]
        return (times[0][0], times[1][0]) if len(times) == 2 and times[0] and times[1] else (None, None)

    def _first_with_rows(self, blocks: list[_Block]) -> list[_Block]:
        return next(([block] for block in blocks if block.whole or self._count(block)), [])


def _match(database: sqlite3.Connection, wanted: EntryFilter) -> bool:
    """Put the ids of matching combinations into ``temp.matched``. Return False if all match."""
    parts, values = _conditions(wanted)
    if not parts:
        return False
    database.execute("CREATE TEMP TABLE IF NOT EXISTS matched (id INTEGER PRIMARY KEY)")
    database.execute("DELETE FROM temp.matched")
    database.execute(f"INSERT INTO temp.matched SELECT id FROM combos WHERE {' AND '.join(parts)}", values)
    return True


def _conditions(wanted: EntryFilter) -> tuple[list[str], list[str]]:
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
    return parts, values


def _add(counts: dict[int, int], rows: Iterable[tuple[int, int]]) -> None:
    for combo, count in rows:
        counts[combo] = counts.get(combo, 0) + count


def _parts(numbers: list[int], size: int = 500) -> Iterator[list[int]]:
    for begin in range(0, len(numbers), size):
        yield numbers[begin : begin + size]
