"""Records with text, fields and vectors, made part by part: a million of them are never in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from benchmarks.search.generator import Entry, Generator

from tabane.search.records import EmbeddingSpace, Field, Kind, Record, Shape, StoredRecord, TextField

DIMENSION = 384
TOGETHER = 1000
"""Records of a part, which one upsert takes."""

SHAPE = Shape(
    "posts",
    (TextField("text"),),
    (Field("user", Kind.STRING), Field("at", Kind.DATE)),
    (EmbeddingSpace("text", DIMENSION),),
)
_SEED = 11
_CENTERS = 500
_SPREAD = 0.6  # of a vector around its center, in standard deviations
_ASIDE = 0.3  # of a question from a vector


class Corpus:
    """``size`` records, the same ones each time, with vectors around 500 centers."""

    def __init__(self, size: int) -> None:
        self.size, self.generator = size, Generator()
        self._centers = np.random.default_rng(_SEED).standard_normal((_CENTERS, DIMENSION))

    def parts(self) -> Iterator[list[Record]]:
        """Return all records, in parts."""
        entries = self.generator.entries(self.size)
        for first in range(0, self.size, TOGETHER):
            vectors = self._vectors(first // TOGETHER)
            yield [_record(entry, each) for each, entry in zip(vectors, entries, strict=False)]

    def rows(self) -> Iterator[list[StoredRecord]]:
        """Return all records with their row numbers, in parts."""
        for number, part in enumerate(self.parts()):
            first = number * TOGETHER + 1
            yield [StoredRecord(record=each, row=row) for row, each in enumerate(part, first)]

    def entries(self, count: int) -> list[Entry]:
        """Return the first records, to make questions of."""
        return list(self.generator.entries(count))

    def questions(self, count: int) -> list[bytes]:
        """Return vectors near those of records."""
        chance = np.random.default_rng(_SEED + 1)
        parts = chance.integers(0, self.size // TOGETHER, count)
        places = chance.integers(0, TOGETHER, count)
        aside = _ASIDE * chance.standard_normal((count, DIMENSION))
        found = [self._vectors(int(part))[place] for part, place in zip(parts, places, strict=True)]
        return [(one + off).astype("<f4").tobytes() for one, off in zip(found, aside, strict=True)]

    def _vectors(self, part: int) -> np.ndarray:
        chance = np.random.default_rng([_SEED, part])
        near = self._centers[chance.integers(0, _CENTERS, TOGETHER)]
        moved: np.ndarray = (near + _SPREAD * chance.standard_normal(near.shape)).astype("<f4")
        return moved


def _record(entry: Entry, vector: np.ndarray) -> Record:
    return Record(
        key=entry.key,
        texts={"text": entry.text},
        fields={"user": entry.user, "at": entry.date},
        vectors={"text": vector.tobytes()},
        payload=b"{}",
    )
