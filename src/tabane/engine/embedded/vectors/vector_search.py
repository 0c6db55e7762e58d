"""The nearest of a moment, exactly: candidates by their codes, then the cosines of these.

At least a thousand candidates are compared, and beyond them every record whose codes leave it possible
that it is among the best. Where few are meant by a filter, all of them are compared. Several spaces: the
codes estimate each similarity, and the estimates are combined as the similarities will be. A product of
several is worked out for all records.

Estimates of similarities by binary codes: first by some of their bits, then by all, with error bounds. A
candidate is excluded only if it is *surely* no hit: four standard deviations off, as measured on vectors
whose similarities are known. If the compared vectors show that the bits are less reliable than that, more
candidates are kept.

Messages between a collection and the process that searches its vectors. A moment is sent once: which records
are live, and where the vectors are. Vectors and codes are in mapped files, which the process maps too, so
they take no memory twice. Questions name their moment by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from tabane.engine.embedded.columns import Array, Mask
from tabane.engine.embedded.vectors.space_index import SpaceSnapshot
from tabane.engine.embedded.vectors.vector_kernel import EARLY, BinaryCodes, Counts, Floats, lowest
from tabane.engine.vector_request import Matrix, VectorRequest
from tabane.search.engine import Combination

FEW = 0.3  # of the slots: fewer are picked out before their codes are counted
WIDEST = 8000  # where a query is near to nothing
_SURELY = 4.0  # standard deviations


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
        self._sealed = view.coded
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


CANDIDATES = 1000
MOST_FIRST = 1000  # of several spaces
EXACT = 2500  # records that are compared without a look at their codes, which rule out too few of them
_PART = 32_768
_STRIDE = 16  # one of so many tells which are the highest
_CLOSE = 1e-4  # more than what float32 can be wrong by


@dataclass(frozen=True, slots=True)
class VectorMatches:
    """Places in the mask, best first, with their scores; ``compared`` could have been found in all.

    ``whole``: all of them were compared exactly.
    """

    places: Array
    scores: Floats
    compared: int
    whole: bool


class VectorSpaceSearch:
    """One question over one moment. ``mask`` says by place which records are meant; place 0 is ``origin``."""

    def __init__(
        self,
        question: VectorRequest,
        views: Mapping[str, SpaceSnapshot],
        mask: Mask,
        origin: int,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        """``pause`` is called between blocks of work, so that others can run."""
        self._question = question
        self._pause = pause
        self._views = [views[name] for name in question.vectors]
        self._queries = list(question.vectors.values())
        self._size = len(mask)
        self._origin = origin
        self._live = [view.within(mask, origin) for view in self._views]

    def best(self, wanted: int) -> VectorMatches:
        """Return the ``wanted`` best, and all that equal the last of them."""
        if len(self._views) == 1:
            return self._best_of_one(wanted)
        there, slots, dense = self._comparable()
        most = MOST_FIRST + 4 * wanted
        few = len(there) <= max(EXACT, most)
        if few or self._question.multiplied or all(view.codes is None for view in self._views):
            return self._ranked(there, slots, wanted, len(there), True)
        estimated = _EstimatedRecords(self._question, self._views, self._queries, slots, dense, self._pause)
        first = _highest(estimated.likely, most)
        known = [self._cosines(number, each[first]) for number, each in enumerate(slots)]
        reached = self._reached(self._question.combined(known), wanted)
        reached -= _CLOSE * max(1.0, abs(reached))
        possible = np.setdiff1d(estimated.possible(first, known, reached), first, assume_unique=True)
        more, others = self._refined(estimated.spaces, [each[possible] for each in slots], reached)
        found = np.concatenate([first, possible[more]])
        cosines = np.concatenate([self._question.combined(known), others])
        return self._ranked(there[found], [each[found] for each in slots], wanted, len(there), False, cosines)

    def _refined(
        self, spaces: list[SimilarityEstimates], slots: list[Array], reached: float
    ) -> tuple[Array, Array]:
        """Which of them reach it, and their similarities: each space rules some of them out for the next."""
        errors = [space.error for space in spaces]
        known = [space.fine(each) for space, each in zip(spaces, slots, strict=True)]
        highest = self._question.highest(known, errors)
        possible = np.flatnonzero(highest >= reached)
        if len(possible) > WIDEST and not self._question.strict:
            possible = np.sort(possible[np.argpartition(-highest[possible], WIDEST)[:WIDEST]])
        known = [each[possible] for each in known]
        for number, of_space in enumerate(slots):
            known[number], errors[number] = self._cosines(number, of_space[possible]), 0.0
            kept = np.flatnonzero(self._question.highest(known, errors) >= reached)
            possible, known = possible[kept], [each[kept] for each in known]
        return possible, self._question.combined(known)

    def _best_of_one(self, wanted: int) -> VectorMatches:
        view, live = self._views[0], self._live[0]
        count = int(np.count_nonzero(live))
        most = CANDIDATES + 4 * wanted
        if view.codes is None or count <= max(EXACT, most):
            slots = np.flatnonzero(live)
            return self._ranked(view.rows[slots] - self._origin, [slots], wanted, count, True)
        slots, rough = self._near(view.codes, wanted, most)
        return self._ranked(view.rows[slots] - self._origin, [slots], wanted, count, False, rough)

    def _near(self, codes: BinaryCodes, wanted: int, most: int) -> tuple[Array, Array]:
        """Slots with their similarities: the nearest by their codes, and all that may be as near as they."""
        view, query = self._views[0], self._queries[0]
        sealed, live = view.coded, self._live[0]
        sieve = CodeFilter(view.data, codes, query, live[:sealed], int(np.count_nonzero(live[:sealed])))
        near = sieve.nearest(most)
        slots = np.concatenate([near, np.flatnonzero(live[sealed:]) + sealed])
        similarities = view.cosines(query, slots)
        more = sieve.others(near, similarities[: len(near)], self._reached(similarities, wanted))
        if len(more):
            slots = np.concatenate([slots, more])
            similarities = np.concatenate([similarities, view.cosines(query, more)])
        return slots, similarities

    def _reached(self, similarities: Array, wanted: int) -> float:
        """Return what the last of the hits to be proven reaches at least."""
        proven = self._question.proven
        wanted = wanted if proven is None else min(wanted, max(1, proven))
        least = -np.inf
        if len(similarities) >= wanted:
            least = float(np.partition(similarities, len(similarities) - wanted)[len(similarities) - wanted])
        threshold = self._question.threshold
        return least if threshold is None else max(least, threshold)

    def _comparable(self) -> tuple[Array, list[Array], bool]:
        """The places of records that have one of the spaces, or all of them where the question wants that,
        and their slots in each space, -1 if they have none.

        And whether these are simply all slots of all spaces, as where every record has them and is meant.
        """
        runs = [view.run(self._origin, self._size) for view in self._views]
        run = runs[0]
        if run is not None and all(each == run for each in runs) and self._live[0].all():
            slots = np.arange(run.stop - run.start)
            return slots + run.start, [slots] * len(runs), True
        found = self._slots()
        join = np.logical_and if self._question.whole else np.logical_or
        there = np.flatnonzero(join.reduce([each >= 0 for each in found]))
        return there, found if len(there) == self._size else [each[there] for each in found], False

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

    def _ranked(
        self,
        places: Array,
        slots: list[Array],
        wanted: int,
        compared: int,
        whole: bool,
        rough: Array | None = None,
    ) -> VectorMatches:
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
        return VectorMatches(places[order], scores[order], compared, whole)

    def similarities(self, slots: list[Array]) -> Array:
        """Return the combined similarity of records by their slots in each space (-1: none), as float32."""
        return self._question.combined([self._cosines(number, each) for number, each in enumerate(slots)])

    def _cosines(self, number: int, slots: Array) -> Array:
        there = _in_order(slots)
        found = np.full(len(slots), np.nan, dtype=np.float32)
        found[there] = self._views[number].cosines(self._queries[number], slots[there], self._pause)
        return found

    def _exactly(self, slots: list[Array]) -> Floats:
        found = []
        for view, query, of_space in zip(self._views, self._queries, slots, strict=True):
            there = _in_order(of_space)
            each = np.full(len(of_space), np.nan)
            each[there] = view.exact_cosines(query, of_space[there])
            found.append(each)
        return np.asarray(self._question.combined(found), dtype=np.float64)

    def places(self) -> tuple[Array, list[Array]]:
        """Return all records that can be compared, in order, and their slots in each space."""
        there, slots, _ = self._comparable()
        return there, slots


class _EstimatedRecords:
    """Records of several spaces, by some bits of their codes. ``dense``: of all slots, as they are."""

    def __init__(
        self,
        question: VectorRequest,
        views: list[SpaceSnapshot],
        queries: list[Matrix],
        slots: list[Array],
        dense: bool,
        pause: Callable[[], None],
    ) -> None:
        # Some words suffice if they rule out enough in one near space; otherwise all are counted at once.
        early = EARLY if question.combination is Combination.MAXIMUM else 0
        self._question = question
        self._slots = slots
        self._dense = dense
        self._pause = pause
        self.spaces = [SimilarityEstimates(*each, early) for each in zip(views, queries, strict=True)]
        self.likely = np.zeros(len(slots[0]), dtype=np.float32)
        if dense and question.factors is not None:
            for space, factor in zip(self.spaces, question.factors.tolist(), strict=True):
                pause()
                space.add_rough(factor, self.likely)
            return
        for part, rough in self._parts():
            self.likely[part] = question.combined(rough)

    def possible(self, near: Array, known: list[Array], reached: float) -> Array:
        """Return which records may reach it. ``known``: the cosines of the ``near`` ones in each space."""
        errors = [
            space.check(slots[near], cosines)
            for space, slots, cosines in zip(self.spaces, self._slots, known, strict=True)
        ]
        margin = self._question.margin(errors)
        if margin is not None:
            return np.flatnonzero(self.likely >= reached - margin)
        highest = ((part, self._question.highest(rough, errors)) for part, rough in self._parts())
        return np.concatenate([part.start + np.flatnonzero(each >= reached) for part, each in highest])

    def _parts(self) -> Iterator[tuple[slice, list[Array]]]:
        """Estimates part by part: as many as stay in the processor's own memory."""
        by_record = None if self._dense else [*map(SimilarityEstimates.rough, self.spaces, self._slots)]
        for first in range(0, len(self.likely), _PART):
            self._pause()
            part = slice(first, min(first + _PART, len(self.likely)))
            if by_record is None:
                yield part, [space.rough(part) for space in self.spaces]
            else:
                yield part, [each[part] for each in by_record]


