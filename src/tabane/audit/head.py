"""Head of the audit log: seq and mac of its last entry, in a small file apart from the log.

The file is mapped into memory, so each change is in the kernel at once and survives ``kill -9``. It has two
slots that are written in turn: if the process ends while it writes one, the other one is valid.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import zlib
from typing import NamedTuple

from tabane.audit.entry import GENESIS
from tabane.errors import AuditError
from tabane.messages import say

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

    ``found`` is the head that the file had; None if there was no file, or no valid slot in it.
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
        self.found = _newest(self._map[:])

    def write(self, seq: int, mac: bytes) -> None:
        """Set the head. In the kernel when it returns."""
        _SLOT.pack_into(self._map, _PLACES[seq & 1], seq, mac, zlib.crc32(mac, seq & 0xFFFFFFFF))

    def sync(self) -> None:
        """Write the head to disk. Raises OSError."""
        self._map.flush()

    def close(self) -> None:
        self._map.close()
        os.close(self._fd)


def read_head(path: str) -> ChainHead | None:
    """Return the head in a file; None if there is no file, or no valid slot in it. Raises OSError."""
    try:
        with open(path, "rb") as file:
            return _newest(file.read(_SIZE))
    except FileNotFoundError:
        return None


def _newest(data: bytes) -> ChainHead | None:
    heads = [head for place in _PLACES if (head := _slot(data, place)) is not None]
    return max(heads, default=None)


def _slot(data: bytes, place: int) -> ChainHead | None:
    if not data.startswith(_MAGIC) or len(data) < _SIZE:
        return None
    seq, mac, check = _SLOT.unpack_from(data, place)
    return ChainHead(seq, mac) if seq and check == zlib.crc32(mac, seq & 0xFFFFFFFF) else None
