"""The nearest of a moment, exactly: candidates by their codes, then the cosines of these.

At least a thousand candidates are compared, and beyond them every record whose codes leave it possible
that it is among the best. Where few are meant by a filter, all of them are compared. Several spaces: the
codes estimate each similarity, and the estimates are combined as the similarities will be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tabane.search.engine import Combination
from tabane.store.columns import Array, Mask
from tabane.store.vectors.codes import Codes, Matrix, lowest
from tabane.store.vectors.space import View

CANDIDATES = 1000
MOST_FIRST = 1000  # of several spaces
WIDEST = 8000  # where a query is near to nothing; no limit where one dissimilarity undoes all likeness
EXACT = 2500  # records that are compared without a look at their codes, which rule out too few of them
_SHARE = 0.3  # of the slots: fewer are picked out before their codes are counted
_SURELY = 4.0  # standard deviations
_CLOSE = 1e-4  # more than what float32 can be wrong by

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, ready: unit vectors by space, and a factor for each."""

    vectors: Mapping[str, Matrix]
    combination: Combination
    weights: Mapping[str, float]
    threshold: float | None
    whole: bool = False

    def combined(self, similarities: list[Array]) -> Array:
        """One similarity of several; NaN where a record lacks all spaces, or one of a whole."""
        if len(similarities) == 1:
            return similarities[0]
        stacked = np.stack(similarities)
        lacking = np.isnan(stacked)
        if not lacking.any():
            return self._combined(stacked)
        none = lacking.any(axis=0) if self.whole else lacking.all(axis=0)
        zeroed = np.where(lacking, -np.inf if self.combination is Combination.MAXIMUM else 0.0, stacked)
        return np.where(none, np.nan, self._combined(zeroed))

    @property
    def strict(self) -> bool:
        """Whether one dissimilarity undoes all likeness: what is near in one space tells little then."""
        return self.combination in (Combination.MINIMUM, Combination.PRODUCT)

    def highest(self, estimates: list[Array], errors: list[float]) -> Array:
        """What the combined similarity is at most, by estimates that are off by such errors."""
        if self.combination in (Combination.AVERAGE, Combination.WEIGHTED):
            weights = np.array([self.weights[name] for name in self.vectors])
            error = float(np.sqrt(np.sum((weights * errors) ** 2)))
            total = weights.sum() if self.combination is Combination.AVERAGE else 1.0
            return np.asarray(self.combined(estimates) + np.float32(error / total))
        return self.combined(
            [each + np.float32(error) for each, error in zip(estimates, errors, strict=True)]
        )

    def _combined(self, stacked: Array) -> Array:
        weights = np.array([self.weights[name] for name in self.vectors], dtype=stacked.dtype)
        match self.combination:
            case Combination.MAXIMUM:
                return np.asarray(stacked.max(axis=0))
            case Combination.MINIMUM:
                return np.asarray(stacked.min(axis=0))
            case Combination.PRODUCT:
                return np.asarray(np.maximum(stacked, 0).prod(axis=0))
            case Combination.WEIGHTED:
                return np.asarray(np.einsum("s,sr->r", weights, stacked))
            case Combination.AVERAGE:
                return np.asarray(np.einsum("s,sr->r", weights / weights.sum(), stacked))


@dataclass(frozen=True, slots=True)
class Found:
    """Places in the mask, best first, with their scores; ``compared`` could have been found in all.

    ``whole``: all of them were compared exactly.
    """

    places: Array
    scores: Floats
    compared: int
    whole: bool


