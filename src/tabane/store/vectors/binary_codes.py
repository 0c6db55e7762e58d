"""Binary codes: one bit a dimension, whether the vector lies above the mean. Near vectors differ in few.

Codes are kept word by word: first the first 64 bits of all vectors, then the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tabane.store.columns import Array
from tabane.store.vectors.hamming import WORD, Counts, HammingCounter, Words

Matrix = NDArray[np.float32]

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
    _samples: list[CodeSample] = field(default_factory=list, compare=False, repr=False)

    @property
    def bits(self) -> int:
        return len(self.mean)

    def sample(self, data: Matrix) -> CodeSample:
        """Some of the vectors, the same each time: they are read once."""
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
        """What counts the bits in which vectors differ from the query.

        ``early``: how many words are counted first, where codes are at least twice as long.
        """
        telling = self.sample(data).telling
        chosen = sorted(telling[:early]) if len(telling) >= 2 * early else []
        return HammingCounter(self.words, encoded(query[None], self.mean)[:, 0], chosen)


def width(dimension: int) -> int:
    """How many words a code has."""
    return -(-dimension // 64)


def encoded(matrix: Matrix, mean: Matrix) -> Words:
    """The codes of vectors, word by word."""
    bits = np.packbits(matrix > mean, axis=1)
    padded = np.zeros((len(matrix), width(len(mean)) * 8), dtype=np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)


def mean_of(data: Matrix) -> Matrix:
    """The mean of vectors, by a sample that is the same each time."""
    step = max(1, len(data) // _SAMPLED)
    return np.asarray(data[::step][:_SAMPLED].mean(axis=0), dtype=np.float32)


def lowest(distances: Counts, most: int, bits: int) -> Array:
    """Where the ``most`` lowest are, in order; of equal ones at the end all, up to four times as many."""
    if len(distances) <= most:
        return np.arange(len(distances))
    reached = np.cumsum(np.bincount(distances, minlength=bits + 1))
    last = int(np.searchsorted(reached, most))
    if reached[last] <= 4 * most:
        return np.flatnonzero(distances <= last)
    tied = np.flatnonzero(distances == last)[: 4 * most]
    return np.sort(np.concatenate([np.flatnonzero(distances < last), tied]))


def normalised(vectors: bytes, dimension: int) -> Matrix:
    """Vectors as records have them, one behind the other, each of length 1 now."""
    given = np.frombuffer(vectors, dtype="<f4").reshape(-1, dimension).astype(np.float64)
    given /= np.abs(given).max(axis=1, keepdims=True)  # the squares of very small numbers would be 0
    return np.asarray(given / np.sqrt((given * given).sum(axis=1, keepdims=True)), dtype=np.float32)
