"""How much a score of words is, can be told by what a text with all of them would have."""

from __future__ import annotations

import asyncio
import tempfile

import pytest

from tabane.search.engine import EngineHits, LexicalQuery
from tabane.search.filters import EVERYTHING
from tabane.search.records import Record, Shape, TextField
from tabane.store.lexical.lexical_index import open_lexical
from tabane.store.store import Store

SHAPE = Shape("notes", (TextField("title"), TextField("body")))
NOTES = ["apple pear plum", "apple quince fig", "cherry lemon lime", "cherry melon kiwi"]


def _asked(*queries: str) -> list[EngineHits]:
    async def run() -> list[EngineHits]:
        with tempfile.TemporaryDirectory() as home:
            store = await Store.open(home, "test", lexical=open_lexical)
            try:
                collection = await store.collection(SHAPE)
                await collection.upsert(
                    [Record(key=str(number), texts={"body": note}) for number, note in enumerate(NOTES)]
                )
                return [await collection.search(LexicalQuery(query), EVERYTHING, 10) for query in queries]
            finally:
                await store.close()

    return asyncio.run(run())


def test_a_text_of_usual_length_with_every_word_once_reaches_the_ceiling() -> None:
    (found,) = _asked("plum apple pear")
    assert found.hits[0].score == pytest.approx(found.ceiling, rel=1e-4)
    assert found.hits[1].score < found.ceiling / 2


def test_a_word_that_no_text_has_is_missing_from_every_score() -> None:
    known, with_unknown, nothing = _asked("apple pear", "apple pear zeppelin", "zeppelin")
    assert with_unknown.hits[0].score == known.hits[0].score
    assert with_unknown.ceiling > known.ceiling * 1.3
    assert (nothing.hits, nothing.ceiling > 0) == ((), True)


def test_a_query_without_words_has_none() -> None:
    assert _asked("!?")[0].ceiling == 0
