"""Bytes of a result while it is kept: in memory, or on disk in a file without a name.

The file is gone from its folder before it has any content. So it needs no cleanup: the system frees it with
its last reader, also after ``kill -9``.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

SPILL = 1 << 20
"""Bytes of a result above which it is on disk."""

_WRITTEN_AT_ONCE = 4 << 20


class KeptPieces:
    """Some texts. ``on_disk`` and ``in_memory`` are the numbers of their bytes there."""

    def __init__(self, pieces: Sequence[bytes], folder: Path | None, spill: int = SPILL) -> None:
        size = sum(map(len, pieces))
        self._sizes = [len(piece) for piece in pieces]
        self._file: int | None = None
        self._pieces: tuple[bytes, ...] = ()
        if folder is not None and size > spill:
            try:
                self._file = _written(pieces, folder)
            except OSError as error:
                log.warning("a long result is kept in memory, because it cannot be on disk: %s", error)
        if self._file is None:
            self._pieces = tuple(pieces)
        else:
            weakref.finalize(self, os.close, self._file)  # a thread that still reads holds this object
        self.on_disk = size if self._file is not None else 0
        self.in_memory = size - self.on_disk

    def all(self, pause: Callable[[], None]) -> list[bytes]:
        """Return all pieces. ``pause`` is called after each. Raises OSError."""
        if self._file is None:
            return list(self._pieces)
        whole, at, found = self._read(0, sum(self._sizes)), 0, []
        for size in self._sizes:
            pause()
            found.append(whole[at : at + size])
            at += size
        return found

    def one(self, index: int) -> bytes:
        """Return one piece. Raises OSError."""
        if self._file is None:
            return self._pieces[index]
        return self._read(sum(self._sizes[:index]), self._sizes[index])

    def _read(self, start: int, size: int) -> bytes:
        assert self._file is not None
        found = bytearray()
        while len(found) < size:
            more = os.pread(self._file, size - len(found), start + len(found))
            if not more:
                raise OSError("the file of a result is shorter than it was")
            found += more
        return bytes(found)


def _written(pieces: Sequence[bytes], folder: Path) -> int:
    """Write pieces into a file without a name, and return its descriptor. Raises OSError."""
    import tempfile  # most results stay in memory

    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        rest = memoryview(b"".join(pieces))
        while rest:
            rest = rest[file.write(rest[:_WRITTEN_AT_ONCE]) or 0 :]
        return os.dup(file.fileno())