def _highest(likely: Array, most: int) -> Array:
    """Indexes of the highest, in order; where others are as high as the last of them, not all of these."""
    some = likely[::_STRIDE]
    place = len(some) - min(len(some), 1 + 3 * most // (2 * _STRIDE))
    found = np.flatnonzero(likely >= np.partition(some, place)[place])  # half as many again, most likely
    if not most <= len(found) <= 4 * most:
        found = np.arange(len(likely))
    if len(found) > most:
        found = found[np.argpartition(-likely[found], most)[:most]]
    return np.sort(found)


def _in_order(slots: Array) -> Array:
    """Return if there are slots (-1: none), in order of these: as they lie on the disk."""
    there = np.flatnonzero(slots >= 0)
    slots = slots[there]
    return there if (slots[1:] > slots[:-1]).all() else there[np.argsort(slots, kind="stable")]


# Messages to and from the process that searches vectors


class MappedArray(msgspec.Struct, frozen=True, array_like=True):
    """An array in a file. ``offset`` is in bytes. The file is not changed where the array is."""

    path: str
    offset: int
    kind: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def opened(self) -> Array:
        """Map the array, read-only. Raises OSError if the file is gone, ValueError if it is too short."""
        file = np.memmap(self.path, dtype=np.uint8, mode="r")
        return np.ndarray(self.shape, self.kind, file, self.offset, self.strides)


class SentSpace(msgspec.Struct, frozen=True, array_like=True):
    """A :class:`SpaceSnapshot`. ``rows`` is the first row alone if ``straight``, else all, as int64."""

    rows: bytes
    slots: int
    straight: bool
    data: MappedArray
    mean: bytes
    words: MappedArray
    units: bool = False

    def snapshot(self) -> SpaceSnapshot:
        """Return the space. Raises as :meth:`MappedArray.opened`."""
        data = self.data.opened()
        rows = np.frombuffer(self.rows, dtype=np.int64)
        if self.straight:
            rows = np.arange(rows[0], rows[0] + self.slots, dtype=np.int64)
        codes = BinaryCodes(np.frombuffer(self.mean, dtype=np.float32), self.words.opened(), self.units)
        return SpaceSnapshot(rows, data, codes, self.straight)


class SentMoment(msgspec.Struct, frozen=True, array_like=True):
    """Live records, one bit a place, and the spaces. Place 0 is row ``origin``."""

    origin: int
    places: int
    live: bytes
    spaces: dict[str, SentSpace]

    @property
    def mask(self) -> Mask:
        bits = np.frombuffer(self.live, dtype=np.uint8)
        return np.unpackbits(bits, count=self.places).astype(np.bool_)


class SentQuestion(msgspec.Struct, frozen=True, array_like=True):
    """A question about the moment ``number``, which comes with the first one. ``vectors``: float32, units."""

    number: int
    moment: SentMoment | None
    vectors: dict[str, bytes]
    combination: Combination
    weights: dict[str, float]
    threshold: float | None
    whole: bool
    proven: int | None
    wanted: int

    @property
    def request(self) -> VectorRequest:
        vectors = {name: np.frombuffer(vector, dtype=np.float32) for name, vector in self.vectors.items()}
        return VectorRequest(vectors, self.combination, self.weights, self.threshold, self.whole, self.proven)


class SentMatches(msgspec.Struct, frozen=True, array_like=True):
    """:class:`VectorMatches`: places as int64, scores as float64."""

    places: bytes
    scores: bytes
    compared: int
    whole: bool

    @property
    def matches(self) -> VectorMatches:
        places, scores = np.frombuffer(self.places, np.int64), np.frombuffer(self.scores, np.float64)
        return VectorMatches(places, scores, self.compared, self.whole)


_ENCODER = msgspec.msgpack.Encoder()
_QUESTION = msgspec.msgpack.Decoder(SentQuestion)
_MATCHES = msgspec.msgpack.Decoder(SentMatches | None)


def packed_question(number: int, moment: SentMoment | None, request: VectorRequest, wanted: int) -> bytes:
    """Encode a request for ``wanted`` matches of moment ``number``, with that moment if it is new."""
    vectors = {name: vector.tobytes() for name, vector in request.vectors.items()}
    asked = SentQuestion(
        number, moment, vectors, request.combination, dict(request.weights), request.threshold,
        request.whole, request.proven, wanted,
    )  # fmt: skip
    return _ENCODER.encode(asked)


def read_question(body: bytes) -> SentQuestion:
    """Decode a question. Raises msgspec.DecodeError."""
    return _QUESTION.decode(body)


def packed_matches(found: VectorMatches | None) -> bytes:
    """Encode an answer: None if the process does not have the moment."""
    if found is None:
        return _ENCODER.encode(None)
    places = np.ascontiguousarray(found.places, dtype=np.int64).tobytes()
    return _ENCODER.encode(SentMatches(places, found.scores.tobytes(), int(found.compared), found.whole))


def read_matches(body: bytes) -> SentMatches | None:
    """Return the answer. Raises msgspec.DecodeError."""
    found: SentMatches | None = _MATCHES.decode(body)
    return found


def sent_moment(
    origin: int, alive: Mask, spaces: Mapping[str, SpaceSnapshot], most: int
) -> SentMoment | None:
    """Return what is sent of a moment; None if vectors are not in files, or ``most`` bytes are exceeded."""
    found = {name: sent_space(view) for name, view in spaces.items()}
    sent = {name: space for name, space in found.items() if space is not None}
    if len(sent) < len(found) or sum(len(space.rows) for space in sent.values()) > most:
        return None
    return SentMoment(origin, len(alive), np.packbits(alive).tobytes(), sent)


def sent_space(view: SpaceSnapshot) -> SentSpace | None:
    """Return what is sent of a space; None if it has no codes, or its vectors are not in files."""
    data = mapped(view.data)
    words = None if view.codes is None else mapped(view.codes.words)
    if data is None or words is None or view.codes is None:
        return None
    rows = view.rows[:1] if view.straight else view.rows
    mean = np.asarray(view.codes.mean, dtype=np.float32).tobytes()
    return SentSpace(rows.tobytes(), len(view.rows), view.straight, data, mean, words, view.codes.units)


def mapped(array: Array) -> MappedArray | None:
    """Return where an array is in a mapped file; None if it is not in one."""
    base: object = array
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    if not isinstance(base, np.memmap) or base.filename is None:
        return None
    while isinstance(base.base, np.memmap):
        base = base.base
    offset = base.offset + array.ctypes.data - base.ctypes.data
    return MappedArray(str(base.filename), offset, array.dtype.str, array.shape, array.strides)
