"""The engine on PostgreSQL with an index on Milvus fulfills the contracts of vectors and spaces."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.search.engine import Combination, VectorQuery
from tabane.search.records import Record
from tests.engine.embedded.vectors.contract import VectorsContract
from tests.engine.embedded.vectors.oracle import QUERIES, RECORDS
from tests.engine.embedded.vectors.spaces import SpacesContract
from tests.engine.team.milvus_collections import opening
from tests.harness.milvus_server import MilvusServer
from tests.harness.postgres_server import PostgresServer

pytestmark = pytest.mark.heavy("a real Milvus")


class OnMilvus:
    """Opens collections whose vectors are in the index from the first one on."""

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _engine(cls, postgres: PostgresServer, milvus: MilvusServer) -> None:
        cls.engine = staticmethod(opening(postgres, milvus))  # type: ignore[attr-defined]


class TestVectors(OnMilvus, VectorsContract):
    @settings(max_examples=3, deadline=None)  # it takes a server seconds to create a collection
    @given(st.lists(RECORDS, max_size=25), st.lists(QUERIES, min_size=1, max_size=4), st.integers(1, 8))
    async def test_the_nearest_are_the_nearest(
        self, records: list[Record], queries: list[VectorQuery], limit: int
    ) -> None:
        await self.check_nearest(records, queries, limit)

    @pytest.mark.parametrize("combination", [Combination.AVERAGE])  # of several spaces: without the index
    async def test_many_are_searched_as_exactly_as_few(self, combination: Combination) -> None:
        await super().test_many_are_searched_as_exactly_as_few(combination)


class TestSpaces(OnMilvus, SpacesContract):
    pass
