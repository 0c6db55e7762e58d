"""Schema migrations: numbered steps, each applied once, in a transaction.

The version of a file is the number of steps it has had (``PRAGMA user_version``). A step and its number are
committed together. A file that contains data is copied into ``backups/`` first.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence

from tabane.engine.embedded import failures
from tabane.errors import StoreNewer
from tabane.messages import say

APPLICATION = 0x54424E45  # "TBNE": no other program's database is taken for a store
BACKUPS_KEPT = 2

Migration = Callable[[sqlite3.Connection], None]


def _collections(connection: sqlite3.Connection) -> None:
    """Create the list of collections. Each collection has its own tables, created with it.

    ``base`` is the lowest row that may be live, ``next`` the row of the next record, ``sealed`` the row
    up to which columns are kept as segments; ``changes`` counts writes, ``epoch`` renumberings, and
    ``pruned`` is the last tombstone that is forgotten.
    """
    connection.execute(
        """
        CREATE TABLE collection (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            shape BLOB NOT NULL,
            base INTEGER NOT NULL DEFAULT 1,
            next INTEGER NOT NULL DEFAULT 1,
            sealed INTEGER NOT NULL DEFAULT 1,
            changes INTEGER NOT NULL DEFAULT 0,
            epoch INTEGER NOT NULL DEFAULT 0,
            pruned INTEGER NOT NULL DEFAULT 0
        )
        """
    )


def _spaces(connection: sqlite3.Connection) -> None:
    """Create the list of the spaces of all collections, in order of creation.

    ``number`` and ``birth`` say where in the file of vectors theirs are. One without a name was dropped:
    its vectors are forgotten up to row ``swept``.
    """
    connection.execute(
        """
        CREATE TABLE space (
            made INTEGER PRIMARY KEY AUTOINCREMENT,
            collection INTEGER NOT NULL,
            name TEXT,
            dimension INTEGER NOT NULL,
            model TEXT NOT NULL,
            number INTEGER NOT NULL,
            birth INTEGER NOT NULL UNIQUE,
            swept INTEGER NOT NULL DEFAULT 0,
            UNIQUE (collection, name)
        )
        """
    )


MIGRATIONS: tuple[Migration, ...] = (_collections, _spaces)


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check(connection: sqlite3.Connection, path: str, known: int) -> None:
    """Reject a file that is not a store or has a newer version, before anything is changed."""
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application != APPLICATION and (application or tables):
        raise failures.corrupt(path, "the database of another program")
    if version(connection) > known:
        raise StoreNewer(
            say(
                "{path} was written by a newer Tabane (version {theirs}; this one supports "
                "{ours}). Update Tabane",
                path=path,
                theirs=version(connection),
                ours=known,
            )
        )


def migrate(connection: sqlite3.Connection, path: str, migrations: Sequence[Migration]) -> None:
    """Apply the steps that the file has not had. ``connection`` is in no transaction."""
    done = version(connection)
    if 0 < done < len(migrations):
        backup(connection, path, done)
    for number in range(done, len(migrations)):
        _apply(connection, migrations[number], number + 1)


def _apply(connection: sqlite3.Connection, migration: Migration, number: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        migration(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def backup(connection: sqlite3.Connection, path: str, done: int) -> str:
    """Copy the database to ``backups/<name>-v<version>.db``. Return the path of the copy.

    The copy gets that name once it is complete and on disk. The last two are kept.
    """
    folder = os.path.join(os.path.dirname(path), "backups")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    stem = os.path.splitext(os.path.basename(path))[0]
    target = os.path.join(folder, f"{stem}-v{done}.db")
    partial = target + ".part"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(partial)
    with contextlib.closing(sqlite3.connect(partial)) as copy:
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
    _settle(partial, target, folder)
    for old in sorted(_backups(folder, stem))[:-BACKUPS_KEPT]:
        os.unlink(old[1])
    return target


def _backups(folder: str, stem: str) -> list[tuple[int, str]]:
    found = []
    for name in os.listdir(folder):
        number = name.removeprefix(f"{stem}-v").removesuffix(".db")
        if number.isdigit() and name == f"{stem}-v{number}.db":
            found.append((int(number), os.path.join(folder, name)))
    return found


def _settle(partial: str, target: str, folder: str) -> None:
    """Rename the file after its content is on disk."""
    with open(partial, "rb") as file:
        os.fsync(file.fileno())
    os.replace(partial, target)
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
