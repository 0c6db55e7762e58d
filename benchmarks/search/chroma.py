"""Chroma in its embedded form. It ranks by vectors alone: of words it can say whether they are there.

It wants a vector of every record; those here are as small as they can be, and mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import chromadb  # type: ignore[import-not-found]
from benchmarks.search.engines import MOST
from benchmarks.search.generator import Asked, Entry


class Measured:
    batch = 5_000
    most = 20_000  # it takes minutes for more
    version = version("chromadb")

    async def open(self, folder: Path) -> None:
        settings = chromadb.config.Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(str(folder), settings)
        self._collection: Any = client.get_or_create_collection("record", embedding_function=None)

    async def fill(self, entries: Sequence[Entry]) -> None:
        self._collection.upsert(
            ids=[entry.key for entry in entries],
            embeddings=[[entry.date % 997 / 997, 1.0] for entry in entries],
            documents=[entry.text for entry in entries],
            metadatas=[{"date": entry.date, "user": entry.user} for entry in entries],
        )

    async def filled(self) -> None:
        pass

    async def upsert(self, entry: Entry) -> None:
        await self.fill([entry])

    async def search(self, asked: Asked) -> list[str]:
        raise NotImplementedError

    async def contains(self, asked: Asked) -> list[str]:
        found = self._collection.get(where_document={"$contains": asked.needle}, limit=MOST, include=[])
        return list(found["ids"])

    async def close(self) -> None:
        pass
