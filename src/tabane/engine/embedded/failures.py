"""Conversion of errors of SQLite and the disk to :class:`~tabane.errors.StoreError`, with advice."""

from __future__ import annotations

import errno
import os
import sqlite3

import msgspec

from tabane.errors import StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreLocked, StoreReadOnly
from tabane.messages import say

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EROFS, errno.EACCES, errno.EPERM)
_SCARCE = 1 << 16  # bytes of free space: SQLite reports some full disks as a write error


def from_sqlite(error: sqlite3.Error, path: str) -> StoreError:
    """Return the :class:`StoreError` for an error of SQLite with the file at ``path``."""
    name = getattr(error, "sqlite_errorname", "") or ""
    undecodable = "decode" in str(error)  # an error of Python without a code: the text is not UTF-8
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or undecodable:
        return corrupt(path, str(error))
    if name == "SQLITE_FULL" or (name.startswith("SQLITE_IOERR") and _scarce(path)):
        return full(path)
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return read_only(path)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return locked(path)
    return StoreError(
        say("{path} could not be read or written ({detail}). Check the disk", path=path, detail=str(error))
    )


def storage_error(error: BaseException, path: str) -> BaseException:
    """Return the error for the caller: a :class:`StoreError` if it comes from storage."""
    if isinstance(error, sqlite3.Error):
        return from_sqlite(error, path)
    if isinstance(error, msgspec.DecodeError):
        return corrupt(path, str(error))
    return from_system(error, path) if isinstance(error, OSError) else error


def from_system(error: OSError, path: str) -> StoreError:
    """Return the :class:`StoreError` for an error of the operating system at ``path``."""
    if error.errno in _FULL:
        return full(path)
    if error.errno in _DENIED:
        return read_only(path)
    detail = error.strerror or str(error)
    return StoreError(say("{path} could not be opened ({detail})", path=path, detail=detail))


def corrupt(path: str, detail: str) -> StoreCorrupt:
    """Return the error for a damaged file."""
    return StoreCorrupt(
        say(
            "{path} is damaged ({detail}). Restore a backup of it, or move it away to start "
            "with an empty one",
            path=path,
            detail=detail,
        )
    )


def vectors_lost(path: str) -> StoreCorrupt:
    """Return the error for a file that lacks vectors of records, because it was deleted as a rule."""
    return StoreCorrupt(
        say(
            "{path} was deleted or is damaged, and vectors of records are lost with it. Restore a backup. "
            "Vectors that Tabane computed are computed again",
            path=path,
        )
    )


def full(path: str) -> StoreFull:
    """Return the error for a disk without space."""
    folder = os.path.dirname(path)
    return StoreFull(
        say("there is no space left in {folder}. Free some space; stored data is not lost", folder=folder)
    )


def read_only(path: str) -> StoreReadOnly:
    """Return the error for a file that may not be written."""
    return StoreReadOnly(
        say("{path} cannot be written. Check the owner of the file and its folder", path=path)
    )


def locked(path: str) -> StoreLocked:
    """Return the error for a file that another process has open."""
    return StoreLocked(say("{path} is open in another process. End that process first", path=path))


def busy(path: str) -> StoreBusy:
    """Return the error for a queue that is full, or for writes that come in between all the time."""
    return StoreBusy(say("too much work is waiting for {path}. Try again later", path=path))


def closed(path: str) -> StoreError:
    """Return the error for a request after the file was closed."""
    return StoreError(say("{path} is closed", path=path))


def _scarce(path: str) -> bool:
    try:
        disk = os.statvfs(os.path.dirname(path) or ".")
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _SCARCE
