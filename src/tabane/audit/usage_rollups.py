"""Usage by day, holder, client, server and tool: a database that outlives the log it was counted from.

Each file of the log is known by the hash of its first line, with the number of bytes that are counted.
That number and the counts change in one transaction, so a crash neither loses nor doubles a call.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tabane.audit.entry import AuditEntry, UsageGroup
from tabane.audit.index_requests import UsageQuery
from tabane.audit.lookups import condition as lookup_condition

_RATIO = 1.1
_SHORTEST = 0.001  # ms: everything below counts as this
_LONGEST = 1e9  # ms: everything above counts as this
_LOG = math.log(_RATIO)

HIGHEST = round(math.log(_LONGEST / _SHORTEST) / _LOG)
"""The number of the last bucket; the first is 0."""


def bucket_of(ms: float) -> int:
    """Return the bucket of a duration. Its value differs by less than 5 % from all durations in it."""
    if not ms > _SHORTEST:
        return 0
    return round(math.log(min(ms, _LONGEST) / _SHORTEST) / _LOG)


def duration_of(bucket: int) -> float:
    """Return the duration in milliseconds that a bucket stands for."""
    return float(_SHORTEST * _RATIO**bucket)


def percentiles(buckets: Iterable[tuple[int, int]], shares: Iterable[float]) -> list[float | None]:
    """Return the duration below or at which each share of the counted calls ended (nearest rank).

    ``buckets`` are pairs of bucket and count. Without any count, each is None.
    """
    counted = sorted(buckets)
    total = sum(count for _, count in counted)
    return [
        _duration_at_rank(counted, max(1, math.ceil(share * total))) if total else None for share in shares
    ]


def _duration_at_rank(counted: list[tuple[int, int]], rank: int) -> float:
    for bucket, count in counted:
        rank -= count
        if rank <= 0:
            return round(duration_of(bucket), 4)
    return round(duration_of(counted[-1][0]), 4)


KEPT_DAYS = 800
"""Days whose usage is kept."""

OUTCOMES = ("ok", "failed", "refused", "limited", "cancelled")
AMOUNTS = ("calls", *OUTCOMES, "timed", "ms", "bytes", "saved")
"""The amounts that are counted, in their order."""

_SHARES = (0.5, 0.95, 0.99)


def usage_group(
    by: UsageGroup,
    name: str,
    label: str,
    server: str | None,
    sums: Sequence[float],
    buckets: Iterable[tuple[int, int]],
) -> dict[str, Any]:
    """Return a group as an answer has it. ``server`` is the only one of the group, else None."""
    group: dict[str, Any] = {by: name}
    if by == "tool" and server is not None:
        group["server"] = server
    if by == "key":
        group["label"] = label
    return group | usage_figures(sums, buckets)


def usage_figures(sums: Sequence[float], buckets: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """Return the figures of some amounts, which are in the order of their columns."""
    named = dict(zip(AMOUNTS, sums, strict=True))
    p50, p95, p99 = percentiles(buckets, _SHARES)
    whole = {name: int(named[name]) for name in ("calls", *OUTCOMES, "bytes", "saved")}
    errors = whole["failed"] + whole["refused"] + whole["limited"]
    mean = round(named["ms"] / named["timed"], 3) if named["timed"] else None
    return whole | {"errors": errors, "mean_ms": mean, "p50_ms": p50, "p95_ms": p95, "p99_ms": p99}


VERSION = 1

MOST_ROWS = 20_000
"""Combinations of one day; calls of further ones are counted as :data:`OTHER`."""

OTHER = "(other)"
RESOURCES = "(resources)"
METHODS = "(methods)"
_UNNAMED = {"resource": RESOURCES, "method": METHODS}
"""The tool of all resources of a server: their addresses are unlimited."""

_MOST_FILES = 10_000
_LONGEST_NAME = 200

_SCHEMA = """
CREATE TABLE IF NOT EXISTS usage.rollups (
  id INTEGER PRIMARY KEY, day TEXT NOT NULL, key TEXT NOT NULL, client TEXT NOT NULL, server TEXT NOT NULL,
  tool TEXT NOT NULL, calls INTEGER NOT NULL DEFAULT 0, ok INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0, refused INTEGER NOT NULL DEFAULT 0, limited INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0, timed INTEGER NOT NULL DEFAULT 0, ms REAL NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0, saved INTEGER NOT NULL DEFAULT 0,
  UNIQUE (day, key, client, server, tool));