class Search:
    """One question over one moment. ``mask`` says by place which records are meant; place 0 is ``origin``."""

    def __init__(self, question: Question, views: Mapping[str, View], mask: Mask, origin: int) -> None:
        self._question = question
        self._views = [views[name] for name in question.vectors]
        self._queries = list(question.vectors.values())
        self._size = len(mask)
        self._origin = origin
        self._live = [view.within(mask, origin) for view in self._views]

    def best(self, wanted: int) -> Found:
        """The ``wanted`` best, and all that equal the last of them."""
        if len(self._views) == 1:
            return self._best_of_one(wanted)
        slots = self._slots()
        there = self._comparable(slots)
        slots = [each[there] for each in slots] if len(there) < self._size else slots
        most = MOST_FIRST + 4 * wanted
        if len(there) <= max(EXACT, most) or all(view.codes is None for view in self._views):
            return self._ranked(there, slots, wanted, len(there), True)
        estimates = [self._estimates(number) for number in range(len(slots))]
        likely, errors = [estimate[there] for estimate, _ in estimates], [error for _, error in estimates]
        first = np.argpartition(-self._question.combined(likely), most)[:most]
        rough = self.similarities([each[first] for each in slots])
        highest = self._question.highest(likely, errors)
        highest[first] = -np.inf
        more, others = self._refined(slots, likely, errors, highest, self._reached(rough, wanted))
        found, rough = np.concatenate([first, more]), np.concatenate([rough, others])
        return self._ranked(there[found], [each[found] for each in slots], wanted, len(there), False, rough)

    def _refined(
        self, slots: list[Array], likely: list[Array], errors: list[float], highest: Array, reached: float
    ) -> tuple[Array, Array]:
        """Which others reach it, and their similarities: each space rules some of them out for the next."""
        reached -= _CLOSE * max(1.0, abs(reached))
        possible = np.flatnonzero(highest >= reached)
        if len(possible) > WIDEST and not self._question.strict:
            possible = possible[np.argpartition(-highest[possible], WIDEST)[:WIDEST]]
        known, errors = [each[possible] for each in likely], list(errors)
        for number, of_space in enumerate(slots):
            known[number], errors[number] = self._cosines(number, of_space[possible]), 0.0
            kept = np.flatnonzero(self._question.highest(known, errors) >= reached)
            possible, known = possible[kept], [each[kept] for each in known]
        return possible, self._question.combined(known)

    def _best_of_one(self, wanted: int) -> Found:
        view, live = self._views[0], self._live[0]
        count = int(np.count_nonzero(live))
        most = CANDIDATES + 4 * wanted
        if view.codes is None or count <= max(EXACT, most):
            slots = np.flatnonzero(live)
            return self._ranked(view.rows[slots] - self._origin, [slots], wanted, count, True)
        slots, rough = self._near(view.codes, count, wanted, most)
        return self._ranked(view.rows[slots] - self._origin, [slots], wanted, count, False, rough)

    def _near(self, codes: Codes, count: int, wanted: int, most: int) -> tuple[Array, Array]:
        """Slots with their similarities: the nearest by their codes, and all that may be as near as they."""
        view, live, query = self._views[0], self._live[0], self._queries[0]
        sealed, bits = len(view.data), codes.bits + 1
        if count < _SHARE * len(live):
            picked = np.flatnonzero(live[:sealed])
            distances = codes.distances(query, picked)
        else:
            picked = np.arange(sealed)
            distances = codes.distances(query)
            if count < len(live):
                distances[~live[:sealed]] = bits
        near = lowest(distances, most, bits)
        slots = np.concatenate([_only(picked[near], live), np.flatnonzero(live[sealed:]) + sealed])
        similarities = view.cosines(query, slots)
        reached = self._reached(similarities, wanted)
        fit = _fitted(view.data, codes, query)
        possible = np.flatnonzero(fit.similarities + fit.error >= reached)
        enough = int(np.count_nonzero(distances <= possible[-1])) if len(possible) else 0
        if enough > len(near):
            wider = lowest(distances, min(enough, WIDEST), bits)
            more = _only(picked[np.setdiff1d(wider, near, assume_unique=True)], live)
            slots = np.concatenate([slots, more])
            similarities = np.concatenate([similarities, view.cosines(query, more)])
        return slots, similarities

    def _reached(self, similarities: Array, wanted: int) -> float:
        """What the last of the wanted ones reaches at least."""
        least = -np.inf
        if len(similarities) >= wanted:
            least = float(np.partition(similarities, len(similarities) - wanted)[len(similarities) - wanted])
        threshold = self._question.threshold
        return least if threshold is None else max(least, threshold)

    def _slots(self) -> list[Array]:
        """By place, the slot of each space, -1 where a record has none or is not meant."""
        found = []
        for live, view in zip(self._live, self._views, strict=True):
            slots = np.full(self._size, -1, dtype=np.int64)
            if (run := view.run(self._origin, self._size)) is not None:
                slots[run] = np.where(live, np.arange(len(live)), -1)
            else:
                there = np.flatnonzero(live)
                slots[view.rows[there] - self._origin] = there
            found.append(slots)
        return found

    def _comparable(self, slots: list[Array]) -> Array:
        """The places of records that have one of the spaces, or all of them where the question wants that."""
        join = np.logical_and if self._question.whole else np.logical_or
        return np.flatnonzero(join.reduce([each >= 0 for each in slots]))

    def _estimates(self, number: int) -> tuple[Array, float]:
        """By place, about how similar (NaN where there is nothing), and by how much that may be wrong."""
        view, query = self._views[number], self._queries[number]
        found, error = np.full(self._size, np.nan, dtype=np.float32), 0.0
        live = self._live[number]
        coded = 0 if view.codes is None else len(view.data)
        exact = np.flatnonzero(live[coded:]) + coded
        found[view.rows[exact] - self._origin] = view.cosines(query, exact)
        slots = np.flatnonzero(live[:coded])
        if view.codes is not None and len(slots):
            distances = view.codes.distances(query, slots if len(slots) < _SHARE * coded else None)
            if len(distances) > len(slots):
                distances = distances[slots]
            fit = _fitted(view.data, view.codes, query)
            run = view.run(self._origin, self._size)
            places = view.rows[slots] - self._origin if run is None or len(slots) < len(live) else run
            found[places] = fit.similarities[distances]
            error = fit.error
        return found, error

    def _ranked(
        self,
        places: Array,
        slots: list[Array],
        wanted: int,
        compared: int,
        whole: bool,
        rough: Array | None = None,
    ) -> Found:
        """Candidates compared: by float32 first, the best of them by float64, so that equals are equal."""
        rough = self.similarities(slots) if rough is None else rough
        if self._question.threshold is not None:
            kept = np.flatnonzero(rough >= self._question.threshold - _CLOSE)
            places, slots, rough = places[kept], [each[kept] for each in slots], rough[kept]
        if len(rough) > wanted:
            least = np.partition(rough, len(rough) - wanted)[len(rough) - wanted]
            kept = np.flatnonzero(rough >= least - _CLOSE * max(1.0, abs(float(least))))
            places, slots = places[kept], [each[kept] for each in slots]
        scores = self._exactly(slots)
        if self._question.threshold is not None:
            reached = scores >= self._question.threshold
            places, scores = places[reached], scores[reached]
            compared = int(np.count_nonzero(reached)) if len(rough) <= wanted else len(rough)
        order = np.argsort(-scores, kind="stable")
        if len(order) > wanted:
            order = order[: int(np.searchsorted(-scores[order], -scores[order[wanted - 1]], side="right"))]
        return Found(places[order], scores[order], compared, whole)

    def similarities(self, slots: list[Array]) -> Array:
        """The combined similarity of records by their slots in each space (-1: none), as float32."""
        return self._question.combined([self._cosines(number, each) for number, each in enumerate(slots)])

    def _cosines(self, number: int, slots: Array) -> Array:
        there = _in_order(slots)
        found = np.full(len(slots), np.nan, dtype=np.float32)
        found[there] = self._views[number].cosines(self._queries[number], slots[there])
        return found

    def _exactly(self, slots: list[Array]) -> Floats:
        found = []
        for view, query, of_space in zip(self._views, self._queries, slots, strict=True):
            there = _in_order(of_space)
            each = np.full(len(of_space), np.nan)
            vectors = view.vectors(of_space[there]).astype(np.float64)
            each[there] = (vectors * query.astype(np.float64)).sum(axis=1)
            found.append(each)
        return np.asarray(self._question.combined(found), dtype=np.float64)

    def places(self) -> tuple[Array, list[Array]]:
        """All records that can be compared, in order, and their slots in each space."""
        slots = self._slots()
        there = self._comparable(slots)
        return there, [each[there] for each in slots]


