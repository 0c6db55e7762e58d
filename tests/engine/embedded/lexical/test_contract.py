"""The indexed engine keeps the contracts of indexes, from its tail and from its index alike."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tabane.search.engine import Collection
from tabane.search.records import Record, Shape
from tests.engine.embedded.contract import RecordsContract
from tests.engine.embedded.lexical.contract import LexicalContract, SubstringContract
from tests.engine.embedded.lexical.homes import lexical
from tests.engine.embedded.opening import indexed

pytestmark = pytest.mark.heavy("thousands of records")


@asynccontextmanager
async def settled(home: Path, shape: Shape) -> AsyncIterator[Collection]:
    """A collection that has every write in its index before it goes on."""
    async with indexed(home, shape) as collection:
        upsert, delete = collection.upsert, collection.delete

        async def upserted(records: Sequence[Record], models: Mapping[str, str] | None = None) -> list[bool]:
            answer = await upsert(records, models)
            await lexical(collection).settled()
            return answer

        async def deleted(keys: Sequence[str]) -> int:
            answer = await delete(keys)
            await lexical(collection).settled()
            return answer

        collection.upsert = upserted  # type: ignore[method-assign]
        collection.delete = deleted  # type: ignore[method-assign]
        yield collection


class TestRecords(RecordsContract):
    engine = staticmethod(indexed)


class TestTail(LexicalContract, SubstringContract):
    engine = staticmethod(indexed)


class TestIndex(LexicalContract, SubstringContract):
    engine = staticmethod(settled)
