"""The engine on PostgreSQL with an index on a Chroma server fulfills the contracts of vectors and spaces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tabane.engine.team.chroma.index import chroma_index
from tabane.engine.team.chroma.service import parsed
from tabane.search.engine import Combination
from tabane.search.records import Shape
from tests.engine.embedded.vectors.contract import VectorsContract
from tests.engine.embedded.vectors.spaces import SpacesContract
from tests.engine.team.postgres.collections import DatabaseCollection, OpenCollection
from tests.engine.team.postgres.outside import linked
from tests.harness.chroma_server import ChromaProcess
from tests.harness.postgres_server import PostgresServer

pytestmark = pytest.mark.heavy("a real Chroma")


def opening(server: PostgresServer, chroma: ChromaProcess) -> OpenCollection:
    """Return a function that opens a collection in the schema of a home."""

    @asynccontextmanager
    async def opened(home: Path, shape: Shape) -> AsyncIterator[DatabaseCollection]:
        async with linked(server, chroma_index(parsed(chroma.url())), home, shape) as (collection, _):
            yield collection

    return opened


class OnChroma:
    """Opens collections whose vectors are in the index from the first one on."""

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _engine(cls, postgres: PostgresServer, chroma: ChromaProcess) -> None:
        cls.engine = staticmethod(opening(postgres, chroma))  # type: ignore[attr-defined]


class TestVectors(OnChroma, VectorsContract):
    @pytest.mark.parametrize("combination", [Combination.AVERAGE])  # of several spaces: without the index
    async def test_many_are_searched_as_exactly_as_few(self, combination: Combination) -> None:
        await super().test_many_are_searched_as_exactly_as_few(combination)


class TestSpaces(OnChroma, SpacesContract):
    pass
