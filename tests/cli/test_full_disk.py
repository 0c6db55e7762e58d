"""A home on a full disk: a killed hub starts, says so, reads and deletes, and goes on when there is room.

The disk is a small one in memory, which only root may mount.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness.patience import wait_until
from tests.harness.user import User

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="needs root, to mount a small disk"
)

SIZE = 48 << 20


class FullDisk:
    """A user whose home is on a disk of its own, with a document that takes some of it."""

    def __init__(self, folder: Path) -> None:
        disk = folder / "home"
        disk.mkdir()
        options = f"size={SIZE},mode=700"
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], check=False
        ).returncode:
            pytest.skip("may not mount")
        self.disk, self.filler = disk, disk / "filler"
        self.user = User(folder)
        text = folder / "long.txt"
        text.write_text(
            "".join(
                f"line {n} has words that are its own: {n * 7919:x} {n * 104729:x}\n" for n in range(20_000)
            )
        )
        self.long = str(text)
        self.note = folder / "note.txt"
        self.note.write_text("A short note.")

    def fill(self) -> None:
        """Take every byte that is free."""
        with suppress(OSError), open(self.filler, "ab") as file:
            while True:
                file.write(bytes(1 << 12))
                file.flush()

    def close(self) -> None:
        self.user.run("stop")
        self.user.close()
        subprocess.run(["umount", "--lazy", str(self.disk)], check=False)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[FullDisk]:
    disk = FullDisk(tmp_path)
    yield disk
    disk.close()


@pytest.mark.heavy("a real hub, and a document of a megabyte")
def test_a_hub_that_was_killed_on_a_full_disk_starts_says_so_and_makes_room(full: FullDisk) -> None:
    user = full.user
    assert user.run("docs", "put", "--id", "long", full.long).succeeded
    assert user.run("docs", "put", "--id", "short", str(full.note)).succeeded
    full.fill()
    user.kill_hub()
    full.fill()
    started = user.run("start").succeeded
    assert "is full. Reading and deleting work" in started.err
    assert "is full" in user.json("status")["disk_problem"]
    assert "0 MB are free" in user.run("doctor").out
    assert user.run("docs", "get", "short").succeeded.out.strip() == "A short note."
    assert user.run("docs", "delete", "long").succeeded
    assert user.run("docs", "put", "--id", "next", str(full.note)).succeeded
    full.filler.unlink()
    assert "disk_problem" not in user.json("status")


def test_a_full_disk_without_a_reserve_is_still_read_and_loses_no_names(full: FullDisk) -> None:
    user = full.user
    assert user.run("docs", "put", "--id", "short", str(full.note)).succeeded
    wait_until((full.disk / "reserve").exists, "the hub has a reserve")
    user.kill_hub()
    (full.disk / "reserve").unlink()
    full.fill()
    assert "nothing can be stored or deleted" in user.run("start").succeeded.err
    assert user.run("docs", "get", "short").succeeded.out.strip() == "A short note."
    assert user.run("tools", "search", "small").succeeded
    assert user.run("search", "note").succeeded
    assert not list(full.disk.glob("*.broken"))
    full.filler.unlink()
    assert user.run("docs", "put", "--id", "next", str(full.note)).succeeded
