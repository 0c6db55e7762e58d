"""SQLite alone: a table, and FTS5 with its own tokenizer of three characters.

That finds no word of one or two characters: what has one in it is looked for in every text, and ranked by
how many of the words are there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from benchmarks.search.engines import MOST
from benchmarks.search.generator import Asked, Entry

_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS record (
  id INTEGER PRIMARY KEY, key TEXT UNIQUE, text TEXT, date INTEGER, user TEXT);
CREATE INDEX IF NOT EXISTS record_date ON record (date);
CREATE INDEX IF NOT EXISTS record_user ON record (user);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
  text, content='record', content_rowid='id', tokenize='trigram');
CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON record BEGIN
  INSERT INTO words (rowid, text) VALUES (new.id, new.text); END;
CREATE TRIGGER IF NOT EXISTS changed AFTER UPDATE ON record BEGIN
  INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
  INSERT INTO words (rowid, text) VALUES (new.id, new.text); END;
"""
_UPSERT = """
INSERT INTO record (key, text, date, user) VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET text = excluded.text, date = excluded.date, user = excluded.user
"""


class Measured:
    batch = 1000
    version = sqlite3.sqlite_version

    async def open(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "bench.db", isolation_level=None)
        self._connection.executescript(_SCHEMA)

    async def fill(self, entries: Sequence[Entry]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_UPSERT, [(e.key, e.text, e.date, e.user) for e in entries])
        self._connection.execute("COMMIT")

    async def filled(self) -> None:
        self._connection.execute("INSERT INTO words (words) VALUES ('optimize')")

    async def upsert(self, entry: Entry) -> None:
        self._connection.execute(_UPSERT, (entry.key, entry.text, entry.date, entry.user))

    async def search(self, asked: Asked) -> list[str]:
        limits, values = _limits(asked)
        if min(map(len, asked.words)) < 3:
            held = " + ".join("(text LIKE ?)" for _ in asked.words)
            any_held = " OR ".join("text LIKE ?" for _ in asked.words)
            likes = [f"%{word}%" for word in asked.words]
            return self._keys(
                f"SELECT key FROM record WHERE ({any_held}) {limits} ORDER BY {held} DESC LIMIT {MOST}",
                [*likes, *values, *likes],
            )
        match = " OR ".join(f'"{word}"' for word in asked.words)
        return self._keys(
            f"SELECT key FROM words JOIN record ON id = words.rowid WHERE words MATCH ? {limits} "
            f"ORDER BY rank LIMIT {MOST}",
            [match, *values],
        )

    async def contains(self, asked: Asked) -> list[str]:
        held = "id IN (SELECT rowid FROM words WHERE text LIKE ?)"
        if len(asked.needle) < 3:
            # FTS5 takes LIKE upon itself here too, and finds nothing where two characters have six bytes.
            held = "text LIKE ?"
        sql = f"SELECT key FROM record WHERE {held} ORDER BY key LIMIT {MOST}"
        return self._keys(sql, [f"%{asked.needle}%"])

    async def close(self) -> None:
        self._connection.close()

    def _keys(self, sql: str, values: list[object]) -> list[str]:
        return [key for (key,) in self._connection.execute(sql, values)]


def _limits(asked: Asked) -> tuple[str, list[object]]:
    sql, values = "", list[object]()
    if asked.since is not None:
        sql += " AND date >= ? AND date < ?"
        values += (asked.since, asked.until)
    if asked.user is not None:
        sql += " AND user = ?"
        values.append(asked.user)
    return sql, values
