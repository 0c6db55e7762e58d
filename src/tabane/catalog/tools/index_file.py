"""The file of the index of tools: its tables, and how it is opened."""

from __future__ import annotations

import contextlib
import os
import sqlite3

from tabane.catalog.tools.postings import POSTINGS_INDEX, POSTINGS_TABLE
from tabane.catalog.tools.vector_table import VECTORS_TABLE

VERSION = 4
"""Raised whenever tokens or tables change: an index of another version is rebuilt."""

_TABLES = (
    "CREATE TABLE servers (name TEXT PRIMARY KEY, hash BLOB NOT NULL) WITHOUT ROWID",
    # A number is never used again: vectors in memory belong to numbers.
    "CREATE TABLE tools (number INTEGER PRIMARY KEY AUTOINCREMENT, alias TEXT NOT NULL UNIQUE,"
    " server TEXT NOT NULL, name TEXT NOT NULL, title TEXT NOT NULL, category TEXT NOT NULL,"
    " tags TEXT NOT NULL, name_parts INTEGER NOT NULL, japanese INTEGER NOT NULL, gist BLOB NOT NULL,"
    " gist_text TEXT NOT NULL)",
    "CREATE INDEX tools_of ON tools (server)",
    "CREATE INDEX tools_named ON tools (name)",
    "CREATE INDEX tools_meaning ON tools (gist)",
    POSTINGS_TABLE,
    POSTINGS_INDEX,
    VECTORS_TABLE,
    f"PRAGMA user_version={VERSION}",
)


def open_index(path: str) -> sqlite3.Connection:
    """Return the database with its tables. One that cannot be read, or of another version, is rebuilt."""
    try:
        db = _connected(path)
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (health,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if version == VERSION and health == "ok":
            return db
        db.close()
    except sqlite3.OperationalError:
        # Locked, or a folder that cannot be written to: rebuilding would not help.
        raise
    except sqlite3.DatabaseError:
        pass
    for ending in ("", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + ending)
    db = _connected(path)
    for statement in _TABLES:
        db.execute(statement)
    return db


def _connected(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    # Derived data: if a power cut breaks it, quick_check finds that and it is rebuilt.
    db.execute("PRAGMA synchronous=OFF")
    db.execute("PRAGMA cache_size=-512")
    return db
