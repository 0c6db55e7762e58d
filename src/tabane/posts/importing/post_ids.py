"""Post ids, and a compact hash table from post ids to numbers."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

LARGEST = 2**63 - 1  # ids are positive, and int64 in the files of vectors

_GOLDEN = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: spreads ids that follow each other (Knuth, 6.4)
_SMALLEST = 1024


def post_id(text: str) -> int | None:
    """Parse a post id. Return None if the text is not one."""
    if not (0 < len(text) <= 19 and text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if 0 < number <= LARGEST else None


class PostIdTable:
    """Post ids with an integer each, in about twenty bytes a post. A dict needs five times as much.

    ``typecode`` is that of the array, and limits the numbers. One thread may write while others read: they
    see the state before or after the write.
    """

    def __init__(self, typecode: str = "Q") -> None:
        self._typecode = typecode
        self._count = 0
        self._table = self._allocate(_SMALLEST)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, post: int) -> bool:
        keys = self._table[0]
        return keys[_slot(keys, post)] != 0

    def __iter__(self) -> Iterator[int]:
        return (key for key in self._table[0] if key)

    def get(self, post: int, default: int) -> int:
        keys, values = self._table
        slot = _slot(keys, post)
        return values[slot] if keys[slot] else default

    def __setitem__(self, post: int, value: int) -> None:
        keys, values = self._table
        slot = _slot(keys, post)
        values[slot] = value
        if not keys[slot]:
            keys[slot] = post
            self._count += 1
            if self._count * 8 > len(keys) * 5:
                self._grow()

    def _allocate(self, slots: int) -> tuple[array[int], array[int]]:
        values = array(self._typecode)
        return array("Q", bytes(8 * slots)), array(self._typecode, bytes(values.itemsize * slots))

    def _grow(self) -> None:
        keys, values = self._allocate(2 * len(self._table[0]))
        for key, value in zip(*self._table, strict=True):
            if key:
                slot = _slot(keys, key)
                keys[slot], values[slot] = key, value
        self._table = keys, values


def _slot(keys: array[int], post: int) -> int:
    """Return the slot of the id, or the slot for it. The number of slots is a power of two; some are free."""
    mask = len(keys) - 1
    slot = (post * _GOLDEN >> 24) & mask
    while keys[slot] and keys[slot] != post:
        slot = (slot + 1) & mask
    return slot
