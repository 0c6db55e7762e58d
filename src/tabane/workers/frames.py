"""Frames between the hub and a worker, over two pipes.

A request is four bytes of length, four bytes with the processor time it may take in milliseconds, both
big-endian, and a body. An answer is four bytes of length, a byte that is 1 where the worker ends after this
answer, and a body. The first answer is empty: the worker is ready.
"""

from __future__ import annotations

import struct

LONGEST = 128 * 1024 * 1024
"""Bytes of a body."""

REQUEST = struct.Struct(">II")
ANSWER = struct.Struct(">IB")

_MOST_MILLISECONDS = (1 << 32) - 1


def request(length: int, seconds: float) -> bytes:
    """Return the head of a request that may take ``seconds`` of CPU time.

    Raises ValueError for a body beyond LONGEST.
    """
    return REQUEST.pack(_checked(length), max(1, min(int(seconds * 1000), _MOST_MILLISECONDS)))


def answer(length: int, *, last: bool = False) -> bytes:
    """Return the head of an answer. Raises ValueError for a body beyond LONGEST."""
    return ANSWER.pack(_checked(length), last)


def request_head(head: bytes) -> tuple[int, float]:
    """Return the length of a request's body and its seconds. Raises ValueError beyond LONGEST."""
    length, milliseconds = REQUEST.unpack(head)
    return _checked(length), milliseconds / 1000


def answer_head(head: bytes) -> tuple[int, bool]:
    """Return the length of an answer's body, and whether it is the last. Raises ValueError beyond LONGEST."""
    length, last = ANSWER.unpack(head)
    return _checked(length), bool(last)


def _checked(length: int) -> int:
    if length > LONGEST:
        raise ValueError(f"a frame of {length} bytes")
    return length
