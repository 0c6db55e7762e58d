"""Binary codes of vectors, and the loops that a search spends its time in.

They are there twice, with equal answers: in C (``_kernel.c``), which reads words and vectors where they
are, and in numpy, for installations without the compiled module.

Binary codes and Hamming distances. A bit says whether the vector is above the mean in one dimension. The
codes of near vectors differ in few bits. They are stored word by word: first the first 64 bits of all
vectors, then the next. Some words of each code already tell most candidates from the near ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tabane.engine.vector_request import Array, Matrix, normalized

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Counts = NDArray[np.uint16]
Floats = NDArray[np.float64]

_TOGETHER = 3  # words whose bits are counted in one byte
_BLOCK = 32_768  # codes whose counts stay in the processor's own memory
_GATHERED = 1024  # vectors of a step: what is picked out stays in the processor's own memory
_SMALL, _LARGE = 1e-30, 1e30  # squares of lengths that float32 works out; others are told by float64
_UNIT = 1e-6  # that the square of a length may be off
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

    def dot_rows(self, rows: Matrix, slots: Array, query: Matrix) -> tuple[Matrix, Matrix]:
        """Return the dot products, float32, of the rows at these slots (int64) with the query, and of each
        row with itself.

        They are right to 1e-6 for unit vectors. Rows may be in any order, and are read fastest in theirs.
        Raises IndexError if there is no such row, ValueError if arrays do not fit together.
        """
        ...

    def products(self, rows: Matrix, slots: Array, query: Matrix) -> Matrix:
        """Return the first of what :meth:`dot_rows` returns: cosines, if the rows are unit vectors."""
        ...

    def exact_dot_rows(self, rows: Matrix, slots: Array, query: Matrix) -> tuple[Floats, Floats]:
        """Return the same as float64: sums of exact products. They are added in one order by all kernels."""
        ...

    def cosines(self, rows: Matrix, slots: Array, query: Matrix) -> Matrix:
        """Return the cosines, float32, of the rows at these slots with the query, a unit vector.

        They are right to 1e-6. Raises as :meth:`dot_rows`.
        """
        products, squares = self.dot_rows(rows, slots, query)
        extreme = np.flatnonzero(~((squares > _SMALL) & (squares < _LARGE)))
        with np.errstate(all="ignore"):
            found = products / np.sqrt(squares)
        if len(extreme):
            found[extreme] = self.exact_cosines(rows, slots[extreme], query)
        return np.asarray(found, dtype=np.float32)

    def exact_cosines(self, rows: Matrix, slots: Array, query: Matrix) -> Floats:
        """Return the same as float64: equal rows have equal ones, by all kernels."""
        products, squares = self.exact_dot_rows(rows, slots, query)
        return np.asarray(products / np.sqrt(squares))


class NumpyKernel(VectorKernel):
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

    def dot_rows(self, rows: Matrix, slots: Array, query: Matrix) -> tuple[Matrix, Matrix]:
        """See :class:`VectorKernel`. Row by row: as fast as a matrix product, whose own threads are slow if
        the processors are busy.
        """
        products, squares = np.empty((2, len(slots)), dtype=np.float32)
        with np.errstate(over="ignore", under="ignore"):
            for part, near, places in _gathered(rows, slots, query):
                products[part] = np.vecdot(near, query)[places]
                squares[part] = np.vecdot(near, near)[places]
        return products, squares

    def products(self, rows: Matrix, slots: Array, query: Matrix) -> Matrix:
        products = np.empty(len(slots), dtype=np.float32)
        with np.errstate(over="ignore", under="ignore"):
            for part, near, places in _gathered(rows, slots, query):
                products[part] = np.vecdot(near, query)[places]
        return products

    def exact_dot_rows(self, rows: Matrix, slots: Array, query: Matrix) -> tuple[Floats, Floats]:
        if rows.shape[1:] != query.shape:
            raise ValueError("arrays do not fit together")
        _check(slots, len(rows))
        vectors = rows.take(slots, axis=0, mode="clip").astype(np.float64)
        products = (vectors * query.astype(np.float64)).sum(axis=1)
        return np.asarray(products), np.asarray((vectors * vectors).sum(axis=1))


def _gathered(rows: Matrix, slots: Array, query: Matrix) -> Iterator[tuple[slice, Matrix, Array]]:
    """Yield parts of the slots, rows among which theirs are, and where. Raises as dot products do."""
    if rows.shape[1:] != query.shape:
        raise ValueError("arrays do not fit together")
    _check(slots, len(rows))
    for first in range(0, len(slots), _GATHERED):
        part = slots[first : first + _GATHERED]
        low, high = int(part.min()), int(part.max()) + 1
        if high - low <= _CROWDED * len(part):
            near, places = rows[low:high], part - low  # nothing is copied
        else:  # a third faster than rows[part]
            near, places = rows.take(part, axis=0, mode="clip"), np.arange(len(part))
        yield slice(first, first + len(part)), near, places


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


class CompiledKernel(VectorKernel):
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

    def dot_rows(self, rows: Matrix, slots: Array, query: Matrix) -> tuple[Matrix, Matrix]:
        products, squares = np.empty((2, len(slots)), dtype=np.float32)
        self._compiled.dot_rows(rows, slots, query, products, squares, self._variant)
        return products, squares

    def products(self, rows: Matrix, slots: Array, query: Matrix) -> Matrix:
        products = np.empty(len(slots), dtype=np.float32)
        self._compiled.dot_rows(rows, slots, query, products, None, self._variant)
        return products

    def exact_dot_rows(self, rows: Matrix, slots: Array, query: Matrix) -> tuple[Floats, Floats]:
        products, squares = np.empty((2, len(slots)), dtype=np.float64)
        self._compiled.exact_dot_rows(rows, slots, query, products, squares, self._variant)
        return products, squares


def _best() -> VectorKernel:
    try:
        return CompiledKernel()
    except ImportError:
        return NumpyKernel()


KERNEL = _best()
"""The loops that are used: those in C, where they were compiled."""

WORD = 64  # bits
_FEW = 0.25  # of all codes: more of them are sooner counted in a row than picked out


class HammingCounter:
    """Distances of codes from one that is wanted. ``words[w, v]`` is word w of code v.

    ``early``: which words are counted first, none if that is not worth it (``begins``). ``bits``: how
    many bits these have.
    """

    def __init__(
        self, words: Words, wanted: Words, early: Sequence[int], kernel: VectorKernel = KERNEL
    ) -> None:
        self._kernel = kernel
        self._words = words
        self._wanted = wanted
        self._early = early
        self._late = [number for number in range(len(wanted)) if number not in early]
        self.begins = len(early) > 0
        self.bits = WORD * len(early)

    def first(self, slots: Array | None = None) -> Counts:
        """In how many of the first bits each code differs; of these ``slots`` alone, if given."""
        found = np.zeros(self._count(slots), dtype=np.uint16)
        self._add(self._early, slots, found)
        return found

    def whole(self, slots: Array | None = None, first: Counts | None = None) -> Counts:
        """In how many bits each differs. ``first``: what :meth:`first` said of the same codes."""
        if slots is not None and not self._kernel.picks and len(slots) > _FEW * self._words.shape[1]:
            return self.whole()[slots]
        found = np.zeros(self._count(slots), dtype=np.uint16) if first is None else first.copy()
        self._add(range(len(self._wanted)) if first is None else self._late, slots, found)
        return found

    def _count(self, slots: Array | None) -> int:
        return self._words.shape[1] if slots is None else len(slots)

    def _add(self, numbers: Iterable[int], slots: Array | None, found: Counts) -> None:
        """Add to ``found`` how many bits of these words differ."""
        self._kernel.add_differing_bits(
            self._words, self._wanted, np.array([*numbers], dtype=np.int64), found, slots
        )


EARLY = 6  # words that tell one space's near vectors from most others
_SAMPLED = 20_000  # vectors that tell the mean
_TOLD = 256  # vectors that tell what codes mean


@dataclass(frozen=True, slots=True)
class CodeSample:
    """Unit vectors of some slots, and how far from the mean they are on average: they tell what codes mean.

    ``telling``: the full words of codes, first those in whose dimensions vectors differ most.
    """

    slots: Array
    vectors: Matrix
    length: float
    telling: list[int]


@dataclass(frozen=True, slots=True)
class BinaryCodes:
    """The codes of the first vectors of a space: ``words[w, v]`` is word w of vector v.

    ``units``: these vectors are known to have length 1 (:func:`are_units`).
    """

    mean: Matrix
    words: Words
    units: bool = False
    kernel: VectorKernel = field(default=KERNEL, compare=False, repr=False)
    _samples: list[CodeSample] = field(default_factory=list, compare=False, repr=False)

    @property
    def bits(self) -> int:
        """Return the number of bits of a code."""
        return len(self.mean)

    def sample(self, data: Matrix) -> CodeSample:
        """Return some of the vectors, the same each time: they are read once."""
        if not self._samples:
            step = max(1, self.words.shape[1] // _TOLD)
            slots = np.arange(0, self.words.shape[1], step)
            vectors = units_of(data[slots])
            off = vectors - self.mean
            full = self.bits // WORD
            spread = (off * off).mean(axis=0)[: full * WORD].reshape(full, WORD).sum(axis=1)
            telling = np.argsort(-spread, kind="stable").tolist()
            length = float(np.linalg.norm(off, axis=1).mean())
            self._samples.append(CodeSample(slots, vectors, length, telling))
        return self._samples[0]

    def tally(self, query: Matrix, data: Matrix, early: int = EARLY) -> HammingCounter:
        """Return what counts the bits in which vectors differ from the query.

        ``early``: how many words are counted first, where codes are at least twice as long.
        """
        telling = self.sample(data).telling
        chosen = sorted(telling[:early]) if len(telling) >= 2 * early else []
        return HammingCounter(self.words, encoded(query[None], self.mean)[:, 0].copy(), chosen, self.kernel)


def width(dimension: int) -> int:
    """Return how many words a code has."""
    return -(-dimension // 64)


def encoded(matrix: Matrix, mean: Matrix) -> Words:
    """Return the codes of unit vectors, word by word."""
    bits = np.packbits(matrix > mean, axis=1)
    padded = np.zeros((len(matrix), width(len(mean)) * 8), dtype=np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)


def units_of(data: Matrix) -> Matrix:
    """Return vectors at length 1. What a damaged disk made of a vector, such as zeros, becomes zeros."""
    with np.errstate(all="ignore"):
        units = normalized(data.tobytes(), data.shape[1])
    return np.nan_to_num(units, copy=False, nan=0, posinf=0, neginf=0)


def are_units(data: Matrix) -> bool:
    """Return whether all vectors have length 1: their products are their cosines to half a millionth."""
    squares = np.einsum("vd,vd->v", data, data, dtype=np.float64)
    return bool((np.abs(squares - 1) <= _UNIT).all())


def mean_of(data: Matrix) -> Matrix:
    """Return the mean of vectors at length 1, by a sample that is the same each time."""
    some = data[:: max(1, len(data) // _SAMPLED)][:_SAMPLED]
    parts = (some[first : first + _GATHERED] for first in range(0, len(some), _GATHERED))
    total = sum(units_of(part).sum(axis=0, dtype=np.float64) for part in parts)
    return np.asarray(total / max(1, len(some)), dtype=np.float32)


def lowest(distances: Counts, most: int, bits: int) -> Array:
    """Indexes of the ``most`` lowest, in order; of equal ones at the end all, up to four times as many."""
    if len(distances) <= most:
        return np.arange(len(distances))
    reached = np.cumsum(np.bincount(distances, minlength=bits + 1))
    last = int(np.searchsorted(reached, most))
    if reached[last] <= 4 * most:
        return np.flatnonzero(distances <= last)
    tied = np.flatnonzero(distances == last)[: 4 * most]
    return np.sort(np.concatenate([np.flatnonzero(distances < last), tied]))
