"""Speed of each model on this machine, measured while it works, and kept with its record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from tabane.hub.sources.models.model_records import ModelRecords
from tabane.search.embedding.embedder import Embedder, Kind, Take, VectorPlaces, embed_parts

_WEIGHT = 0.2  # of the newest measurement
_LEAST = 0.5  # seconds of work that a number of texts per second is measured over
_SAVED = 60.0  # seconds between two writes of the file


class ModelSpeed(Struct):
    """Milliseconds of one query, and texts per second, as moving means. 0: not measured yet."""

    query_ms: float = 0.0
    texts_per_second: float = 0.0

    def note_query(self, seconds: float) -> None:
        self.query_ms = _mixed(self.query_ms, seconds * 1000)

    def note_texts(self, count: int, seconds: float) -> None:
        self.texts_per_second = _mixed(self.texts_per_second, count / seconds)


def _mixed(known: float, new: float) -> float:
    return new if not known else known + _WEIGHT * (new - known)


class ModelSpeeds:
    """The speeds of the models that have worked since the hub started. Older ones are in the records."""

    def __init__(self, records: ModelRecords, clock: Callable[[], float] = time.monotonic) -> None:
        self._records, self.clock = records, clock
        self._known: dict[str, ModelSpeed] = {}
        self._saved = clock()

    def timed(self, embedder: Embedder) -> TimedEmbedder:
        """Return the embedder with a measure of its speed."""
        return TimedEmbedder(embedder, self._known.setdefault(embedder.fingerprint, ModelSpeed()), self)

    async def all(self) -> Mapping[str, ModelSpeed]:
        """Return the speed of each model by its fingerprint, the last opened last."""
        records = await self._records.all()
        found = {
            name: ModelSpeed(records[name].query_ms, records[name].texts_per_second)
            for name in sorted(records, key=lambda name: records[name].opened)
        }
        return found | {name: speed for name, speed in self._known.items() if speed != ModelSpeed()}

    async def save(self, *, now: bool = False) -> None:
        """Write what was measured, at most once a minute."""
        if not now and self.clock() < self._saved + _SAVED:
            return
        self._saved = self.clock()
        speeds = {name: (speed.query_ms, speed.texts_per_second) for name, speed in self._known.items()}
        await self._records.note_speeds(speeds)


class TimedEmbedder:
    """An :class:`~tabane.search.embedding.embedder.Embedder` whose calls are measured.

    A call that starts the process is not counted. Texts are counted over the time in which any are embedded.
    """

    def __init__(self, embedder: Embedder, speed: ModelSpeed, speeds: ModelSpeeds) -> None:
        self.embedder = embedder
        self.fingerprint, self.dimension = embedder.fingerprint, embedder.dimension
        self._speed, self._speeds = speed, speeds
        self._calls, self._texts, self._since = 0, 0, 0.0

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        if kind != "query":
            found = VectorPlaces(len(texts))
            await self.embed_parts(texts, found.take, kind)
            return found.vectors
        if not self._runs():
            return await self.embedder.embed(texts, kind)
        begun = self._speeds.clock()
        vectors = await self.embedder.embed(texts, kind)
        if len(texts) == 1:
            self._speed.note_query(self._speeds.clock() - begun)  # written with the next texts, or at the end
        return vectors

    async def embed_parts(self, texts: Sequence[str], take: Take, kind: Kind = "document") -> None:
        """Embed texts as :class:`~tabane.search.embedding.embedder.PartialEmbedder` does, and measure it."""
        if not self._runs():
            await embed_parts(self.embedder, texts, take, kind)
            return
        if not self._calls:
            self._since, self._texts = self._speeds.clock(), 0
        self._calls += 1
        try:
            await embed_parts(self.embedder, texts, take, kind)
        finally:
            self._calls -= 1
        self._texts += len(texts)
        await self._note_texts()

    async def close(self) -> None:
        await self.embedder.close()

    def _runs(self) -> bool:
        """Return whether the process of the model runs. Its start would be measured otherwise."""
        return getattr(self.embedder, "pid", 0) is not None

    async def _note_texts(self) -> None:
        seconds = self._speeds.clock() - self._since
        if seconds >= _LEAST:
            self._speed.note_texts(self._texts, seconds)
            self._since, self._texts = self._speeds.clock(), 0
            await self._speeds.save()
