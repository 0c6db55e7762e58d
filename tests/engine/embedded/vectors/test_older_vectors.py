"""The database of vectors of an older version is deleted once nothing is in it alone, and not before."""

from __future__ import annotations

import contextlib
import logging
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pytest

from tabane.engine.embedded.store import Store
from tabane.search.records import EmbeddingSpace, Record, Shape
from tests.engine.embedded.opening import embedded
from tests.engine.embedded.vectors.older import make_older
from tests.engine.embedded.vectors.oracle import packed

NOTES = Shape("notes", spaces=(EmbeddingSpace("text", 3),))
MAILS = Shape("mails", spaces=(EmbeddingSpace("text", 2),))
FILES = ("test.vectors.db", "test.vectors.db-wal", "test.vectors.db-shm", "test.vectors.db.clean")
KEYS = [f"k{number}" for number in range(20)]


def vector(number: int, shape: Shape) -> bytes:
    return packed([number + 1.0] * shape.spaces[0].dimension)


async def opened(home: Path, *shapes: Shape) -> None:
    """Open the home once, with these collections; each has all of its vectors."""
    store = await Store.open(str(home), "test")
    try:
        for shape in shapes:
            collection = await store.collection(shape)
            assert await collection.vectors(KEYS, "text") == [
                vector(number, shape) for number in range(len(KEYS))
            ]
    finally:
        await store.close()


async def older(home: Path, *shapes: Shape, version: int = 2) -> None:
    """Make a home of an older version, with these collections."""
    store = await Store.open(str(home), "test")
    for shape in shapes:
        collection = await store.collection(shape)
        await collection.upsert(
            [Record(key=key, vectors={"text": vector(number, shape)}) for number, key in enumerate(KEYS)]
        )
    await store.close()
    make_older(home, version)
    leave(home, FILES[1:])


def leave(home: Path, names: Iterable[str]) -> None:
    for name in names:
        (home / name).touch()


def left(home: Path) -> set[str]:
    return {name for name in FILES if (home / name).exists()}


@pytest.mark.parametrize("version", [1, 2])
async def test_it_is_deleted_at_the_opening_after_that_which_converted_all(
    tmp_path: Path, version: int
) -> None:
    await older(tmp_path, NOTES, version=version)
    (tmp_path / "other.vectors.db").touch()
    await opened(tmp_path)
    assert left(tmp_path) >= {FILES[0]}
    await opened(tmp_path, NOTES)
    assert left(tmp_path) >= {FILES[0]}
    await opened(tmp_path)
    assert not left(tmp_path)
    await opened(tmp_path, NOTES)
    assert (tmp_path / "other.vectors.db").exists()


async def test_it_stays_until_the_last_collection_is_converted(tmp_path: Path) -> None:
    await older(tmp_path, NOTES, MAILS)
    for _ in range(2):
        await opened(tmp_path, NOTES)
        assert left(tmp_path) >= {FILES[0]}
    await opened(tmp_path, MAILS)
    assert left(tmp_path) >= {FILES[0]}
    await opened(tmp_path, MAILS, NOTES)
    assert not left(tmp_path)


@pytest.mark.parametrize("names", [FILES[:3], (FILES[0], FILES[3]), FILES[:1], FILES[1:2]])
async def test_what_a_death_left_of_it_is_deleted(tmp_path: Path, names: tuple[str, ...]) -> None:
    async with embedded(tmp_path, NOTES) as collection:
        await collection.upsert(
            [Record(key=key, vectors={"text": vector(number, NOTES)}) for number, key in enumerate(KEYS)]
        )
    leave(tmp_path, names)
    await opened(tmp_path, NOTES)
    assert not left(tmp_path)


async def test_it_stays_while_the_conversion_is_in_the_log_alone(tmp_path: Path) -> None:
    """A process that reads keeps the log from being copied. Of a log, a power cut may leave less."""
    await older(tmp_path, NOTES)
    await opened(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "test.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM collection").fetchone()
        await opened(tmp_path, NOTES)
        await opened(tmp_path, NOTES)
        assert left(tmp_path) >= {FILES[0]}
        reader.execute("COMMIT")
    await opened(tmp_path, NOTES)
    assert not left(tmp_path)


async def test_a_refusal_to_delete_it_is_logged_and_everything_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await older(tmp_path, NOTES)
    await opened(tmp_path, NOTES)
    (tmp_path / FILES[0]).unlink()
    (tmp_path / FILES[0]).mkdir()  # it cannot be unlinked, as in a folder that is not ours to change
    with caplog.at_level(logging.WARNING):
        await opened(tmp_path, NOTES)
    assert [record.getMessage() for record in caplog.records if "not used any more" in record.getMessage()]
    shutil.rmtree(tmp_path / FILES[0])
    await opened(tmp_path, NOTES)
