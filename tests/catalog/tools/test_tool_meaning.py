"""Vectors for the search of tools are made in the background, and a search does not wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tabane.catalog.catalogs import IndexVectors, ToolMeaning
from tabane.catalog.tools.vector_table import ToolGist
from tabane.errors import ModelUnavailable
from tabane.messages import say
from tabane.search.embedding.embedder import Embedder, NoModel
from tests.catalog.tools.lettered import Lettered, vector
from tests.harness.patience import LONG


class Store(IndexVectors):
    """Texts that need vectors, and the vectors that were stored."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.stored: dict[tuple[str, bytes], bytes] = {}
        self.cleared = asyncio.Event()
        self.texts_asked = 0

    async def missing(self, model: str, most: int) -> list[ToolGist]:
        self.texts_asked += 1
        gists = (ToolGist(text.encode(), text) for text in self.texts)
        return [gist for gist in gists if (model, gist.key) not in self.stored][:most]

    async def put(self, model: str, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        self.stored.update(((model, key), vector) for key, vector in vectors)

    async def clear(self, models: Sequence[str]) -> None:
        self.cleared.set()


class Embedding:
    """The models of a hub. A query waits for ``ready``."""

    def __init__(self, *models: Lettered) -> None:
        self.models = models
        self.ready = asyncio.Event()
        self.ready.set()
        self.asked: list[str] = []

    async def for_tools(self) -> Sequence[Embedder] | NoModel:
        return self.models or NoModel(say("No embedding model: {model}", model="none"))

    async def query(self, model: str, text: str) -> bytes | NoModel:
        self.asked.append(model)
        await self.ready.wait()
        return vector(text)


async def turns() -> None:
    """Let everything that can go on do so."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_nothing_is_embedded_before_the_first_search() -> None:
    model, store = Lettered(), Store("one", "two")
    embedding = Embedding(model)
    meaning = ToolMeaning(lambda: embedding, store, patience=LONG)
    meaning.changed()
    assert (model.texts, embedding.asked) == ([], [])
    found = await meaning.of_query("three")
    assert found.vectors == {model.fingerprint: [vector("three")]}
    await store.cleared.wait()
    assert model.texts == ["one", "two"]
    await meaning.close()


async def test_a_query_whose_vector_takes_long_is_answered_by_words_and_its_vector_is_still_made() -> None:
    embedding = Embedding(Lettered())
    embedding.ready.clear()
    meaning = ToolMeaning(lambda: embedding, Store(), patience=0.01)
    found = await meaning.of_query("query")
    assert (found.vectors, found.available) == ({}, True)
    embedding.ready.set()
    await turns()  # the vector of the first arrives
    meaning._patience = LONG
    assert (await meaning.of_query("query")).vectors
    await meaning.close()


async def test_a_late_model_is_asked_again_by_each_search_within_the_same_budget() -> None:
    late = Embedding(Lettered())
    late.ready.clear()
    meaning = ToolMeaning(lambda: late, Store(), patience=0.001)
    for number in range(46):
        found = await meaning.of_query(f"read the file. Then send it {number}")
        assert (found.vectors, found.available, found.late) == ({}, True, False)
    # Sentences only of the first query: the others would wait behind them.
    assert len(late.asked) == 46 + 2
    meaning._patience = LONG
    next_search = asyncio.create_task(meaning.of_query("the next"))
    await turns()
    late.ready.set()
    assert (await next_search).vectors
    late.ready.clear()
    meaning._patience = 0.001
    found = await meaning.of_query("a slow one")
    assert (found.vectors, found.available, found.late) == ({}, True, True)
    await meaning.close()


async def test_one_vector_that_never_comes_keeps_no_other_search_from_its_own() -> None:
    class OneIsStuck(Embedding):
        async def query(self, model: str, text: str) -> bytes | NoModel:
            if text == "stuck":
                await asyncio.Event().wait()
            return await super().query(model, text)

    embedding = OneIsStuck(Lettered())
    meaning = ToolMeaning(lambda: embedding, Store(), patience=0.001)
    assert not (await meaning.of_query("stuck")).vectors
    meaning._patience = LONG
    for number in range(46):
        assert (await meaning.of_query(f"number {number}")).vectors
    await meaning.close()


async def test_the_sentences_of_a_query_have_vectors_too() -> None:
    embedding = Embedding(Lettered("org/any#1"))
    meaning = ToolMeaning(lambda: embedding, Store(), patience=LONG)
    for query, steps in (
        ("Read the file. Then send it by mail.", ["Read the file.", "Then send it by mail."]),
        ("translate this letter, then read it aloud", ["translate this letter", "read it aloud"]),
        ("天気を調べて、それから宿を予約する", ["天気を調べて", "宿を予約する"]),
        ("read the file", []),
    ):
        made = (await meaning.of_query(query)).vectors["org/any#1"]
        assert made == [vector(query), *map(vector, steps)]
    await meaning.close()


async def test_without_a_model_there_is_nothing_to_wait_for() -> None:
    none = Embedding()
    for meaning in (ToolMeaning(None, Store("one")), ToolMeaning(lambda: none, Store("one"), patience=LONG)):
        found = await meaning.of_query("query")
        assert (found.vectors, found.available) == ({}, False)
        await meaning.close()


async def test_a_model_reads_only_what_it_can_read() -> None:
    english, any_language = Lettered("org/all-MiniLM-L6-v2#1"), Lettered("org/other#1")
    embedding = Embedding(english, any_language)
    meaning = ToolMeaning(lambda: embedding, Store(), patience=LONG)
    assert set((await meaning.of_query("円グラフを描く")).vectors) == {"org/other#1"}
    assert len((await meaning.of_query("draw a pie chart")).vectors) == 2
    await meaning.close()


async def test_work_that_failed_is_tried_again_with_a_later_search() -> None:
    model, store = Lettered(), Store("one")
    embedding = Embedding(model)
    model.fails = ModelUnavailable(say("The embedding process is stopping."))
    meaning = ToolMeaning(lambda: embedding, store, patience=LONG, retry=0.0)
    assert (await meaning.of_query("query")).available
    while model.fails is not None:
        await asyncio.sleep(0)
        model.fails = None
    while not store.cleared.is_set():
        await meaning.of_query("query")
        await asyncio.sleep(0)
    assert model.texts == ["one"]
    await meaning.close()


async def test_tools_that_come_later_are_embedded_with_the_next_search() -> None:
    model, store = Lettered(), Store("one")
    embedding = Embedding(model)
    meaning = ToolMeaning(lambda: embedding, store, patience=LONG)
    await meaning.of_query("query")
    await store.cleared.wait()
    store.texts.append("two")
    meaning.changed()
    store.cleared.clear()
    await meaning.of_query("query")
    await store.cleared.wait()
    assert model.texts == ["one", "two"]
    await meaning.close()
