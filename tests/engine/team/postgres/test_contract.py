"""The engine on PostgreSQL fulfills the contracts of engines."""

from __future__ import annotations

import pytest

from tabane.search.engine import Combination
from tests.engine.embedded.contract import RecordsContract
from tests.engine.embedded.exchanging import ExchangeContract
from tests.engine.embedded.lexical.contract import LexicalContract, SubstringContract
from tests.engine.embedded.vectors.contract import VectorsContract
from tests.engine.embedded.vectors.ranking import RankingContract
from tests.engine.embedded.vectors.spaces import SpacesContract
from tests.engine.team.postgres.collections import opening
from tests.engine.team.postgres.outside import opening_outside
from tests.harness.postgres_server import PostgresServer

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
