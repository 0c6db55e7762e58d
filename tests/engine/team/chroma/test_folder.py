"""A folder of Chroma in a process of its own."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tabane.engine.candidate_index import IndexedVector
from tabane.engine.team.chroma.folder import ChromaFolder
from tabane.engine.team.chroma.index import ChromaIndex
from tabane.engine.team.chroma.service import parsed
from tabane.errors import StoreError
from tabane.search.records import EVERYTHING, Equal, Shape
from tests.harness.child_processes import commands_of_children
from tests.harness.patience import wait_until

SHAPE = Shape("posts")


@contextmanager
def opened(folder: Path, python: str) -> Iterator[ChromaIndex]:
    url = parsed(f"chroma:{folder}?timeout=60")
    index = ChromaIndex(url, ChromaFolder(url, python))
    try:
        yield index
    finally:
        index.close()


def vectors(numbers: Sequence[int]) -> list[IndexedVector]:
    """Return a vector for each row. The nearest one to that of a row is that of the next row."""
    return [IndexedVector(row, vector(row)) for row in numbers]


def vector(row: float) -> bytes:
    length = (1 + (row / 500) ** 2) ** 0.5
    return struct.pack("<2f", 1 / length, row / 500 / length)


def workers(folder: Path) -> list[psutil.Process]:
    """Return the processes that have a folder open."""
    return [each for each, command in commands_of_children() if str(folder) in command]


@pytest.mark.heavy("a real Chroma")
def test_what_was_put_is_found_after_its_process_was_killed(tmp_path: Path, python: str) -> None:
    with opened(tmp_path / "chroma", python) as index:
        assert index.version().server.startswith("Chroma 1.")
        index.reset("a_1_0", 2, SHAPE)
        assert index.nearest("a_1_0", vector(1), EVERYTHING, SHAPE, 10, index.advance("a_1_0", "begun")) == []
        index.put("a_1_0", vectors(range(1, 251)), SHAPE)
        index.remove("a_1_0", [7, 9, 9999])
        note = index.advance("a_1_0", "mark")
        assert index.nearest("a_1_0", vector(7.9), EVERYTHING, SHAPE, 3, note) == [8, 6, 10]
        (worker,) = workers(tmp_path / "chroma")
        worker.kill()
        wait_until(lambda: fails(index, note), "the search fails")
        index.version()
        assert index.mark("a_1_0", SHAPE) == "mark"
        assert index.nearest("a_1_0", vector(7.9), EVERYTHING, SHAPE, 3, note) == [8, 6, 10]
        assert len(index.nearest("a_1_0", vector(7.9), Equal("lang", "ja"), SHAPE, 900, note)) == 248
        index.reset("a_1_0", 2, SHAPE)
        assert index.mark("a_1_0", SHAPE) is None
        assert fails(index, note)


def fails(index: ChromaIndex, note: str) -> bool:
    try:
        index.nearest("a_1_0", vector(1), EVERYTHING, SHAPE, 3, note)
    except StoreError:
        return True
    return False


@pytest.mark.heavy("a real Chroma")
def test_a_folder_serves_one_hub(tmp_path: Path, python: str) -> None:
    with opened(tmp_path, python) as first:
        first.version()
        with opened(tmp_path, python) as second, pytest.raises(StoreError, match="is used by another hub"):
            second.version()
    with opened(tmp_path, python) as third:
        third.version()


def test_a_process_without_chroma_names_the_extra(tmp_path: Path) -> None:
    python = script(tmp_path / "python", """echo '{"error": "missing"}'""")
    with opened(tmp_path, python) as index, pytest.raises(StoreError, match="Install it with: "):
        index.version()


def test_a_search_that_takes_too_long_ends(tmp_path: Path) -> None:
    begun = """echo '{"ready": true}'; read line; echo '{"number": 1, "version": "1"}'; cat >/dev/null"""
    python = script(tmp_path / "python", begun)
    url = parsed(f"chroma:{tmp_path}?timeout=1")
    index = ChromaIndex(url, ChromaFolder(url, python))
    index.version()
    with pytest.raises(StoreError, match="not answered in time"):
        index.nearest("a_1_0", vector(1), EVERYTHING, SHAPE, 3, "x")
    index.close()
    wait_until(lambda: not workers(tmp_path), "its process has ended")


def script(path: Path, text: str) -> str:
    """Write a program of the shell, and return its path."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)
