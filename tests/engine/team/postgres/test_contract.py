"""The engine on PostgreSQL fulfills the contracts of engines."""

from __future__ import annotations

import pytest

from tabane.search.engine import Combination
from tests.harness.postgres_server import PostgresServer
from tests.postgres.collections import opening
from tests.postgres.outside import opening_outside
from tests.store.contract import RecordsContract
from tests.store.exchanging import ExchangeContract
from tests.store.lexical.contract import LexicalContract, SubstringContract
from tests.store.vectors.contract import VectorsContract
from tests.store.vectors.ranking import RankingContract
from tests.store.vectors.spaces import SpacesContract

pytestmark = pytest.mark.heavy("a real PostgreSQL")


class OnPostgres:
    """Opens collections on the server of the tests."""

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _engine(cls, postgres: PostgresServer) -> None:
        cls.engine = staticmethod(opening(postgres))  # type: ignore[attr-defined]


class TestRecords(OnPostgres, RecordsContract):
    pass


class TestTexts(OnPostgres, LexicalContract, SubstringContract):
    pass


class TestVectors(OnPostgres, VectorsContract):
    pass


class TestSpaces(OnPostgres, SpacesContract):
    pass


class TestExchanges(OnPostgres, ExchangeContract):
    pass


class TestRankings(OnPostgres, RankingContract):
    pass


class OnIndexedPostgres:
    """Opens collections whose vectors have an approximate index from the first one on."""

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _engine(cls, postgres: PostgresServer) -> None:
        cls.engine = staticmethod(opening(postgres, 1))  # type: ignore[attr-defined]


class TestIndexedVectors(OnIndexedPostgres, VectorsContract):
    @pytest.mark.parametrize("combination", [Combination.AVERAGE])  # of several spaces: without the index
    async def test_many_are_searched_as_exactly_as_few(self, combination: Combination) -> None:
        await super().test_many_are_searched_as_exactly_as_few(combination)


class TestIndexedSpaces(OnIndexedPostgres, SpacesContract):
    pass


class OnOutsideIndex:
    """Opens collections whose vectors are in an index outside of the database, which follows them."""

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _engine(cls, postgres: PostgresServer) -> None:
        cls.engine = staticmethod(opening_outside(postgres))  # type: ignore[attr-defined]


class TestOutsideVectors(OnOutsideIndex, VectorsContract):
    @pytest.mark.parametrize("combination", [Combination.AVERAGE])  # of several spaces: without the index
    async def test_many_are_searched_as_exactly_as_few(self, combination: Combination) -> None:
        await super().test_many_are_searched_as_exactly_as_few(combination)


class TestOutsideSpaces(OnOutsideIndex, SpacesContract):
    pass
