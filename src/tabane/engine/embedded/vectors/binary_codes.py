"""Binary codes and Hamming distances. A bit says whether the vector is above the mean in one dimension.

The codes of near vectors differ in few bits. They are stored word by word: first the first 64 bits of all
vectors, then the next. Some words of each code already tell most candidates from the near ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tabane.engine.embedded.vectors.vector_kernel import KERNEL, Counts, VectorKernel, Words
from tabane.engine.unit_vectors import Array, Matrix

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
    """Vectors of some slots, and how far from the mean they are on average: they tell what codes mean.

    ``telling``: the full words of codes, first those in whose dimensions vectors differ most.
    """

    slots: Array
    vectors: Matrix
    length: float
    telling: list[int]


@dataclass(frozen=True, slots=True)
class BinaryCodes:
    """The codes of the first vectors of a space: ``words[w, v]`` is word w of vector v."""

    mean: Matrix
    words: Words
    kernel: VectorKernel = field(default=KERNEL, compare=False, repr=False)
    _samples: list[CodeSample] = field(default_factory=list, compare=False, repr=False)

    @property
    def bits(self) -> int:
        return len(self.mean)

    def sample(self, data: Matrix) -> CodeSample:
        """Return some of the vectors, the same each time: they are read once."""
        if not self._samples:
            step = max(1, self.words.shape[1] // _TOLD)
            slots = np.arange(0, self.words.shape[1], step)
            vectors = data[slots]
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
    """Return the codes of vectors, word by word."""
    bits = np.packbits(matrix > mean, axis=1)
    padded = np.zeros((len(matrix), width(len(mean)) * 8), dtype=np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)


def mean_of(data: Matrix) -> Matrix:
    """Return the mean of vectors, by a sample that is the same each time."""
    step = max(1, len(data) // _SAMPLED)
    return np.asarray(data[::step][:_SAMPLED].mean(axis=0), dtype=np.float32)


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
