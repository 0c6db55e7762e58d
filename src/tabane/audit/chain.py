"""Chain of the audit log: its key, the mac of each entry, its head, and how it reaches the disk.

The head is the seq and mac of the last entry, in a small file apart from the log. The file is mapped into
memory, so each change is in the kernel at once and survives ``kill -9``. It has two slots that are written in
turn: if the process ends while it writes one, the other one is valid. The log continues where the last
process ended, in whatever way it did.

A thread writes to disk. Entries that wait for it at the same time are written by one ``fdatasync``.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import mmap
import os
import struct
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tabane.audit.entry import (
    GENESIS,
    LONGEST_LINE,
    MAC_LENGTH,
    AuditEntry,
    AuditFile,
    AuditPaths,
    audit_files,
    decode_entry,
)
from tabane.errors import AuditError, BadArguments
from tabane.messages import say

KEY_BYTES = 32
_BLOCK = 64
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


class MacChain:
    """Computes HMAC-SHA256 (RFC 2104) with a key that is hashed only once."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        padded = key.ljust(_BLOCK, b"\0")
        assert len(padded) == _BLOCK
        self._inner = hashlib.sha256(padded.translate(_INNER))
        self._outer = hashlib.sha256(padded.translate(_OUTER))

    def mac(self, previous: bytes, body: bytes) -> bytes:
        """Return the mac of an entry: of the mac before it and of its line before ``,"mac":``."""
        inner = self._inner.copy()
        inner.update(previous + body)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()


def equal_macs(one: bytes, other: bytes) -> bool:
    """Return whether two macs are equal, in a time that does not tell where they differ."""
    from hmac import compare_digest  # not needed by a new log

    return compare_digest(one, other)


def read_key(path: str) -> bytes:
    """Return the key in a file. Raises AuditError if it is missing, unreadable or no key."""
    try:
        with open(path, "rb") as file:
            key = bytes.fromhex(file.read(4 * KEY_BYTES).decode("ascii").strip())
    except FileNotFoundError:
        raise AuditError(say("The key of the audit log is missing: {path}", path=path)) from None
    except OSError as error:
        raise AuditError(
            say("The key of the audit log cannot be read: {path} ({reason})", path=path, reason=str(error))
        ) from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise AuditError(say("{path} does not contain a key of the audit log.", path=path))
    return key


def own_key(path: str) -> bytes:
    """Return the key of the hub, which is made at first use. Raises AuditError."""
    if not os.path.lexists(path):
        with contextlib.suppress(FileExistsError):
            _make_key(path)
    return read_key(path)


def _make_key(path: str) -> None:
    """Write a new key, complete or not at all. Raises FileExistsError if there is one by now, AuditError."""
    temporary = f"{path}.{os.urandom(4).hex()}"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, os.urandom(KEY_BYTES).hex().encode() + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)
        os.link(temporary, path)
        sync_folder(os.path.dirname(path))
    except FileExistsError:
        raise
    except OSError as error:
        raise AuditError(
            say("The key of the audit log cannot be written: {path} ({reason})", path=path, reason=str(error))
        ) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def sync_folder(path: str) -> None:
    """Write the names in a folder to disk. Raises OSError."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


_MAGIC = b"tabane audit head 1\n"
_SIZE = 256
_SLOT = struct.Struct("<Q32sI")
_PLACES = (64, 128)


class ChainHead(NamedTuple):
    """The last entry of the log, or of a part of it. Seq 0 is before the first one."""

    seq: int
    mac: bytes

    def __str__(self) -> str:
        return f"{self.seq}:{self.mac.hex()}"


NO_HEAD = ChainHead(0, GENESIS)


def parse_head(text: str) -> ChainHead:
    """Return a head from ``SEQ:MAC``. Raises ValueError."""
    seq, _, mac = text.strip().partition(":")
    head = ChainHead(int(seq), bytes.fromhex(mac))
    if head.seq < 0 or len(head.mac) != len(GENESIS):
        raise ValueError(text)
    return head


class HeadFile:
    """The open head of a log that is written. Only one process has it open: it is locked.

    ``found`` is the head that the file had; None if there was no file, or no valid slot in it. ``seq`` is
    that of the newest entry.
    """

    def __init__(self, path: str) -> None:
        """Open the file. Raises AuditError if another process has it open, OSError."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(self._fd).st_size < _SIZE:
                # Written, not only made longer: a page without a block would end the process on a full disk.
                os.pwrite(self._fd, _MAGIC.ljust(_SIZE, b"\0"), 0)
            self._map = mmap.mmap(self._fd, _SIZE)
        except BlockingIOError:
            os.close(self._fd)
            raise AuditError(
                say("Another process is writing the audit log in {path}.", path=os.path.dirname(path))
            ) from None
        except BaseException:
            os.close(self._fd)
            raise
        self.found = _newest_head(self._map[:])
        self.seq = self.found.seq if self.found is not None else 0

    def write(self, seq: int, mac: bytes) -> None:
        """Set the head. In the kernel when it returns."""
        self.seq = seq
        _SLOT.pack_into(self._map, _PLACES[seq & 1], seq, mac, zlib.crc32(mac, seq & 0xFFFFFFFF))

    def sync(self) -> None:
        """Write the head to disk. Raises OSError."""
        self._map.flush()

    def close(self) -> None:
        """Close the file, so that another process may open it."""
        self._map.close()
        os.close(self._fd)


