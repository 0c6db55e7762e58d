"""The archive of a backup: a tar file, compressed by gzip, that any tar program can read.

It is read strictly: plain files alone, each as long as its header says. Headers of other kinds, which could
name links, devices or long texts, are errors.
"""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

LEVEL = 4
"""Of the compression. Records take half the time of level 6 and 4 % more space. Vectors hardly shrink."""

PIECE = 1 << 20
"""Bytes that are read and written at a time."""

Told = Callable[[int], object]
"""Called with the number of bytes done since the last call."""

_BLOCK = 512
_GZIP = 31  # bits of the window, and a header and checksum of gzip
_MOST_TRAILING = 1 << 20  # bytes after the last member; tar writes 10 KiB at most


class ByteSource(Protocol):
    """A file that is read."""

    def read(self, size: int, /) -> bytes: ...


class BrokenArchive(ValueError):
    """The file is not an archive, or is cut off or changed."""


class ArchiveWriter(AbstractContextManager["ArchiveWriter"]):
    """Writes members one after the other, and the end of the archive when the block is left."""

    def __init__(self, out: BinaryIO, modified: float) -> None:
        self._out = out
        self._deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
        self._modified = int(modified)

    def add(self, path: str, source: ByteSource, size: int, told: Told = lambda count: None) -> None:
        """Add a file of exactly ``size`` bytes. Raises OSError."""
        header = tarfile.TarInfo(path)
        header.size, header.mode, header.mtime = size, 0o600, self._modified
        self._write(header.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict"))
        for piece in pieces(source, size):
            self._write(piece)
            told(len(piece))
        self._write(bytes(-size % _BLOCK))

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._write(bytes(2 * _BLOCK))
            self._out.write(self._deflate.flush())

    def _write(self, data: bytes) -> None:
        self._out.write(self._deflate.compress(data))


class ArchivedFile:
    """A member while it is read: its path, its size, and its content, once."""

    def __init__(self, path: str, size: int, source: ByteSource) -> None:
        self.path, self.size = path, size
        self._source = source
        self.unread = size

    def pieces(self) -> Iterator[bytes]:
        """Yield the content. Raises BrokenArchive."""
        for piece in _strict(self._source, self.unread):
            self.unread -= len(piece)
            yield piece


def read_archive(source: BinaryIO) -> Iterator[ArchivedFile]:
    """Yield the files of an archive. What is not read of one is skipped. Raises BrokenArchive and OSError."""
    with gzip.GzipFile("", "rb", fileobj=source) as unpacked:
        while (found := _header(unpacked)) is not None:
            file = ArchivedFile(found.name, found.size, unpacked)
            yield file
            for _ in file.pieces():
                pass
            for _ in _strict(unpacked, -found.size % _BLOCK):
                pass
        if len(_read(unpacked, _MOST_TRAILING)) == _MOST_TRAILING:  # to its end, whose checksum gzip verifies
            raise BrokenArchive("data after the end")


def pieces(source: ByteSource, size: int) -> Iterator[bytes]:
    """Yield exactly ``size`` bytes. Raises OSError if there are fewer."""
    while size:
        piece = source.read(min(PIECE, size))
        if not piece:
            raise OSError("a file became shorter while it was read")
        size -= len(piece)
        yield piece


def checksum(source: ByteSource, size: int) -> str:
    """Return the SHA-256 of that many bytes, in hex."""
    found = hashlib.sha256()
    for piece in pieces(source, size):
        found.update(piece)
    return found.hexdigest()


def _header(unpacked: ByteSource) -> tarfile.TarInfo | None:
    """Return the next header; None at the end."""
    block = b"".join(_strict(unpacked, _BLOCK))
    if block == bytes(_BLOCK):
        return None
    try:
        found = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    except (tarfile.HeaderError, UnicodeError) as error:
        raise BrokenArchive(str(error)) from None
    if found.type != tarfile.REGTYPE or found.size < 0:
        raise BrokenArchive("a member is not a plain file")
    return found


def _strict(source: ByteSource, size: int) -> Iterator[bytes]:
    while size:
        piece = _read(source, min(PIECE, size))
        if not piece:
            raise BrokenArchive("it is cut off")
        size -= len(piece)
        yield piece


def _read(source: ByteSource, size: int) -> bytes:
    try:
        return source.read(size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BrokenArchive(str(error)) from None
