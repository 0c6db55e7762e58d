"""Records of models: how each made its vectors, so that it can be found again, and how fast it is here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from tabane.errors import ConfigurationError
from tabane.search.embedding.embedder import Embedder, Kind, Take, collect_vectors
from tabane.settings.files import read_trusted, write_private

log = logging.getLogger(__name__)


FILE = "models.json"
"""Under the home."""

MOST = 200
"""Models that are remembered; those that were opened longest ago are forgotten first."""


class ModelRecord(Struct, frozen=True, omit_defaults=True):
    """The meaning of a fingerprint.

    ``model`` is what the settings would name: ``org/name@commit``, a folder, or with ``url`` its name at that
    server, whose key is the value of the variable named by ``key``. The rest is the settled recipe, so that
    later knowledge of families does not change it. ``opened`` is seconds since 1970. ``query_ms`` and
    ``texts_per_second`` are the speed on this machine when it was last used, 0 if it was not measured.
    """

    model: str
    dimension: int
    opened: float = 0
    url: str = ""
    key: str = ""
    loader: Literal["auto", "onnx", "sentence-transformers"] = "auto"
    quantisation: Literal["none", "int8"] = "none"
    pooling: Literal["mean", "cls", "last"] = "mean"
    max_tokens: int = 0
    query: str = ""
    document: str = ""
    topic: str = ""
    kept: int = 0
    output: str = ""
    query_ms: float = 0
    texts_per_second: float = 0


class _ModelRecordsFile(Struct, frozen=True):
    models: dict[str, msgspec.Raw]


class ModelRecords:
    """The records by fingerprint, in one JSON file that is replaced in one step."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._known: dict[str, ModelRecord] | None = None
        self._turn = asyncio.Lock()

    async def all(self) -> Mapping[str, ModelRecord]:
        """Return all records.

        A file that cannot be read is moved aside; an entry that cannot be read is left out.
        """
        async with self._turn:
            return await self._read()

    async def add(self, fingerprint: str, record: ModelRecord) -> None:
        """Remember a model; that it cannot be written is logged, and no more."""
        record = structs.replace(record, opened=time.time())
        async with self._turn:
            records = await self._read()
            records[fingerprint] = record
            for oldest in sorted(records, key=lambda name: records[name].opened)[
                : max(len(records) - MOST, 0)
            ]:
                del records[oldest]
            await self._write(records)

    async def note_speeds(self, speeds: Mapping[str, tuple[float, float]]) -> None:
        """Remember the speeds of models: milliseconds of a query, and texts per second; 0: not measured."""
        async with self._turn:
            records = await self._read()
            changed = {
                name: structs.replace(
                    records[name],
                    query_ms=round(query, 2) or records[name].query_ms,
                    texts_per_second=round(texts, 1) or records[name].texts_per_second,
                )
                for name, (query, texts) in speeds.items()
                if name in records
            }
            if any(records[name] != record for name, record in changed.items()):
                records |= changed
                await self._write(records)

    async def _write(self, records: Mapping[str, ModelRecord]) -> None:
        data = msgspec.json.format(msgspec.json.encode({"models": records}), indent=1)
        try:
            await asyncio.to_thread(write_private, self._path, data)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error)

    async def _read(self) -> dict[str, ModelRecord]:
        if self._known is None:
            self._known = await asyncio.to_thread(_records, self._path)
        return self._known


def _records(path: Path) -> dict[str, ModelRecord]:
    try:
        entries = msgspec.json.decode(read_trusted(path), type=_ModelRecordsFile).models
    except FileNotFoundError:
        return {}
    except (ConfigurationError, msgspec.DecodeError) as error:
        log.warning("%s cannot be read and is renamed: %s", path, error)
        with contextlib.suppress(OSError):
            os.replace(path, path.with_suffix(".broken"))
        return {}
    records = {}
    for fingerprint, entry in entries.items():
        try:
            records[fingerprint] = msgspec.json.decode(entry, type=ModelRecord)
        except msgspec.DecodeError as error:
            log.warning("%s: %s is ignored: %s", path, fingerprint, error)
    return records


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


def _mixed(mean: float, new: float) -> float:
    return new if not mean else mean + _WEIGHT * (new - mean)


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
        speeds = {
            name: ModelSpeed(records[name].query_ms, records[name].texts_per_second)
            for name in sorted(records, key=lambda name: records[name].opened)
        }
        return speeds | {name: speed for name, speed in self._known.items() if speed != ModelSpeed()}

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
        """Return the vectors of texts, and note the speed. Raises ModelError and its kinds."""
        if kind != "query":
            return await collect_vectors(self, texts, kind)
        if not self._runs():
            return await self.embedder.embed(texts, kind)
        begun = self._speeds.clock()
        vectors = await self.embedder.embed(texts, kind)
        if len(texts) == 1:
            self._speed.note_query(self._speeds.clock() - begun)  # written with the next texts, or at the end
        return vectors

    async def embed_parts(self, texts: Sequence[str], take: Take, kind: Kind = "document") -> None:
        """Embed texts, hand over each part, and measure it."""
        if not self._runs():
            await self.embedder.embed_parts(texts, take, kind)
            return
        if not self._calls:
            self._since, self._texts = self._speeds.clock(), 0
        self._calls += 1
        try:
            await self.embedder.embed_parts(texts, take, kind)
        finally:
            self._calls -= 1
        self._texts += len(texts)
        seconds = self._speeds.clock() - self._since
        if seconds >= _LEAST:
            self._speed.note_texts(self._texts, seconds)
            self._since, self._texts = self._speeds.clock(), 0
            await self._speeds.save()

    async def close(self) -> None:
        """Close the embedder."""
        await self.embedder.close()

    def _runs(self) -> bool:
        """Return whether the process of the model runs. Its start would be measured otherwise."""
        return getattr(self.embedder, "pid", 0) is not None
