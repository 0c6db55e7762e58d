"""Counting in which bits codes differ, word by word: some words of all codes, the others of a few.

Plain arithmetic on long arrays of words, which numpy does in 2 ms for 200,000 × 768 bits (7 ms code by
code). Some words of each tell most codes from those that are near, for a part of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tabane.store.columns import Array

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Counts = NDArray[np.uint16]

WORD = 64  # bits
_TOGETHER = 3  # words whose bits are counted in one byte
_BLOCK = 32_768  # codes whose counts stay in the processor's own memory
_FEW = 0.25  # of all codes: more of them are sooner counted in a row than picked out


class HammingCounter:
    """How codes differ from one that is wanted. ``words[w, v]`` is word w of code v.

    ``early``: which words are counted first, none where that is not worth it (``begins``). ``bits``: how
    many bits these have.
    """

    def __init__(self, words: Words, wanted: Words, early: Sequence[int]) -> None:
        self._words = words
        self._wanted = wanted
        self._early = early
        self._late = [number for number in range(len(wanted)) if number not in early]
        self.begins = len(early) > 0
        self.bits = WORD * len(early)

    def first(self, slots: Array | None = None) -> Counts:
        """In how many of the first bits each code differs; of these ``slots`` alone, where given."""
        found = np.zeros(self._count(slots), dtype=np.uint16)
        self._add(self._early, slots, found)
        return found

    def whole(self, slots: Array | None = None, first: Counts | None = None) -> Counts:
        """In how many bits each differs. ``first``: what :meth:`first` said of the same codes."""
        if slots is not None and len(slots) > _FEW * self._words.shape[1]:
            return self.whole()[slots]
        found = np.zeros(self._count(slots), dtype=np.uint16) if first is None else first.copy()
        self._add(range(len(self._wanted)) if first is None else self._late, slots, found)
        return found

    def _count(self, slots: Array | None) -> int:
        return self._words.shape[1] if slots is None else len(slots)

    def _add(self, numbers: Sequence[int], slots: Array | None, found: Counts) -> None:
        """Add to ``found`` how many bits of these words differ."""
        room = _HammingBuffers.of(min(len(found), _BLOCK))
        for begin in range(0, len(found), _BLOCK):
            part = slice(begin, begin + _BLOCK)
            words = self._words[:, part] if slots is None else self._words
            picked = None if slots is None else slots[part]
            for sums in room.sums_of(words, self._wanted, numbers, picked, len(found[part])):
                np.add(found[part], sums, out=found[part])


@dataclass(frozen=True, slots=True)
class _HammingBuffers:
    """Where counting happens: memory that is asked for once, and stays in the processor's own."""

    words: Words
    bits: Bytes
    sums: Bytes

    @classmethod
    def of(cls, size: int) -> _HammingBuffers:
        return cls(np.empty(size, np.uint64), np.empty(size, np.uint8), np.empty(size, np.uint8))

    def sums_of(
        self, words: Words, wanted: Words, numbers: Sequence[int], slots: Array | None, size: int
    ) -> Iterator[Bytes]:
        """How many bits differ in some of the words, and in the next: bytes, which are quick to add to."""
        differing, bits, sums = self.words[:size], self.bits[:size], self.sums[:size]
        for place, number in enumerate(numbers):
            if slots is None:
                np.bitwise_xor(words[number], wanted[number], out=differing)
            else:
                words[number].take(slots, out=differing, mode="clip")  # "raise" would copy once more
                np.bitwise_xor(differing, wanted[number], out=differing)
            if place % _TOGETHER:
                np.bitwise_count(differing, out=bits)
                np.add(sums, bits, out=sums)
            else:
                np.bitwise_count(differing, out=sums)
            if place % _TOGETHER == _TOGETHER - 1 or place == len(numbers) - 1:
                yield sums
