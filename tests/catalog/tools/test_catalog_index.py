"""The index of the catalog's tools is kept on disk, and made before anybody searches a large catalog."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import Raw

from tabane.catalog.catalogs import LARGE, CatalogIndex
from tabane.catalog.tools import index
from tabane.catalog.tools.aliases import AliasMap
from tabane.catalog.tools.catalog import ToolCatalog
from tabane.catalog.tools.index import ToolIndex, ToolQuery, tool_words
from tabane.catalog.tools.ranking import tool_postings
from tabane.catalog.tools.tool import Tool
from tabane.servers.server import Server
from tests.catalog.tools.lettered import vector
from tests.catalog.tools.tools import corpus
from tests.harness.patience import until

MODEL = "test/letters#1"


@pytest.fixture
def worker() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as worker:
        yield worker


class Catalog(ToolCatalog):
    """A catalog of servers with tools of a name and a description."""

    def __init__(self, sizes: dict[str, int]) -> None:
        super().__init__(AliasMap({}))
        self.failures = 0
        for server, count in sizes.items():
            self.offer(server, count)

    def offer(self, server: str, count: int, about: str = "Send the parcel") -> None:
        tools = [
            Raw(f'{{"name": "send_{number}", "description": "{about} {number}."}}'.encode())
            for number in range(count)
        ]
        self.put(Server(name=server), tools)

    def for_models(self, server: str) -> list[Tool]:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the catalog cannot be read")
        return super().for_models(server)


def indexed(path: Path) -> dict[str, list[int]]:
    """The numbers of the tools of each server in the file."""
    found: dict[str, list[int]] = {}
    if path.exists():
        with closing(sqlite3.connect(path)) as database:
            for server, number in database.execute("SELECT server, number FROM tools ORDER BY number"):
                found.setdefault(server, []).append(number)
    return found


def found(index: ToolIndex, query: str = "send parcel 7") -> tuple[str, ...]:
    return tuple(hit.alias for hit in index.search(ToolQuery(query)).hits)


def opened(path: Path, catalog: Catalog, worker: ThreadPoolExecutor, *servers: str) -> CatalogIndex:
    index = CatalogIndex(path, catalog, worker, asyncio.get_running_loop(), quiet=0.0)
    for server in servers:
        index.note(server)
    return index


async def test_a_large_catalog_is_indexed_before_anybody_searches(
    tmp_path: Path, worker: ThreadPoolExecutor
) -> None:
    path, catalog = tmp_path / "tools.db", Catalog({"a": LARGE // 2, "b": LARGE // 2})
    index = opened(path, catalog, worker, "a", "b")
    await until(lambda: set(indexed(path)) == {"a", "b"})
    before = indexed(path)
    assert [len(numbers) for numbers in before.values()] == [LARGE // 2] * 2
    catalog.offer("a", 3, "Weigh the parcel")
    index.note("a")
    await until(lambda: len(indexed(path)["a"]) == 3)
    assert indexed(path)["b"] == before["b"]  # what did not change is not made again
    assert await index.run(found) == ("b__send_7",)
    index.end()
    worker.submit(index.close).result()


async def test_a_small_catalog_is_indexed_by_its_first_search(
    tmp_path: Path, worker: ThreadPoolExecutor
) -> None:
    path, catalog = tmp_path / "tools.db", Catalog({"a": 9, "gone": 9})
    index = opened(path, catalog, worker, "a", "gone")
    for _ in range(10):
        await asyncio.sleep(0)
    assert not path.exists()
    catalog.remove("gone")
    index.note("gone")
    assert await index.run(found) == ("a__send_7",)
    assert set(indexed(path)) == {"a"}
    worker.submit(index.close).result()
    catalog.remove("a")
    again = opened(path, catalog, worker)
    assert await again.run(found) == ()  # a server that went while no hub ran
    worker.submit(again.close).result()


async def test_tools_that_could_not_be_indexed_are_tried_again_by_the_next_search(
    tmp_path: Path, worker: ThreadPoolExecutor
) -> None:
    path, catalog = tmp_path / "tools.db", Catalog({"a": LARGE})
    catalog.failures = 1
    index = opened(path, catalog, worker, "a")
    await until(lambda: not catalog.failures)
    assert await index.run(found) == ("a__send_7",)
    index.end()
    worker.submit(index.close).result()


async def test_nothing_is_indexed_after_the_end(tmp_path: Path, worker: ThreadPoolExecutor) -> None:
    index = opened(tmp_path / "tools.db", Catalog({"a": LARGE}), worker, "a")
    index.end()
    index.note("a")
    for _ in range(10):
        await asyncio.sleep(0)
    worker.submit(index.close).result()
    assert not (tmp_path / "tools.db").exists()


def test_a_kept_index_answers_as_a_new_one(tmp_path: Path) -> None:
    servers, asked = corpus()

    def filled(path: str, rest: Callable[[], None]) -> ToolIndex:
        index = ToolIndex(path)
        for server, tools in servers.items():
            index.replace(server, tools, rest)
        while gists := index.vectors.missing(MODEL, 100):
            index.vectors.put(MODEL, [(gist.key, vector(gist.text)) for gist in gists])
        return index

    rests: list[None] = []
    filled(str(tmp_path / "tools.db"), lambda: rests.append(None)).close()
    assert len(rests) == sum(map(len, servers.values()))
    kept, new = ToolIndex(str(tmp_path / "tools.db")), filled(":memory:", lambda: None)
    assert not any(kept.replace(server, tools) for server, tools in servers.items())
    assert {query["query"].isascii() for query in asked} == {True, False}  # English and Japanese
    for query in asked:
        wanted = ToolQuery(query["query"], 20, explain=True, folded=True)
        assert kept.search(wanted) == new.search(wanted)
        meant = {MODEL: [vector(query["query"])]}
        assert kept.search(wanted, meant) == new.search(wanted, meant)
    kept.close()
    new.close()


def test_other_tokens_are_another_version_of_the_file() -> None:
    """If this fails, an index of the last release is wrong: raise its version, and write the new digest."""
    servers, _ = corpus()
    digest = hashlib.blake2b(digest_size=8)
    for tools in servers.values():
        for tool in tools:
            digest.update(repr(sorted(tool_postings(tool_words(tool, {})).items())).encode())
    assert (index.VERSION, digest.hexdigest()) == (4, "9af51a274233830c")
