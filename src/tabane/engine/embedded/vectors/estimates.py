"""Estimates of similarities by binary codes: first by some of their bits, then by all, with error bounds.

A candidate is excluded only if it is *surely* no hit: four standard deviations off, as measured on vectors
whose similarities are known. If the compared vectors show that the bits are less reliable than that, more
candidates are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tabane.engine.embedded.columns import Array, Mask
from tabane.engine.embedded.vectors.binary_codes import BinaryCodes, lowest
from tabane.engine.embedded.vectors.space_index import SpaceSnapshot
from tabane.engine.embedded.vectors.vector_kernel import Counts
from tabane.engine.unit_vectors import Matrix

FEW = 0.3  # of the slots: fewer are picked out before their codes are counted
WIDEST = 8000  # where a query is near to nothing
_SURELY = 4.0  # standard deviations
_STRIDE = 16  # one of so many tells how the first bits are spread
_PART = 32_768  # estimates that stay in the processor's own memory


@dataclass(frozen=True, slots=True)
class SimilarityFit:
    """By distance, about how similar; off by more than ``error`` next to never."""

    similarities: NDArray[np.float32]
    error: float

    def last(self, reached: float) -> int:
        """Return the largest distance of a vector that may reach it; -1 where none may."""
        possible = np.flatnonzero(self.similarities + self.error >= reached)
        return int(possible[-1]) if len(possible) else -1

    def checked(self, distances: Counts, similarities: Array) -> SimilarityFit:
        """Return a fit whose error is as large as that of the compared vectors."""
        if not len(distances):
            return self
        missed = similarities - self.similarities[distances]
        return SimilarityFit(
            self.similarities, max(self.error, float(missed.mean() + _SURELY * missed.std()))
        )


def fitted(codes: BinaryCodes, data: Matrix, query: Matrix, distances: Counts, bits: int) -> SimilarityFit:
    """Vectors at an angle of a differ in a / pi of their signs (Charikar 2002): here, seen from the mean.

    So a cosine is the lengths from there, times the cosine of that angle, plus what the mean adds, which
    some vectors tell. A line fitted to these would be too flat, for their distances are noisy, and would
    hold the few that are near for less near than they are. ``distances``: of the sample, in so many bits.
    """
    some = codes.sample(data)
    angles = np.cos(np.pi * np.arange(bits + 1, dtype=np.float32) / bits)
    slope = float(np.linalg.norm(query - codes.mean)) * some.length
    added = np.vecdot(some.vectors, query) - slope * angles[distances]
    line = angles * np.float32(slope) + np.float32(added.mean())
    return SimilarityFit(line, _SURELY * float(added.std()))


class CodeFilter:
    """The slots of one space with codes, nearest by these first. ``live`` says which of them are meant."""

    def __init__(self, data: Matrix, codes: BinaryCodes, query: Matrix, live: Mask, count: int) -> None:
        self._data, self._codes, self._query = data, codes, query
        self._tally = codes.tally(query, data)
        self._slots = np.flatnonzero(live) if count < FEW * len(live) else None  # None: all
        self._live = live if self._slots is None and count < len(live) else None  # None: all of them
        self._count = count
        self._first = self._counted(self._slots)

    def nearest(self, most: int) -> Array:
        """At least ``most`` slots, or all, in order, and more if they are equally near."""
        places = self._places(self._first <= self._cut_for(most + most // 2))
        if len(places) < min(most, self._count):
            places = self._places(np.ones(len(self._first), dtype=np.bool_))
        return self._slots_of(places[lowest(self._first[places], most, self._bits)])

    def others(self, near: Array, similarities: Array, reached: float) -> Array:
        """More slots that may reach it, in order. ``similarities``: of the ``near`` ones, compared."""
        sample = self._codes.sample(self._data).slots
        rough = self._fit(self._counted(sample), self._bits).checked(self._counted(near), similarities)
        through = self._first <= rough.last(reached)
        through[near if self._slots is None else np.searchsorted(self._slots, near)] = False
        places = self._places(through)
        distances = self._first[places]
        if self._tally.begins and len(places):
            last = self._fit(self._tally.whole(sample), self._codes.bits).last(reached)
            distances = self._tally.whole(self._slots_of(places), distances)
            kept = np.flatnonzero(distances <= last)
            places, distances = places[kept], distances[kept]
        return self._slots_of(places[lowest(distances, WIDEST, self._codes.bits)])

    @property
    def _bits(self) -> int:
        return self._tally.bits if self._tally.begins else self._codes.bits

    def _counted(self, slots: Array | None) -> Counts:
        return self._tally.first(slots) if self._tally.begins else self._tally.whole(slots)

    def _fit(self, distances: Counts, bits: int) -> SimilarityFit:
        return fitted(self._codes, self._data, self._query, distances, bits)

    def _places(self, wanted: Mask) -> Array:
        return np.flatnonzero(wanted if self._live is None else wanted & self._live)

    def _slots_of(self, places: Array) -> Array:
        return places if self._slots is None else self._slots[places]

    def _cut_for(self, most: int) -> int:
        """Return a distance that about so many do not exceed."""
        share = most / max(1, self._count)
        some = self._first[::_STRIDE]
        reached = np.cumsum(np.bincount(some, minlength=self._bits + 1))
        return int(np.searchsorted(reached, share * len(some)))


class SimilarityEstimates:
    """Estimated similarities of one space's vectors to a query, from which several spaces are combined."""

    def __init__(self, view: SpaceSnapshot, query: Matrix, early: int) -> None:
        self._view, self._query = view, query
        self._sealed = 0 if view.codes is None else len(view.data)
        self._tail = view.cosines(query, np.arange(self._sealed, len(view.rows)))
        self.error = 0.0
        if view.codes is not None:
            self._tally = view.codes.tally(query, view.data, early)
            sample = view.codes.sample(view.data).slots
            self._fit = fitted(view.codes, view.data, query, self._tally.whole(sample), view.codes.bits)
            self.error = self._fit.error
            self._all: Counts | None = None  # counted over all bits, if that was worth it
            self._rough = self._fit
            if self._tally.begins:
                self._first = self._tally.first()
                self._rough = fitted(view.codes, view.data, query, self._first[sample], self._tally.bits)
            else:
                self._first = self._all = self._tally.whole()

    def rough(self, slots: Array | slice) -> Array:
        """By some of the bits. NaN if there is nothing (-1)."""
        if not isinstance(slots, slice):
            return np.append(self.rough(slice(0, len(self._view.rows))), np.float32(np.nan))[slots]
        tail = self._tail[max(0, slots.start - self._sealed) : max(0, slots.stop - self._sealed)]
        if slots.start >= self._sealed:
            return tail
        coded = self._rough.similarities.take(self._first[slots], mode="clip")
        return np.concatenate([coded, tail]) if len(tail) else coded

    def add_rough(self, factor: float, sums: Array) -> None:
        """Add what :meth:`rough` says of all slots, times the factor, to as many sums."""
        if self._sealed:
            table = self._rough.similarities * np.float32(factor)
            for first in range(0, self._sealed, _PART):
                part = slice(first, min(first + _PART, self._sealed))
                sums[part] += table.take(self._first[part], mode="clip")
        sums[self._sealed :] += self._tail * np.float32(factor)

    def fine(self, slots: Array) -> Array:
        """By all bits."""
        found = np.full(len(slots), np.nan, dtype=np.float32)
        tail = np.flatnonzero(slots >= self._sealed)
        found[tail] = self._tail[slots[tail] - self._sealed]
        coded = np.flatnonzero((slots >= 0) & (slots < self._sealed))
        if len(coded):
            found[coded] = self._fit.similarities[self._distances(slots[coded])]
        return found

    def _distances(self, slots: Array) -> Counts:
        if self._all is None and len(slots) > FEW * self._sealed:
            self._all = self._tally.whole(None, self._first)
        if self._all is not None:
            return self._all[slots]
        return self._tally.whole(slots, self._first[slots])

    def check(self, slots: Array, similarities: Array) -> float:
        """Return the error of :meth:`rough`, measured on compared vectors.

        If all bits were counted, :meth:`fine` has the same error from now on.
        """
        if not self._sealed:
            return self.error
        coded = np.flatnonzero((slots >= 0) & (slots < self._sealed))
        distances, similarities = self._first[slots[coded]], similarities[coded]
        self._rough = self._rough.checked(distances, similarities)
        if not self._tally.begins:
            self.error = self._rough.error
        return self._rough.error
