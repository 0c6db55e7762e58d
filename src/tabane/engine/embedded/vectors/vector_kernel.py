"""The loops that a search by vectors spends its time in: different bits of codes, and dot products.

They are there twice, with equal answers: in C (``_kernel.c``), which reads words and vectors where they are,
and in numpy, for installations without the compiled module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tabane.engine.unit_vectors import Array, Matrix

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Counts = NDArray[np.uint16]
Floats = NDArray[np.float64]

_TOGETHER = 3  # words whose bits are counted in one byte
_BLOCK = 32_768  # codes whose counts stay in the processor's own memory
_GATHERED = 1024  # vectors of a step: what is picked out stays in the processor's own memory
_CROWDED = 3  # times as many vectors are sooner read in a row than picked out


class VectorKernel(Protocol):
    """The loops. All arrays are C-contiguous along their last axis, and of the types named here."""

    picks: bool
    """Whether selected codes are counted in place, so that selecting any share of them saves time."""

    def add_differing_bits(
        self, words: Words, wanted: Words, numbers: Array, counts: Counts, slots: Array | None
    ) -> None:
        """Add to ``counts`` in how many bits the codes differ from the wanted one.

        ``words[w, v]`` is word w of code v, and ``numbers`` (int64) says which words are compared. ``slots``
        (int64): the codes meant, each with one count; None: all. Raises IndexError if there is no such code
        or word, ValueError if arrays do not fit together.
        """
        ...

    def dot_rows(self, rows: Matrix, slots: Array, query: Matrix) -> Matrix:
        """Return the dot products, float32, of the query with the rows at these slots (int64).

        They are right to 1e-6 for unit vectors. Rows may be in any order, and are read fastest in theirs.
        Raises IndexError if there is no such row, ValueError if arrays do not fit together.
        """
        ...

    def exact_dot_rows(self, rows: Matrix, slots: Array, query: Matrix) -> Floats:
        """Return the same as float64: sums of exact products. They are added in one order by all kernels."""
        ...


class NumpyKernel:
    """The loops in numpy."""

    picks = False

    def add_differing_bits(
        self, words: Words, wanted: Words, numbers: Array, counts: Counts, slots: Array | None
    ) -> None:
        if len(wanted) != len(words) or len(counts) != (words.shape[1] if slots is None else len(slots)):
            raise ValueError("arrays do not fit together")
        _check(numbers, len(words))
        if slots is not None:
            _check(slots, words.shape[1])
        room = _CountingBuffers.of(min(len(counts), _BLOCK))
        for begin in range(0, len(counts), _BLOCK):
            part = slice(begin, begin + _BLOCK)
            some = words[:, part] if slots is None else words
            picked = None if slots is None else slots[part]
            for sums in room.sums_of(some, wanted, numbers.tolist(), picked, len(counts[part])):
                np.add(counts[part], sums, out=counts[part])

    def dot_rows(self, rows: Matrix, slots: Array, query: Matrix) -> Matrix:
        """See :class:`VectorKernel`. Row by row: as fast as a matrix product, whose own threads are slow if
        the processors are busy.
        """
        if rows.shape[1:] != query.shape:
            raise ValueError("arrays do not fit together")
        _check(slots, len(rows))
        found = np.empty(len(slots), dtype=np.float32)
        for first in range(0, len(slots), _GATHERED):
            part = slots[first : first + _GATHERED]
            low, high = int(part.min()), int(part.max()) + 1
            if high - low <= _CROWDED * len(part):
                near = np.vecdot(rows[low:high], query)[part - low]  # nothing is copied
            else:
                near = np.vecdot(rows.take(part, axis=0, mode="clip"), query)  # a third faster than [part]
            found[first : first + len(part)] = near
        return found

    def exact_dot_rows(self, rows: Matrix, slots: Array, query: Matrix) -> Floats:
        if rows.shape[1:] != query.shape:
            raise ValueError("arrays do not fit together")
        _check(slots, len(rows))
        vectors = rows.take(slots, axis=0, mode="clip").astype(np.float64)
        return np.asarray((vectors * query.astype(np.float64)).sum(axis=1))


def _check(numbers: Array, count: int) -> None:
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < count:
        raise IndexError("a slot is out of range")


@dataclass(frozen=True, slots=True)
class _CountingBuffers:
    """The memory for counting: memory that is asked for once, and stays in the processor's own.

    Distances are counted with plain arithmetic on long arrays of words, which numpy does in 2 ms for
    200,000 × 768 bits (7 ms code by code).
    """

    words: Words
    bits: Bytes
    sums: Bytes

    @classmethod
    def of(cls, size: int) -> _CountingBuffers:
        return cls(np.empty(size, np.uint64), np.empty(size, np.uint8), np.empty(size, np.uint8))

    def sums_of(
        self, words: Words, wanted: Words, numbers: list[int], slots: Array | None, size: int
    ) -> Iterator[Bytes]:
        """The number of different bits in some words, and in the next: bytes, which are quick to add to."""
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


class CompiledKernel:
    """The loops in C. ``variant`` names one for an instruction set; None: the best for this processor.

    Raises ImportError if the module was not compiled, ValueError if the processor lacks the variant.
    """

    picks = True

    def __init__(self, variant: str | None = None) -> None:
        from tabane.engine.embedded.vectors import _kernel

        self._compiled = _kernel
        if variant not in (None, *_kernel.variants()):
            raise ValueError(f"no variant {variant} on this processor")
        self._variant = variant

    def add_differing_bits(
        self, words: Words, wanted: Words, numbers: Array, counts: Counts, slots: Array | None
    ) -> None:
        self._compiled.add_differing_bits(words, wanted, numbers, counts, slots, self._variant)

    def dot_rows(self, rows: Matrix, slots: Array, query: Matrix) -> Matrix:
        found = np.empty(len(slots), dtype=np.float32)
        self._compiled.dot_rows(rows, slots, query, found, self._variant)
        return found

    def exact_dot_rows(self, rows: Matrix, slots: Array, query: Matrix) -> Floats:
        found = np.empty(len(slots), dtype=np.float64)
        self._compiled.exact_dot_rows(rows, slots, query, found, self._variant)
        return found


def _best() -> VectorKernel:
    try:
        return CompiledKernel()
    except ImportError:
        return NumpyKernel()


KERNEL = _best()
"""The loops that are used: those in C, where they were compiled."""
