"""Keywords by sparse vectors on a real server of Milvus Lite; an older server leaves them to PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tabane.engine.team.milvus.index import MilvusIndex
from tabane.engine.team.milvus.index_url import parsed
from tests.conftest import absent
from tests.engine.team.milvus.test_milvus import CountedIndex
from tests.engine.team.postgres.outside import catch_up, linked
from tests.engine.team.postgres.outside_keyword_checks import (
    FILTERS,
    SHAPE,
    Library,
    check_keywords,
    exact_hits,
)
from tests.harness.milvus_lite_server import MilvusLiteServer, is_installed, milvus_lite_server
from tests.harness.milvus_server import MilvusServer
from tests.harness.postgres_server import PostgresServer


@pytest.fixture(scope="module")
def lite() -> Iterator[MilvusLiteServer]:
    if not is_installed():
        absent("Milvus Lite (make milvus)")
    with milvus_lite_server() as server:
        yield server


@pytest.mark.heavy("a real Milvus")
async def test_hits_and_scores_are_those_of_the_database_alone(
    postgres: PostgresServer, lite: MilvusLiteServer, tmp_path: Path
) -> None:
    library, index = Library(1500), CountedIndex(parsed(lite.url()))
    exact = await exact_hits(postgres, tmp_path, library)
    async with linked(postgres, index, tmp_path, SHAPE) as (collection, link):
        await catch_up(collection, link)
        await check_keywords(collection, library, exact)
    assert index.answered >= len(FILTERS) * len(library.queries)


def test_a_server_without_sparse_vectors_is_not_used_for_keywords(milvus: MilvusServer) -> None:
    index = MilvusIndex(parsed(milvus.url("keywords=milvus")))
    assert not index.version().sparse
    index.close()


def test_keywords_are_searched_in_postgresql_by_default(lite: MilvusLiteServer) -> None:
    index = MilvusIndex(parsed(lite.url("timeout=20")))
    assert not index.version().sparse
    index.close()
