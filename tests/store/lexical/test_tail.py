"""What is newer than the index is found as it is now, whatever was asked before."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tabane.search.engine import LexicalQuery
from tabane.search.filters import EVERYTHING
from tabane.search.records import Record, Shape, TextField
from tabane.store.lexical.lexical import open_lexical
from tabane.store.store import Store

SHAPE = Shape("notes", (TextField("body"),))
ASKED = [
    LexicalQuery("rain"),
    LexicalQuery("rai", prefix=True),
    LexicalQuery("", phrases=("rain snow",)),
    LexicalQuery("wind", exclude=("rain",)),
]


def test_a_word_that_was_asked_for_is_found_in_what_comes_and_not_in_what_goes(tmp_path: Path) -> None:
    async def run() -> list[list[set[str]]]:
        store = await Store.open(str(tmp_path), "test", lexical=open_lexical)
        try:
            collection = await store.collection(SHAPE)

            async def found() -> list[set[str]]:
                answers = [await collection.search(query, EVERYTHING, 10) for query in ASKED]
                return [{hit.key for hit in hits.hits} for hits in answers]

            async def put(key: str, body: str) -> list[set[str]]:
                await collection.upsert([Record(key=key, texts={"body": body})])
                return await found()

            steps = [await put("a", "rain snow wind"), await put("b", "wind rain"), await put("c", "wind")]
            steps += [await put("a", "wind"), await put("c", "rain snow rain")]
            await collection.delete(["b"])
            return [*steps, await found()]
        finally:
            await store.close()

    assert asyncio.run(run()) == [
        [{"a"}, {"a"}, {"a"}, set()],
        [{"a", "b"}, {"a", "b"}, {"a"}, set()],
        [{"a", "b"}, {"a", "b"}, {"a"}, {"c"}],
        [{"b"}, {"b"}, set(), {"a", "c"}],
        [{"b", "c"}, {"b", "c"}, {"c"}, {"a"}],
        [{"c"}, {"c"}, {"c"}, {"a"}],
    ]