def read_head(path: str) -> ChainHead | None:
    """Return the head in a file; None if there is no file, or no valid slot in it. Raises OSError."""
    try:
        with open(path, "rb") as file:
            return _newest_head(file.read(_SIZE))
    except FileNotFoundError:
        return None


def stored_head(paths: AuditPaths) -> ChainHead | None:
    """Return the stored head; None if it is missing or damaged. Raises AuditError if it cannot be read."""
    try:
        return read_head(paths.head)
    except OSError as error:
        raise AuditError(
            say("{path} cannot be read: {reason}", path=paths.head, reason=error.strerror or str(error))
        ) from None


def kept_head(text: str | None) -> ChainHead | None:
    """Return a head as ``tabane audit head`` prints it. Raises BadArguments."""
    if not text:
        return None
    try:
        return parse_head(text)
    except ValueError:
        raise BadArguments(
            say("{text} is not a head of an audit log. tabane audit head prints one.", text=text[:100]),
            "head",
        ) from None


def _newest_head(data: bytes) -> ChainHead | None:
    """Return the newest head in the bytes of a file; None if they have no valid slot."""
    if not data.startswith(_MAGIC) or len(data) < _SIZE:
        return None
    slots = (_SLOT.unpack_from(data, place) for place in _PLACES)
    heads = (ChainHead(seq, mac) for seq, mac, check in slots if check == zlib.crc32(mac, seq & 0xFFFFFFFF))
    return max((head for head in heads if head.seq), default=None)


class ChainEnd(NamedTuple):
    """The place at which the log continues.

    ``head`` is the last entry in the files. ``file`` is the file to continue, None to begin one; ``size`` are
    its bytes up to the end of the last entry, and ``torn`` those after it. ``beyond`` are the entries that
    were written after the stored head; ``verified`` is whether they continue it.
    """

    head: ChainHead
    file: AuditFile | None
    size: int
    torn: int
    beyond: int
    verified: bool


def find_end(folder: str, stored: ChainHead | None, chain: MacChain) -> ChainEnd:
    """Return the end of the log. Reads only the end of the newest file with entries. Raises OSError."""
    newest: AuditFile | None = None
    torn = 0
    for file in reversed(audit_files(folder)):
        whole = os.path.getsize(file.path)
        entries, size = _last_entries(file.path, whole)
        if newest is None:
            newest, torn, kept = file, whole - size, size
        if entries:
            beyond = [entry for entry in entries if stored is not None and entry[0].seq > stored.seq]
            last = entries[-1][0]
            head = ChainHead(last.seq, bytes.fromhex(last.mac))
            verified = stored is None or _continues_chain(chain, stored, beyond)
            return ChainEnd(head, newest, kept, torn, len(beyond), verified)
    if newest is not None:
        return ChainEnd(NO_HEAD, newest, kept, torn, 0, True)
    return ChainEnd(NO_HEAD, None, 0, 0, 0, True)


def _last_entries(path: str, size: int) -> tuple[list[tuple[AuditEntry, bytes]], int]:
    """Return the entries in the last bytes of a file, with their lines, and the size without a torn line."""
    with open(path, "rb") as file:
        start = max(0, size - LONGEST_LINE)
        file.seek(start)
        data = file.read(size - start)
    end = data.rfind(b"\n") + 1
    if not end:
        return [], 0 if not start else size
    lines = data[:end].split(b"\n")[:-1]
    if start:
        del lines[0]
    found = []
    for line in lines[-1000:]:
        try:
            entry = decode_entry(line)
            bytes.fromhex(entry.mac)
        except ValueError:
            continue
        if len(entry.mac) == 64:
            found.append((entry, line))
    return found, start + end


def _continues_chain(chain: MacChain, stored: ChainHead, entries: list[tuple[AuditEntry, bytes]]) -> bool:
    seq, mac = stored
    for entry, line in entries:
        expected = chain.mac(mac, line[: 1 - MAC_LENGTH])
        if entry.seq != seq + 1 or not equal_macs(expected.hex().encode(), entry.mac.encode()):
            return False
        seq, mac = entry.seq, expected
    return True