CREATE TABLE IF NOT EXISTS usage.latencies (
  rollup INTEGER NOT NULL, bucket INTEGER NOT NULL, count INTEGER NOT NULL,
  PRIMARY KEY (rollup, bucket)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS usage.holders (key TEXT PRIMARY KEY, label TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS usage.counted (
  identity BLOB PRIMARY KEY, bytes INTEGER NOT NULL, number INTEGER NOT NULL);
"""


class RollupKey(NamedTuple):
    day: str
    key: str
    client: str
    server: str
    tool: str


class _Sums:
    """The amounts that are added to one rollup."""

    __slots__ = ("buckets", "bytes", "calls", "ms", "outcomes", "saved", "timed")

    def __init__(self) -> None:
        self.calls = self.timed = self.bytes = self.saved = 0
        self.ms = 0.0
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self.buckets: dict[int, int] = {}

    def add(self, entry: AuditEntry) -> None:
        number = entry.count or 1
        self.calls += number
        self.bytes += entry.bytes
        self.saved += entry.saved
        if entry.outcome:
            self.outcomes[entry.outcome] += number
        if entry.outcome in ("ok", "failed"):
            bucket = bucket_of(entry.ms)
            self.timed += number
            self.ms += entry.ms * number
            self.buckets[bucket] = self.buckets.get(bucket, 0) + number

    def row(self) -> tuple[Any, ...]:
        return (self.calls, *self.outcomes.values(), self.timed, self.ms, self.bytes, self.saved)


class UsageRollups:
    """Writes and reads the database ``usage`` that is attached to a connection."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._pending: dict[RollupKey, _Sums] = {}
        self._labels: dict[str, str] = {}
        self._rows: dict[str, int] = {}
        for statement in _SCHEMA.split(";"):
            database.execute(statement)

    def counted(self, identity: bytes) -> int:
        """Return how many bytes of a file are counted."""
        row = self._database.execute(
            "SELECT bytes FROM usage.counted WHERE identity = ?", (identity,)
        ).fetchone()
        return row[0] if row else 0

    def add(self, entry: AuditEntry, day: str) -> None:
        """Count an entry, if it is a call. It is written by :meth:`write`."""
        if entry.type != "call":
            return
        key = rollup_key(entry, day)
        sums = self._pending.get(key)
        if sums is None:
            sums = self._pending[key] = _Sums()
        sums.add(entry)
        if entry.label:
            self._labels[key.key] = entry.label[:_LONGEST_NAME]

    def write(self, identity: bytes, end: int) -> None:
        """Write what was counted, and that a file is counted up to ``end``, within the open transaction."""
        pending, self._pending = self._pending, {}
        labels, self._labels = self._labels, {}
        for key, sums in pending.items():
            number = self._row_number(key) or self._new_number(key)
            changes = ", ".join(f"{name} = {name} + ?" for name in AMOUNTS)
            self._database.execute(f"UPDATE usage.rollups SET {changes} WHERE id = ?", (*sums.row(), number))
            self._database.executemany(
                "INSERT INTO usage.latencies VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET count = count + excluded.count",
                [(number, bucket, count) for bucket, count in sums.buckets.items()],
            )
        execute = self._database.execute
        self._database.executemany("INSERT OR REPLACE INTO usage.holders VALUES (?, ?)", labels.items())
        execute(
            "INSERT INTO usage.counted VALUES (?, ?, (SELECT ifnull(max(number), 0) + 1 FROM usage.counted)) "
            "ON CONFLICT DO UPDATE SET bytes = excluded.bytes",
            (identity, end),
        )
        execute(
            "DELETE FROM usage.counted WHERE number <= (SELECT max(number) FROM usage.counted) - ?",
            (_MOST_FILES,),
        )

    def forget_pending(self) -> None:
        """Drop what was counted since the last commit."""
        self._pending, self._labels, self._rows = {}, {}, {}

    def keep_days(self, most: int) -> None:
        """Remove the rollups of all but so many days with calls, within the open transaction.

        It counts days that there are, because a wrong clock names others.
        """
        execute = self._database.execute
        oldest = execute(
            "SELECT DISTINCT day FROM usage.rollups ORDER BY day DESC LIMIT 1 OFFSET ?", (most - 1,)
        ).fetchone()
        if oldest is None:
            return
        day = oldest[0]
        execute(
            "DELETE FROM usage.latencies WHERE rollup IN (SELECT id FROM usage.rollups WHERE day < ?)", (day,)
        )
        execute("DELETE FROM usage.rollups WHERE day < ?", (day,))

    def _row_number(self, key: RollupKey) -> int | None:
        row = self._database.execute(
            "SELECT id FROM usage.rollups "
            "WHERE day = ? AND key = ? AND client = ? AND server = ? AND tool = ?",
            key,
        ).fetchone()
        return row[0] if row else None

    def _new_number(self, key: RollupKey) -> int | None:
        """Insert a row, or return that of other calls if the day has too many."""
        if key.day not in self._rows:
            (self._rows[key.day],) = self._database.execute(
                "SELECT count(*) FROM usage.rollups WHERE day = ?", (key.day,)
            ).fetchone()
        if self._rows[key.day] >= MOST_ROWS:
            key = RollupKey(key.day, OTHER, OTHER, OTHER, OTHER)
            if number := self._row_number(key):
                return number
        self._rows[key.day] += 1
        return self._database.execute(
            "INSERT INTO usage.rollups (day, key, client, server, tool) VALUES (?, ?, ?, ?, ?)", key
        ).lastrowid

    # -- queries ---------------------------------------------------------------------------------

    def find(self, query: UsageQuery) -> dict[str, Any]:
        """Return a page of groups with their figures, the sum of all groups, and how many there are."""
        where, values = _query_conditions(query)
        column = query.by
        sums = ", ".join(f"total({name}) AS {name}" for name in AMOUNTS)
        order = f"{column} DESC" if column == "day" else f"calls DESC, {column}"
        rows = self._database.execute(
            f"SELECT {column}, max(server), count(DISTINCT server), {sums} FROM usage.rollups WHERE {where} "
            f"GROUP BY {column} ORDER BY {order} LIMIT ? OFFSET ?",
            (*values, query.limit, query.offset),
        ).fetchall()
        buckets = self._buckets_by_group(where, values, column, [row[0] for row in rows])
        groups = [self._group_of_row(query, row, buckets.get(row[0], [])) for row in rows]
        return {"results": groups, **self._sum_of_groups(where, values, column)}

    def used_tools(self, query: UsageQuery) -> list[list[Any]]:
        """Return each tool and server that was called, with the number of calls."""
        where, values = _query_conditions(query)
        rows = self._database.execute(
            f"SELECT tool, server, sum(calls) FROM usage.rollups WHERE {where} GROUP BY tool, server", values
        )
        return [list(row) for row in rows]

    def days(self) -> list[list[Any]]:
        """Return each day, and the number of its calls."""
        rows = self._database.execute("SELECT day, sum(calls) FROM usage.rollups GROUP BY day ORDER BY day")
        return [list(row) for row in rows]

    def of_day(self, day: str, after: int, limit: int) -> list[list[Any]]:
        """Return some rollups of a day: id, names, label, amounts and buckets."""
        columns = ", ".join(AMOUNTS)
        rows = self._database.execute(
            f"SELECT id, key, client, server, tool, {columns} FROM usage.rollups WHERE day = ? AND id > ? "
            "ORDER BY id LIMIT ?",
            (day, after, limit),
        ).fetchall()
        return [
            [
                *row[:5],
                self._label_of(row[1]),
                list(row[5:]),
                [list(pair) for pair in self._latency_buckets(row[0])],
            ]
            for row in rows
        ]

    def _latency_buckets(self, rollup: int) -> list[tuple[int, int]]:
        statement = "SELECT bucket, count FROM usage.latencies WHERE rollup = ? ORDER BY bucket"
        return self._database.execute(statement, (rollup,)).fetchall()

    def _group_of_row(
        self, query: UsageQuery, row: Sequence[Any], buckets: list[tuple[int, int]]
    ) -> dict[str, Any]:
        name, server, servers, *sums = row
        label = self._label_of(name) if query.by == "key" else ""
        return usage_group(query.by, name, label, server if servers == 1 else None, sums, buckets)

    def _sum_of_groups(self, where: str, values: list[Any], column: str) -> dict[str, Any]:
        sums = ", ".join(f"total({name})" for name in AMOUNTS)
        groups, *figures = self._database.execute(
            f"SELECT count(DISTINCT {column}), {sums} FROM usage.rollups WHERE {where}", values
        ).fetchone()
        buckets = self._database.execute(
            "SELECT bucket, sum(count) FROM usage.rollups JOIN usage.latencies ON rollup = id "
            f"WHERE {where} GROUP BY bucket",
            values,
        ).fetchall()
        return {"total": groups, "sum": usage_figures(figures, buckets)}

    def _buckets_by_group(
        self, where: str, values: list[Any], column: str, names: list[str]
    ) -> dict[str, list[tuple[int, int]]]:
        marks = ", ".join("?" for _ in names)
        rows = self._database.execute(
            f"SELECT {column}, bucket, sum(count) FROM usage.rollups JOIN usage.latencies ON rollup = id "
            f"WHERE {where} AND {column} IN ({marks}) GROUP BY {column}, bucket",
            (*values, *names),
        )
        found: dict[str, list[tuple[int, int]]] = {}
        for name, bucket, count in rows:
            found.setdefault(name, []).append((bucket, count))
        return found

    def _label_of(self, key: str) -> str:
        row = self._database.execute("SELECT label FROM usage.holders WHERE key = ?", (key,)).fetchone()
        return row[0] if row else ""


def rollup_key(entry: AuditEntry, day: str) -> RollupKey:
    """Return the rollup that a call is counted in."""
    tool = _UNNAMED.get(entry.kind, entry.name)
    names = (entry.key, entry.client, entry.server, tool)
    return RollupKey(day, *(name[:_LONGEST_NAME] for name in names))


def _query_conditions(query: UsageQuery) -> tuple[str, list[Any]]:
    """Return the condition of a query in SQL, and its values."""
    parts: list[str] = ["day BETWEEN ? AND ?"]
    values: list[Any] = [query.first, query.last]
    for column, pattern in (("server", query.server), ("tool", query.tool), ("client", query.client)):
        if pattern:
            parts.append(f"{column} GLOB ?")
            values.append(glob(pattern))
    if query.of_servers:
        parts.append("server <> ''")
    if query.key:
        parts.append("(key GLOB ? OR key IN (SELECT key FROM usage.holders WHERE label GLOB ?))")
        values += [glob(query.key)] * 2
    if query.holder is not None:
        parts.append("key = ?")
        values.append(query.holder)
    hidden, names = lookup_condition(query.lookups, "tool", "server = ''", "?")
    if hidden:
        parts.append(hidden)
        values += names
    return " AND ".join(parts), values


def glob(pattern: str) -> str:
    """Return a pattern of ours, in which only ``*`` is special, for GLOB of SQLite."""
    return pattern.replace("[", "[[]").replace("?", "[?]")
