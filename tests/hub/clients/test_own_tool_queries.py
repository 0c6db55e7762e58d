"""What people say, and the hub's own tool for it: found first by words alone, beside the tools of servers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tabane.catalog.tools.index import ToolIndex, ToolQuery
from tabane.catalog.tools.tool import OWN
from tabane.hub.clients.disclosure import own_tools
from tabane.hub.process.administration import whole_table
from tests.catalog.tools.tools import corpus
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)
QUERIES: list[tuple[str, list[str]]] = CASES["queries"]


@pytest.fixture(scope="module")
def index() -> Iterator[ToolIndex]:
    index = ToolIndex(":memory:")
    for name, tools in corpus()[0].items():
        index.replace(name, tools)
    index.replace(OWN, own_tools(asyncio.run(whole_table())))
    yield index
    index.close()


@pytest.mark.parametrize(("query", "wanted"), QUERIES)
def test_the_own_tool_for_what_people_say_is_found_first(
    index: ToolIndex, query: str, wanted: tuple[str, ...]
) -> None:
    hits = [hit.alias for hit in index.search(ToolQuery(query, 3)).hits]
    assert set(hits[:1]) & set(wanted), hits
