"""Records of how each model made its vectors, so that the same model can be found again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from tabane.errors import ConfigurationError
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
            known = await self._read()
            known[fingerprint] = record
            for oldest in sorted(known, key=lambda name: known[name].opened)[: max(len(known) - MOST, 0)]:
                del known[oldest]
            await self._write(known)

    async def note_speeds(self, speeds: Mapping[str, tuple[float, float]]) -> None:
        """Remember the speeds of models: milliseconds of a query, and texts per second; 0: not measured."""
        async with self._turn:
            known = await self._read()
            changed = {
                name: structs.replace(
                    known[name],
                    query_ms=round(query, 2) or known[name].query_ms,
                    texts_per_second=round(texts, 1) or known[name].texts_per_second,
                )
                for name, (query, texts) in speeds.items()
                if name in known
            }
            if any(known[name] != record for name, record in changed.items()):
                known |= changed
                await self._write(known)

    async def _write(self, known: Mapping[str, ModelRecord]) -> None:
        data = msgspec.json.format(msgspec.json.encode({"models": known}), indent=1)
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
    found = {}
    for fingerprint, entry in entries.items():
        try:
            found[fingerprint] = msgspec.json.decode(entry, type=ModelRecord)
        except msgspec.DecodeError as error:
            log.warning("%s: %s is ignored: %s", path, fingerprint, error)
    return found
