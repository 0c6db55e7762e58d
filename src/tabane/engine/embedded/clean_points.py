"""Clean points of a database: up to where its file is known to be whole, so that a death costs little.

SQLite puts commits into a log whose entries have checksums, and a *checkpoint* copies pages from that log
into the file. So a process that is killed can leave only those pages of the file half-written that a
checkpoint was copying, and these are in the log still: SQLite reads them from there. What has to be known is
which checkpoint was under way. Before each one this module notes the log that it copies from, and behind it
how the file is then (device, inode, size, times of its last changes). At the next opening

- a file that is as it was noted needs no look: what is newer is in the log, which SQLite verifies;
- a file that a checkpoint was changing needs none either where the log that it came from is there, whole;
- any other one is looked through from the first page to the last, and so is each one where the system was
  started since: after a power cut the times of a file say nothing about its pages.

The time of the change of the inode is compared too, because programs that restore files set the other one
back. Notes need no fsync: one that is lost means a look at everything, never less than is needed. Formats:
https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
import struct

import msgspec

PAGES = 1000  # of a log that are worth a checkpoint
_SIZE = 512  # bytes of a note, padded: a shorter one leaves nothing of a longer one behind
_HEADER, _FRAME = 32, 24  # bytes
_BOOT = "/proc/sys/kernel/random/boot_id"


class LogEnd(msgspec.Struct, frozen=True):
    """The end of a log: its identity, and the number of committed pages."""

    salts: str = ""
    pages: int = 0


class FileState(msgspec.Struct, frozen=True):
    """The state of a file; ``copied``: the log that a checkpoint copies into it, None if none is.

    ``boot``: which start of the system it was seen in, "" where the system does not tell. ``changed`` and
    ``touched``: when its content was changed, and its content or its inode.
    """

    boot: str
    device: int
    inode: int
    size: int
    changed: int
    touched: int
    copied: LogEnd | None = None

    @property
    def which(self) -> tuple[str, int, int]:
        """Return the file, and the start of the system."""
        return self.boot, self.device, self.inode


class WriteAheadLog:
    """The log next to a database. Its page headers are read one by one, each once."""

    def __init__(self, path: str) -> None:
        self._path = path + "-wal"
        self._fd = -1
        self._end = LogEnd()
        self._seen = 0  # pages, including those of a commit that has not ended

    def end(self) -> LogEnd:
        """Return its current end. A log that cannot be read has no pages."""
        try:
            if self._fd < 0:
                # Not the database nor its index: closing them would release SQLite's locks on them.
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            header = os.pread(self._fd, _HEADER, 0)
            if len(header) < _HEADER:
                return LogEnd()
            size, salts = struct.unpack_from(">I", header, 8)[0], header[16:24]
            if salts.hex() != self._end.salts:
                self._end = LogEnd(salts.hex())
            self._go_on(size, salts)
            return self._end
        except OSError:
            return LogEnd()

    def _go_on(self, size: int, salts: bytes) -> None:
        """Read the headers of pages after the last known commit."""
        at = self._end.pages
        while True:
            frame = os.pread(self._fd, _FRAME, _HEADER + at * (_FRAME + size))
            if len(frame) < _FRAME or frame[8:16] != salts:
                return
            at += 1
            if frame[4:8] != b"\0\0\0\0":  # the last page of a commit
                self._end = LogEnd(salts.hex(), at)

    def close(self) -> None:
        """Close the file of the log. The next call of :meth:`end` opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class CleanPoints:
    """The clean points of one database, whose checkpoints are all made here. For one thread at a time."""

    def __init__(self, path: str, pages: int = PAGES) -> None:
        self._database = path
        self._path = path + ".clean"
        self._pages = pages
        self._log = WriteAheadLog(path)
        self._done = LogEnd()
        self._needed: int | None = None

    def look(self) -> None:
        """Find out what the last process left. Call it before the database is opened and the log changes."""
        note, now = None, self._now()
        with contextlib.suppress(OSError, msgspec.MsgspecError), open(self._path, "rb") as file:
            note = msgspec.json.decode(file.read(_SIZE).rstrip(), type=FileState)
        self._needed = None
        if note is None or now is None or note.which != now.which:
            return
        if note.copied is None:
            self._needed = 0 if note == now else None
        elif now.size >= note.size:
            end = self._log.end()
            covered = end.salts == note.copied.salts and end.pages >= note.copied.pages
            self._needed = note.copied.pages if covered else None
        self._log.close()

    def proven(self, connection: sqlite3.Connection) -> bool:
        """Return whether the file is whole as :meth:`look` found it, with the log that SQLite has read."""
        if not self._needed:
            return self._needed == 0
        try:
            busy, log, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error:  # as on a full disk
            return False
        return bool(not busy and log == copied >= self._needed)

    def begin(self, connection: sqlite3.Connection) -> bool:
        """Make all checkpoints from now on, the first one at once: the file is known to be whole.

        Return what :meth:`checkpoint` returns.
        """
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return self.checkpoint(connection)

    def committed(self, connection: sqlite3.Connection) -> None:
        """Make a checkpoint if enough has been committed since the last one."""
        end = self._log.end()
        since = end.pages - (self._done.pages if self._done.salts == end.salts else 0)
        if since >= self._pages:
            self.checkpoint(connection)

    def checkpoint(self, connection: sqlite3.Connection, mode: str = "PASSIVE") -> bool:
        """Copy the log into the file, as far as no reader needs older pages. A full disk leaves the log.

        Return whether all of it was copied: no power cut takes back a commit that was there before.
        """
        end = self._done = self._log.end()
        if end.pages:
            self._note(end)
        with contextlib.suppress(sqlite3.Error):
            busy, log, copied = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
            if not busy and log == copied:
                self._note(None)
                return True
        return False

    def end(self) -> None:
        """Record the state of the file after the connection was closed, which removes the log."""
        self._log.close()
        if not os.path.exists(self._database + "-wal"):
            self._note(None)

    def _now(self, copied: LogEnd | None = None) -> FileState | None:
        try:
            found = os.stat(self._database)
        except OSError:
            return None
        return FileState(
            _boot(), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, copied
        )

    def _note(self, copied: LogEnd | None) -> None:
        note = self._now(copied)
        if note is None:
            return
        with contextlib.suppress(OSError):  # an older note, or none, means that everything is checked
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.pwrite(fd, msgspec.json.encode(note).ljust(_SIZE), 0)
            finally:
                os.close(fd)


@functools.cache
def _boot() -> str:
    """Return what tells this start of the system from others, "" if it has no such thing."""
    try:
        with open(_BOOT, "rb") as file:
            return file.read(64).strip().decode()
    except (OSError, ValueError):
        return ""
