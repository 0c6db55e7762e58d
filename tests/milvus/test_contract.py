"""The engine on PostgreSQL with an index on Milvus fulfills the contracts of vectors and spaces."""

from __future__ import annotations

import pytest

from tabane.search.engine import Combination
from tests.harness.milvus_server import MilvusServer
from tests.harness.postgres_server import PostgresServer
from tests.milvus.collections import opening
from tests.store.vectors.contract import VectorsContract
from tests.store.vectors.spaces import SpacesContract


class OnMilvus:
    """Opens collections whose vectors are in the index from the first one on."""

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _engine(cls, postgres: PostgresServer, milvus: MilvusServer) -> None:
        cls.engine = staticmethod(opening(postgres, milvus))  # type: ignore[attr-defined]


class TestVectors(OnMilvus, VectorsContract):
    @pytest.mark.parametrize("combination", [Combination.AVERAGE])  # of several spaces: without the index
    def test_many_are_searched_as_exactly_as_few(self, combination: Combination) -> None:
        super().test_many_are_searched_as_exactly_as_few(combination)


class TestSpaces(OnMilvus, SpacesContract):
    pass
