"""Texts and queries, and what holds for keywords that are searched with an index outside of the database."""

from __future__ import annotations

import random
from pathlib import Path

from tabane.search.engine import EngineHits, LexicalQuery, Mode
from tabane.search.records import EVERYTHING, Equal, Field, Filter, Kind, Range, Record, Shape, TextField
from tests.engine.team.postgres.collections import DatabaseCollection, opening
from tests.engine.team.postgres.outside_checks import check_hits
from tests.harness.postgres_server import PostgresServer

SHAPE = Shape(
    "notes",
    (TextField("title", weight=2.0), TextField("body")),
    (Field("author", Kind.STRING), Field("likes", Kind.NUMBER)),
)
FILTERS: dict[str, Filter] = {
    "all": EVERYTHING,
    "half": Range("likes", 0, 750),
    "one in four": Equal("author", "a2"),
    "none": Equal("author", "nobody"),
}
_PLACES = ("東京", "京都", "大阪", "札幌", "おにぎり", "ラーメン", "の美味しい", "へ行く", "天気予報")


class Library:
    """Records with texts of some of 400 words, of which few are frequent, and queries for them."""

    def __init__(self, size: int) -> None:
        chance = random.Random(7)
        words = [f"word{number}" for number in range(400)] + list(_PLACES)
        chance.shuffle(words)
        frequencies = [1 / (rank + 3) for rank in range(len(words))]

        def text(length: int) -> str:
            return " ".join(chance.choices(words, frequencies, k=length))

        self.records = [
            Record(
                key=f"k{number:05}",
                texts={"title": text(4), "body": text(chance.randrange(5, 60))},
                fields={"author": f"a{number % 4}", "likes": number},
            )
            for number in range(size)
        ]
        self.queries = [LexicalQuery(" ".join(chance.choices(words, k=3))) for _ in range(30)]
        self.queries += [LexicalQuery("東京のおにぎり"), LexicalQuery("京都へ行く天気", fields=("body",))]
        self.others = [
            LexicalQuery("word1 word2", Mode.ALL),
            LexicalQuery("word1 word2", exclude=("word3",)),
            LexicalQuery("wor", prefix=True),
            LexicalQuery("word1", phrases=("word1 word2",)),
            LexicalQuery("…"),
        ]


async def exact_hits(server: PostgresServer, home: Path, library: Library) -> dict[str, list[EngineHits]]:
    """Store the library, and return the hits of each query under each filter, without an index."""
    async with opening(server)(home, SHAPE) as collection:
        await collection.upsert(library.records)
        queries = [*library.queries, *library.others]
        return {
            name: [await collection.search(each, where, 10) for each in queries]
            for name, where in FILTERS.items()
        }


async def check_keywords(
    collection: DatabaseCollection, library: Library, exact: dict[str, list[EngineHits]]
) -> None:
    for name, where in FILTERS.items():
        queries = [*library.queries, *library.others]
        found = [await collection.search(each, where, 10) for each in queries]
        assert [each.ceiling for each in found] == [each.ceiling for each in exact[name]]
        check_hits(found, exact[name])
