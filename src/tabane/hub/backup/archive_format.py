"""The archive of a backup: a tar file, compressed by gzip, that any tar program can read.

It is read strictly: plain files alone, each as long as its header says. Headers of other kinds, which could
name links, devices or long texts, are errors. The first member is the manifest, which lists all others with
size and checksum.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

import msgspec
from msgspec import Struct

from tabane.build import newer
from tabane.errors import CallerError
from tabane.messages import say

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


NAME = "manifest.json"
FORMAT = 1
"""Version of the archive. A later version is not restored."""

HOME, SETTINGS, SERVERS = "home/", "config/tabane.toml", "config/mcp-servers.json"
"""Places in the archive: the folder of the home's files, the settings file, the servers file."""

LARGEST = 64 << 20
"""Bytes of a manifest."""

MOST_MEMBERS = 200_000

_HEX = re.compile(r"[0-9a-f]{64}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}")


class BackupMember(Struct, frozen=True, omit_defaults=True):
    """One file of a backup. ``schema`` is the version of a database."""

    path: str
    size: int
    sha256: str
    schema: int | None = None


class BackupManifest(Struct, frozen=True):
    """The description of a backup's contents.

    ``created`` is in UTC (ISO 8601). ``tabane`` is the build that made it, ``home_format`` the format of its
    home. ``home``, ``settings_file`` and ``servers_file`` are paths on the machine of the backup.
    ``secrets`` are names of secrets that the hub had, without values; ``with_secrets`` says whether the
    archive holds the values. ``replaced`` are variables that are written in place of plain keys.
    ``audit_key`` is a fingerprint of the key of the audit log, empty without one. ``settings_removed`` are
    settings that held a secret. ``left_out`` are unknown files of the home.
    """

    format: int
    created: str
    tabane: str
    home_format: int
    system: str
    home: str
    settings_file: str
    servers_file: str
    with_secrets: bool
    members: tuple[BackupMember, ...]
    secrets: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    audit_key: str = ""
    settings_removed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Return the bytes of all files when they are unpacked."""
        return sum(member.size for member in self.members)

    def has(self, path: str) -> bool:
        return any(member.path == path for member in self.members)


class _ManifestHead(Struct, frozen=True):
    """The members that every version of the manifest has."""

    format: int
    tabane: str = ""


def encoded(manifest: BackupManifest) -> bytes:
    """Return a manifest as indented JSON with a line end."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decoded(data: bytes, file: str) -> BackupManifest:
    """Return the manifest. Raises CallerError if this version cannot read it or a path in it is not safe."""
    try:
        head = msgspec.json.decode(data, type=_ManifestHead)
        if head.format > FORMAT:
            raise _newer(file, head.tabane)
        manifest = msgspec.json.decode(data, type=BackupManifest)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise damaged(file, say("its list of contents cannot be read")) from None
    paths = [member.path for member in manifest.members]
    if len(set(paths)) < len(paths) or len(paths) > MOST_MEMBERS:
        raise damaged(file, say("its list of contents cannot be read"))
    for member in manifest.members:
        if not _safe(member.path):
            raise damaged(file, say("{path} is not a path of a backup", path=member.path[:200]))
        if member.size < 0 or not _HEX.fullmatch(member.sha256):
            raise damaged(file, say("its list of contents cannot be read"))
    return manifest


def check_version(manifest: BackupManifest, file: str, build: str, home_format: int) -> None:
    """Raise CallerError if a newer Tabane than this build made the backup."""
    if manifest.home_format > home_format or newer(manifest.tabane, build):
        raise _newer(file, manifest.tabane)


def damaged(file: str, detail: object) -> CallerError:
    """Return the error for an archive that cannot be restored: it was cut or changed."""
    return CallerError(
        say(
            "{file} is not a complete backup of Tabane: {detail}. Nothing was changed. Copy the file again, "
            "or use another backup.",
            file=file,
            detail=detail,
        )
    )


def _newer(file: str, theirs: str) -> CallerError:
    return CallerError(
        say(
            "{file} was made by Tabane {theirs}, which is newer than this one. Nothing was changed. Update "
            "Tabane here, and restore it again.",
            file=file,
            theirs=theirs,
        )
    )


def _safe(path: str) -> bool:
    if path in (SETTINGS, SERVERS):
        return True
    parts = path.removeprefix(HOME).split("/")
    return path.startswith(HOME) and len(parts) <= 2 and all(_PART.fullmatch(part) for part in parts)