def _in_order(slots: Array) -> Array:
    """Where there are slots (-1: none), in order of these: as they lie on the disk."""
    there = np.flatnonzero(slots >= 0)
    slots = slots[there]
    return there if (slots[1:] > slots[:-1]).all() else there[np.argsort(slots, kind="stable")]


@dataclass(frozen=True, slots=True)
class _Fit:
    """By distance, about how similar; off by more than ``error`` next to never."""

    similarities: NDArray[np.float32]
    error: float


def _only(slots: Array, live: Mask) -> Array:
    return slots[live[slots]]


def _fitted(data: Matrix, codes: Codes, query: Matrix) -> _Fit:
    """Vectors at an angle of a differ in a / pi of their signs (Charikar 2002): here, seen from the mean.

    So a cosine is the lengths from there, times the cosine of that angle, plus what the mean adds, which
    some vectors tell. A line fitted to these would be too flat, for their distances are noisy, and would
    hold the few that are near for less near than they are.
    """
    some = codes.sample(data)
    angles = np.cos(np.pi * np.arange(codes.bits + 1, dtype=np.float32) / codes.bits)
    slope = float(np.linalg.norm(query - codes.mean)) * some.length
    added = np.vecdot(some.vectors, query) - slope * angles[codes.distances(query, some.slots)]
    line = angles * np.float32(slope) + np.float32(added.mean())
    return _Fit(line, _SURELY * float(added.std()))
