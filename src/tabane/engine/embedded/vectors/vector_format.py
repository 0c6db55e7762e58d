"""The head of a file of vectors, ``<domain>.<birth>-<generation>.vec``, and the names of such files.

Little-endian: magic, version, dimension, birth, generation, the number of the first vector behind the list,
the length of the list, CRC-32 of all that with the list, the list (64 bits each), and at the next page the
vectors (float32). Backups read it, so nothing large is imported here.

Before version 0.18, the vectors of a domain were in a database, ``<domain>.vectors.db``. It is deleted at the
first opening that finds nothing to convert in it, see :func:`remove_older`.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import struct
import zlib
from dataclasses import dataclass

from tabane.engine.embedded import failures
from tabane.engine.embedded.collection_state import SpaceStorage

log = logging.getLogger(__name__)

_MAGIC, VERSION = b"TBNEvec\0", 1
_HEAD = struct.Struct("<8sIIQIqq")
_CHECK = struct.Struct("<I")
EMPTY = _HEAD.size + _CHECK.size
"""Bytes of a file without vectors and without a list."""
_PAGE = 4096
_NUMBER = 8  # bytes
_MOST = 1 << 40


@dataclass(frozen=True, slots=True)
class VectorHead:
    """``numbers``: the list that the file begins with, as bytes; ``start`` is the number that follows it."""

    storage: SpaceStorage
    start: int
    numbers: bytes = b""

    @property
    def offset(self) -> int:
        """Return where the vectors begin."""
        return -(-self._size // _PAGE) * _PAGE

    @property
    def _size(self) -> int:
        return EMPTY + len(self.numbers)

    def size(self, following: int) -> int:
        """Return the size of the file when ``following`` is the next number."""
        count = len(self.numbers) // _NUMBER + following - self.start
        return self.offset + 4 * self.storage.space.dimension * count if count else self._size

    def packed(self) -> bytes:
        """Return the head as it is in the file."""
        storage, count = self.storage, len(self.numbers) // _NUMBER
        head = _HEAD.pack(
            _MAGIC, VERSION, storage.space.dimension, storage.birth, storage.generation, self.start, count
        )
        return head + _CHECK.pack(zlib.crc32(head + self.numbers)) + self.numbers

    @classmethod
    def read(cls, path: str, fd: int, storage: SpaceStorage) -> VectorHead:
        """Return the head of a file. Raises OSError, and StoreCorrupt if it is not of that space."""
        head = os.pread(fd, _HEAD.size, 0)
        if len(head) == _HEAD.size:
            *identity, start, count = _HEAD.unpack(head)
            expected = [_MAGIC, VERSION, storage.space.dimension, storage.birth, storage.generation]
            if identity == expected and 0 <= count < _MOST:
                rest = os.pread(fd, _CHECK.size + _NUMBER * count, _HEAD.size)
                check, numbers = rest[: _CHECK.size], rest[_CHECK.size :]
                whole = len(numbers) == _NUMBER * count
                if whole and check == _CHECK.pack(zlib.crc32(head + numbers)):
                    return cls(storage, start, numbers)
        raise failures.corrupt(path, "its head is not that of these vectors")


def path_of(database: str, storage: SpaceStorage) -> str:
    """Return the path of the file of a space, beside the database of records."""
    return f"{os.path.splitext(database)[0]}.{storage.birth:016x}-{storage.generation}.vec"


def names_of(database: str) -> re.Pattern[str]:
    """Return what matches the names of all such files of a domain; the group is the birth of the space."""
    stem = os.path.basename(os.path.splitext(database)[0])
    return re.compile(re.escape(stem) + r"\.([0-9a-f]{16})-\d+\.vec")


def older_path_of(database: str) -> str:
    """Return where older versions have the vectors of a domain: in a database beside the records."""
    return os.path.splitext(database)[0] + ".vectors.db"


def has_files(records: sqlite3.Connection) -> bool:
    """Return whether the records name the generation of each space: its vectors are in a file then."""
    query = "SELECT 1 FROM pragma_table_info('space') WHERE name = 'generation'"
    return records.execute(query).fetchone() is not None


def needs_older(records: sqlite3.Connection) -> bool:
    """Return whether vectors may be in the database of an older version alone."""
    if not has_files(records):
        return True
    waiting = "SELECT 1 FROM space WHERE generation = 0"
    adopted = "SELECT 1 FROM collection WHERE json_array_length(shape, '$.spaces') > 0"
    return any(records.execute(f"{query} LIMIT 1").fetchone() for query in (waiting, adopted))


def remove_older(records: sqlite3.Connection, database: str) -> None:
    """Delete the older database if the vectors of all collections were converted. Logs it if that is refused.

    Call it only when all that the records say is on the disk for good.
    """
    older = older_path_of(database)
    # The database is the last: a log without one would be taken for that of a copy that somebody puts there.
    paths = (f"{older}-wal", f"{older}-shm", f"{older}.clean", older)
    there = [path for path in paths if os.path.lexists(path)]
    if there and not needs_older(records):
        try:
            for path in there:
                os.unlink(path)
        except OSError as error:
            log.warning("%s is not used any more, but cannot be deleted: %s", path, error.strerror)
