"""Bytes of a result while it is kept: in memory, or on disk in a file without a name.

The file is gone from its folder before it has any content. So it needs no cleanup: the system frees it with
its last reader, also after ``kill -9``.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger(__name__)

SPILL = 1 << 20
"""Bytes of a result above which it is on disk."""


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

    def all(self) -> list[bytes]:
        """Return all pieces. Raises OSError."""
        if self._file is None:
            return list(self._pieces)
        starts = [sum(self._sizes[:index]) for index in range(len(self._sizes))]
        return [self._read(start, size) for start, size in zip(starts, self._sizes, strict=True)]

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
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                rest = rest[file.write(rest) or 0 :]
        return os.dup(file.fileno())
