"""How much a score of words is, can be told by what a text with all of them would have."""

from __future__ import annotations

import pytest

from tabane.search.engine import EngineHits, LexicalQuery
from tabane.search.records import EVERYTHING, Shape, TextField
from tests.engine.embedded.lexical.homes import bodies
from tests.engine.embedded.opening import indexed

SHAPE = Shape("notes", (TextField("title"), TextField("body")))
NOTES = ["apple pear plum", "apple quince fig", "cherry lemon lime", "cherry melon kiwi"]


async def _asked(*queries: str | LexicalQuery) -> list[EngineHits]:
    async with indexed(shape=SHAPE) as collection:
        await collection.upsert(bodies(NOTES))
        asked = [LexicalQuery(query) if isinstance(query, str) else query for query in queries]
        return [await collection.search(query, EVERYTHING, 10) for query in asked]


async def test_a_text_of_usual_length_with_every_word_once_reaches_the_ceiling() -> None:
    (found,) = await _asked("plum apple pear")
    assert found.hits[0].score == pytest.approx(found.ceiling, rel=1e-4)
    assert found.hits[1].score < found.ceiling / 2


async def test_a_word_that_no_text_has_is_missing_from_every_score() -> None:
    known, with_unknown, nothing = await _asked("apple pear", "apple pear zeppelin", "zeppelin")
    assert with_unknown.hits[0].score == known.hits[0].score
    assert with_unknown.ceiling > known.ceiling * 1.3
    assert (nothing.hits, nothing.ceiling > 0) == ((), True)


async def test_a_query_without_words_has_none() -> None:
    assert (await _asked("!?"))[0].ceiling == 0


async def test_a_spelling_counts_for_its_word_and_not_beside_it() -> None:
    plain, spelled = await _asked("plum", LexicalQuery("", spellings=(("plum", "cherry", "lemon"),)))
    assert spelled.ceiling == plain.ceiling
    assert {hit.key for hit in spelled.hits} == {"k000", "k002", "k003"}
