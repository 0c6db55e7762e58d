"""Disks that fail: one that forgets what was not synced, and one that is full."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tabane.engine.embedded.vectors.vector_files import Disk


@dataclass
class _File:
    """What a power cut leaves of a file: ``content``, with any of the writes in ``pending``, in any order.

    ``named``: whether its name is on the disk; ``removed``: it was deleted, and the folder was not synced.
    """

    content: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    named: bool = False
    removed: bool = False

    def left(self, chance: random.Random, share: float) -> bytes:
        """Return its content with a share of the writes, some of them torn."""
        found = bytearray(self.content)
        for offset, data in self.pending:
            if chance.random() < share:
                torn = (
                    data if share == 1 or chance.random() < 0.5 else data[: chance.randrange(len(data) + 1)]
                )
                found += bytes(max(0, offset + len(torn) - len(found)))
                found[offset : offset + len(torn)] = torn
        return bytes(found)


class ForgetfulDisk(Disk):
    """A disk that knows what is on it for good. ``step`` is called before each call."""

    def __init__(self, home: Path, step: Callable[[], None]) -> None:
        self._home = home
        self._step = step
        self._files: dict[str, _File] = {
            str(path): _File(bytearray(path.read_bytes()), named=True) for path in home.glob("*.vec")
        }
        self._paths: dict[int, str] = {}

    def create(self, path: str) -> int:
        self._step()
        before = self._files.get(path)
        fd = super().create(path)
        self._files[path] = _File(named=before is not None and before.named)
        self._paths[fd] = path
        return fd

    def open(self, path: str) -> int:
        fd = super().open(path)
        self._paths[fd] = path
        return fd

    def write(self, fd: int, data: bytes, offset: int) -> None:
        self._step()
        self._files[self._paths[fd]].pending.append((offset, bytes(data)))
        super().write(fd, data, offset)

    def resize(self, fd: int, size: int) -> None:
        self._step()
        super().resize(fd, size)  # whether or not it is on the disk, what was committed is

    def sync(self, fd: int) -> None:
        self._step()
        file = self._files[self._paths[fd]]
        file.content, file.pending = bytearray(file.left(random.Random(0), 1)), []

    def sync_folder(self, path: str) -> None:
        self._step()
        for name, file in list(self._files.items()):
            file.named = True
            if file.removed:
                del self._files[name]

    def remove(self, path: str) -> None:
        self._step()
        if path in self._files:
            self._files[path].removed = True
        super().remove(path)

    def cut(self, target: Path, chance: random.Random, share: float) -> None:
        """Make ``target`` what is there after a power cut now, with a share of what was not synced.

        SQLite syncs its log at each commit, so its files are taken as they are. 1 is what a death leaves.
        """
        ignored = shutil.ignore_patterns("*.vec", "*-shm", *(["*.vectors"] if chance.random() < 0.3 else []))
        shutil.copytree(self._home, target, ignore=ignored)
        for path, file in self._files.items():
            if share == 1:
                there = not file.removed
            elif file.removed or not file.named:
                there = chance.random() < share
            else:
                there = True
            if there:
                (target / os.path.basename(path)).write_bytes(file.left(chance, share))


class FullDisk(Disk):
    """A disk that is full from the call of that number on, until it is given room."""

    def __init__(self, full: int) -> None:
        self._left = full
        self.met = False
        """Whether anybody wanted to write while it was full."""

    def _use(self) -> None:
        if not self._left:
            self.met = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._left -= 1

    def give_room(self) -> None:
        self._left = -1

    def create(self, path: str) -> int:
        self._use()
        return super().create(path)

    def write(self, fd: int, data: bytes, offset: int) -> None:
        self._use()
        super().write(fd, data, offset)

    def resize(self, fd: int, size: int) -> None:
        self._use()
        super().resize(fd, size)

    def sync(self, fd: int) -> None:
        self._use()
        super().sync(fd)

    def sync_folder(self, path: str) -> None:
        self._use()
        super().sync_folder(path)
