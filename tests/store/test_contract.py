"""The embedded engine fulfills the contract of engines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tabane.search.engine import Collection
from tabane.search.records import Shape
from tabane.store.store import Store
from tests.store.contract import RecordsContract


@asynccontextmanager
async def embedded(home: Path, shape: Shape) -> AsyncIterator[Collection]:
    store = await Store.open(str(home), "test")
    try:
        yield await store.collection(shape)
    finally:
        await store.close()


class TestEmbedded(RecordsContract):
    engine = staticmethod(embedded)