INTERVAL = 0.5
"""Seconds that written entries wait for further ones; an entry is on disk within a second."""

_to_disk = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class DiskSync:
    """Writes files and head to disk. Call it on the event loop; the thread starts with the first entry.

    ``head`` knows the last written entry. ``failed`` is called on the loop with an error of the disk.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        head: HeadFile,
        failed: Callable[[OSError], None],
        *,
        strict: bool,
    ) -> None:
        self._loop, self._head, self._failed = loop, head, failed
        self.strict = strict
        self._fd = -1
        self._dirty = self._closing = False
        self._since = 0.0
        self._syncing: float | None = None
        self._wake, self._hurry = threading.Event(), threading.Event()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._jobs: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._fds: deque[int] = deque()
        self._thread: threading.Thread | None = None

    @property
    def lag(self) -> float:
        """The seconds since the oldest entry was written that may not be on disk; 0 without one."""
        syncing = self._syncing
        oldest = syncing if syncing is not None else self._since if self._dirty else None
        return 0.0 if oldest is None else time.monotonic() - oldest

    def use(self, fd: int) -> None:
        """Use this open file for entries from now on. The thread closes the previous one."""
        self._fds.append(fd)
        self._fd = fd

    def written(self) -> None:
        """Note that an entry was written. Costs nothing while the thread already knows of one."""
        if not self._dirty:
            self._since = time.monotonic()
            self._dirty = True
            self._wake_thread()

    def on_disk(self, seq: int) -> asyncio.Future[None]:
        """Return a future that is done when the entry is on disk. It raises AuditError if the disk fails."""
        future: asyncio.Future[None] = self._loop.create_future()
        future.add_done_callback(_take_exception)  # a refused call is answered without waiting for it
        self._waiting.append((seq, future))
        self._hurry.set()
        self._wake_thread()
        return future

    def later(self, job: Callable[..., None], *arguments: object) -> None:
        """Run a function in the thread, after everything written so far is on disk."""
        self._jobs.append((job, arguments))
        self._hurry.set()
        self._wake_thread()

    def close(self) -> None:
        """Write everything to disk, and end the thread. Blocks as long as the disk takes."""
        self._closing = True
        self._hurry.set()
        self._wake_thread()
        if self._thread is not None:
            self._thread.join()

    def _wake_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run_thread, name="audit-sync", daemon=True)
            self._thread.start()
        self._wake.set()

    def _run_thread(self) -> None:
        while not self._closing:
            self._wake.wait()
            if not self.strict:
                self._hurry.wait(INTERVAL)
            self._wake.clear()
            self._hurry.clear()
            self._sync_round()
        self._sync_round()
        while self._fds:
            os.close(self._fds.popleft())

    def _sync_round(self) -> None:
        self._syncing = self._since if self._dirty else None
        self._dirty = False
        jobs = [self._jobs.popleft() for _ in range(len(self._jobs))]
        error, seq = self._sync_files()
        self._syncing = None
        self._settle_waiting(error, seq)
        for job, arguments in jobs:
            with contextlib.suppress(OSError):
                job(*arguments)

    def _sync_files(self) -> tuple[OSError | None, int]:
        """Return the error of the disk, if there was one, and the seq up to which entries are on disk."""
        try:
            while len(self._fds) > 1:
                _to_disk(self._fds[0])
                os.close(self._fds.popleft())
            seq = self._head.seq
            if self._fds:
                _to_disk(self._fds[0])
            if len(self._fds) > 1:  # a new file was begun meanwhile
                return self._sync_files()
            self._head.sync()
        except OSError as error:
            return error, self._head.seq
        return None, seq

    def _settle_waiting(self, error: OSError | None, seq: int) -> None:
        done: list[asyncio.Future[None]] = []
        while self._waiting and self._waiting[0][0] <= seq:
            done.append(self._waiting.popleft()[1])
        if not done and error is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._settle_futures, done, error)

    def _settle_futures(self, futures: list[asyncio.Future[None]], error: OSError | None) -> None:
        for future in futures:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(disk_error(error))
        if error is not None:
            self._failed(error)


def _take_exception(future: asyncio.Future[None]) -> None:
    """Retrieve an error that nobody may wait for, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()


def disk_error(error: OSError) -> AuditError:
    """Return the error of a call that could not be recorded."""
    return AuditError(
        say(
            "The audit log cannot be written ({reason}), so calls are refused. Free some space on the disk, "
            "or set audit_full to drop.",
            reason=error.strerror or str(error),
        )
    )
