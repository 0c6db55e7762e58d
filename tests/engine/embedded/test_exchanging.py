"""The indexed engine keeps the contract of exchanges, from its tail and while its index is committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tabane.search.engine import Collection
from tabane.search.records import Shape
from tests.engine.embedded.exchanging import ExchangeContract
from tests.engine.embedded.lexical.homes import lexical
from tests.engine.embedded.opening import indexed

pytestmark = pytest.mark.heavy("thousands of records")


@asynccontextmanager
async def settling(home: Path, shape: Shape) -> AsyncIterator[Collection]:
    """A collection whose index is committed and whose rows are moved, all the while."""
    async with indexed(home, shape) as collection:

        async def settle() -> None:
            while True:
                await lexical(collection).settled()
                await collection.engine.compact()
                await asyncio.sleep(0)

        task = asyncio.create_task(settle())
        try:
            yield collection
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class TestEmbedded(ExchangeContract):
    engine = staticmethod(indexed)


class TestSettling(ExchangeContract):
    engine = staticmethod(settling)
