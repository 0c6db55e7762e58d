"""Messages between a collection and the process that searches its vectors; pure, except for mapping files.

A moment is sent once: which records are live, and where the vectors are. Unit vectors and codes are in mapped
files, which the process maps too, so they take no memory twice. Questions name their moment by its number.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from tabane.engine.embedded.columns import Array, Mask
from tabane.engine.embedded.vectors.space_index import SpaceSnapshot
from tabane.engine.embedded.vectors.vector_kernel import BinaryCodes
from tabane.engine.embedded.vectors.vector_search import VectorMatches
from tabane.engine.vector_request import VectorRequest
from tabane.search.engine import Combination


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

    def snapshot(self) -> SpaceSnapshot:
        """Return the space. Raises as :meth:`MappedArray.opened`."""
        data = self.data.opened()
        rows = np.frombuffer(self.rows, dtype=np.int64)
        if self.straight:
            rows = np.arange(rows[0], rows[0] + self.slots, dtype=np.int64)
        codes = BinaryCodes(np.frombuffer(self.mean, dtype=np.float32), self.words.opened())
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
    return SentSpace(rows.tobytes(), len(view.rows), view.straight, data, mean, words)


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
