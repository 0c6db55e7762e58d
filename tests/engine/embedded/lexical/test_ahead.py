"""A large change is ready to be searched when it is there: nobody's first search has to cut its texts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tabane.engine.embedded.lexical.lexical_index import LexicalIndex
from tabane.engine.query_plans import Japanese
from tabane.errors import BadArguments
from tabane.search.engine import LexicalQuery
from tabane.search.records import EVERYTHING, Record, Shape, TextField
from tests.engine.embedded.opening import EmbeddedCollection, embedded

SHAPE = Shape("notes", (TextField("body"),))
MANY = [Record(key=str(number), texts={"body": f"rain number{number}"}) for number in range(300)]


class Counted(Japanese):
    """A dictionary that counts what it is asked."""

    def __init__(self) -> None:
        super().__init__("counted")
        self.texts: list[str] = []

    def words(self, text: str) -> list[str]:
        self.texts.append(text)
        return text.split()


@asynccontextmanager
async def open_collection(home: Path, dictionary: Counted) -> AsyncIterator[EmbeddedCollection]:
    async def lexical(folder: str, table: Any) -> LexicalIndex:
        return await LexicalIndex.open(folder, table, dictionary)

    async with embedded(home, SHAPE, lexical=lexical) as collection:
        yield collection


async def test_the_texts_of_a_large_exchange_are_cut_once_and_before_it_is_done(tmp_path: Path) -> None:
    dictionary = Counted()
    async with open_collection(tmp_path, dictionary) as collection:
        await collection.exchange(MANY)
        exchanged = list(dictionary.texts)
        dictionary.texts.clear()
        hits = await collection.search(LexicalQuery("rain"), EVERYTHING, 10)
        assert collection.engine.lexical is not None
        await collection.engine.lexical.agrees()  # by now all of it is in the index
        later = list(dictionary.texts)
    assert sorted(exchanged) == sorted(record.texts["body"] for record in MANY)
    assert hits.total == len(MANY)
    assert [text for text in later if text.startswith("rain number")] == []


async def test_what_is_found_is_what_came_last_even_where_an_exchange_is_refused_between(
    tmp_path: Path,
) -> None:
    async with open_collection(tmp_path, Counted()) as collection:
        await collection.exchange(MANY)
        with pytest.raises(BadArguments):
            await collection.exchange(MANY, [MANY[0].key])
        later = [Record(key=each.key, texts={"body": "snow"}) for each in MANY[:150]]
        await collection.exchange(later, [each.key for each in MANY[150:250]])
        asked = [LexicalQuery(word) for word in ("rain", "snow", "number20", "number299")]
        found = [(await collection.search(each, EVERYTHING, 10)).total for each in asked]
    assert found == [50, 150, 0, 1]
