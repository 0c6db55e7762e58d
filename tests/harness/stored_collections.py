"""Records that a home holds, written and read without a hub."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tabane.documents import document
from tabane.engine.collection_copying import batches
from tabane.engine.embedded.collection_copies import EmbeddedSource
from tabane.engine.embedded.lexical.lexical_index import open_lexical
from tabane.engine.embedded.store import Store
from tabane.posts import post
from tabane.search.records import EmbeddingSpace, Record, Shape, StoredRecord

DIMENSION = 8
DOCUMENTS = replace(document.SHAPE, spaces=(EmbeddingSpace("text", DIMENSION, "letters"),))
POSTS = replace(
    post.SHAPE,
    spaces=tuple(EmbeddingSpace(name, DIMENSION, f"model-{name}") for name in ("content", "summary")),
)


def vector(number: int, scale: float = 1.0) -> bytes:
    """Return a vector that differs from those of other numbers."""
    return struct.pack(
        f"<{DIMENSION}f", *(scale * ((number * (7 + place)) % 31 - 15.5) for place in range(8))
    )


def documents(count: int) -> list[Record]:
    return [
        Record(
            key=f"d{number:06}",
            texts={"text": f"Passage {number} about 東京 and topic{number % 97} サーバー."},
            fields={"part": "chunk", "document": f"doc{number % 50}", "metadata": ("a", f"m{number % 3}")},
            payload=b"\0\xff" + str(number).encode(),
            vectors={"text": vector(number)} if number % 10 else {},
        )
        for number in range(count)
    ]


def posts(count: int) -> list[Record]:
    """Return posts with all that is unusual: null characters, tiny vectors, absent fields and vectors."""
    return [
        Record(
            key=f"p\0{number}",
            texts={"content": f"post {number} 猫\0が寝る", "summary": f"summary {number % 7}"},
            fields={"user": f"u\0{number % 5}", "at": 1e9 + number, "log_type": number % 3}
            if number % 4
            else {"tags": ("x\1y", "z")},
            vectors={"content": vector(number, 1e-25), "summary": vector(number + 1)}
            if number % 3
            else {"content": vector(number)},
        )
        for number in range(count)
    ]


def fill(home: Path, domain: str, shape: Shape, records: Sequence[Record], gone: Sequence[str] = ()) -> None:
    """Write records as a hub does, and delete some of them."""

    async def filling() -> None:
        store = await Store.open(str(home / "store"), domain, lexical=open_lexical)
        try:
            collection = await store.collection(shape)
            stored = [StoredRecord(record=record, row=0) for record in records]
            for batch in batches(stored):
                for first in range(0, len(batch), 5000):
                    await collection.exchange([each.record for each in batch[first : first + 5000]])
            await collection.delete(gone)
        finally:
            await store.close()

    asyncio.run(filling())


def contents(home: Path, domain: str, shape: Shape) -> list[Record]:
    """Return all records in order of rows, with their vectors."""

    async def reading() -> list[Record]:
        store = await Store.open(str(home / "store"), domain)
        try:
            table = await store.table(replace(shape, spaces=()))
            try:
                found = await EmbeddedSource(table).after(0, 1_000_000)
                return [each.record for each in found]
            finally:
                await table.close()
        finally:
            await store.close()

    return asyncio.run(reading())
