"""Homes as older versions wrote them: vectors in a database beside the records."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

from tabane.engine.embedded.collection_state import SpaceStorage
from tabane.engine.embedded.vectors.vector_files import Disk, VectorFile
from tabane.engine.embedded.vectors.vector_format import path_of
from tabane.search.records import EmbeddingSpace


def make_older(home: Path, version: int = 2) -> None:
    """Turn the closed store ``test`` into one of an older version.

    Version 1 knew the names of spaces in the file of vectors alone, and the spaces in the shape.
    """
    with (
        contextlib.closing(sqlite3.connect(home / "test.db", isolation_level=None)) as records,
        contextlib.closing(sqlite3.connect(home / "test.vectors.db", isolation_level=None)) as vectors,
    ):
        vectors.execute("PRAGMA page_size = 16384")
        vectors.execute("PRAGMA journal_mode = WAL")
        vectors.execute("BEGIN")
        unique = ", UNIQUE (collection, name)" if version == 1 else ""
        vectors.execute(
            "CREATE TABLE space (number INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, "
            f"name TEXT NOT NULL, dimension INTEGER NOT NULL, birth INTEGER NOT NULL UNIQUE{unique})"
        )
        query = (
            "SELECT collection.id, collection.name, space.name, dimension, model, birth, generation "
            "FROM space JOIN collection ON collection.id = space.collection ORDER BY made"
        )
        for collection, owner, *space, birth, generation in records.execute(query).fetchall():
            _move_back(
                home,
                records,
                vectors,
                collection,
                owner,
                SpaceStorage(EmbeddingSpace(*space), birth, generation),
            )
        vectors.execute("PRAGMA application_id = 0x54424E45")
        vectors.execute(f"PRAGMA user_version = {version}")
        vectors.execute("COMMIT")
        spaces = [
            {"name": name, "dimension": dimension}
            for name, dimension in records.execute("SELECT name, dimension FROM space ORDER BY made")
        ]
        for (collection,) in records.execute("SELECT id FROM collection").fetchall():
            records.execute(f"ALTER TABLE vector_{collection} DROP COLUMN crc")
            records.execute(
                f"CREATE TABLE given_up_{collection} (space INTEGER NOT NULL, id INTEGER NOT NULL, "
                "PRIMARY KEY (space, id)) WITHOUT ROWID"
            )
        records.execute("ALTER TABLE space DROP COLUMN generation")
        records.execute("ALTER TABLE space DROP COLUMN next")
        if version == 1:
            records.execute("DROP TABLE space")
            (name,) = records.execute("SELECT name FROM collection").fetchone()
            shape = json.dumps({"name": name, "spaces": spaces}).encode()
            records.execute("UPDATE collection SET shape = ?", (shape,))
        records.execute(f"PRAGMA user_version = {version}")


def _move_back(
    home: Path,
    records: sqlite3.Connection,
    vectors: sqlite3.Connection,
    collection: int,
    owner: str,
    storage: SpaceStorage,
) -> None:
    path = path_of(str(home / "test.db"), storage)
    file = VectorFile.open(Disk(), path, storage)
    cursor = vectors.execute(
        "INSERT INTO space (collection, name, dimension, birth) VALUES (?, ?, ?, ?)",
        (owner, storage.space.name, storage.space.dimension, storage.birth),
    )
    number = cursor.lastrowid
    vectors.execute(
        f"CREATE TABLE vector_{number} (id INTEGER PRIMARY KEY AUTOINCREMENT, vector BLOB NOT NULL)"
    )
    query = f"SELECT id FROM vector_{collection} WHERE space = ? ORDER BY id"
    for (each,) in records.execute(query, (storage.birth,)):
        vectors.execute(f"INSERT INTO vector_{number} VALUES (?, ?)", (each, file.vector(each)))
    vectors.execute(f"INSERT INTO vector_{number} (vector) VALUES (?)", (b"of nobody",))
    records.execute("UPDATE space SET number = ? WHERE birth = ?", (number, storage.birth))
    file.close()
    Path(path).unlink()
