"""The engine on PostgreSQL fulfills the contracts of engines."""

from __future__ import annotations

import pytest

from tests.harness.postgres_server import PostgresServer
from tests.postgres.collections import opening
from tests.store.contract import RecordsContract
from tests.store.exchanging import ExchangeContract
from tests.store.lexical.contract import LexicalContract, SubstringContract
from tests.store.vectors.contract import VectorsContract
from tests.store.vectors.ranking import RankingContract
from tests.store.vectors.spaces import SpacesContract


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
