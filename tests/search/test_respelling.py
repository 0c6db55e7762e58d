"""Searches for queries in kana and in Latin letters, in the spellings that a collection has."""

from __future__ import annotations

import pytest
from msgspec import structs

from tabane.search.engine import Collection, LexicalQuery, Mode, VectorQuery
from tabane.search.pipeline import HybridRanking, hybrid
from tabane.search.records import EVERYTHING, EmbeddingSpace, Equal, Field, Kind, Record, Shape, TextField
from tabane.search.respelling import respelled
from tabane.search.typed_query import marked_terms, sense, typed
from tests.engine.embedded.opening import indexed
from tests.engine.embedded.vectors.oracle import packed

NOTES = [
    "歯医者の予約は木曜の16時",
    "敗者復活戦の日程",
    "こどもの絵本「はいしゃさん」",
    "花粉症の薬を朝に一錠",
    "温泉旅館は箱根の川沿い",
    "An onsen guide for visitors",
    "林檎の皮をむく",
    "むしばをなおす",
]
SHAPE = Shape(
    "notes", (TextField("body"),), (Field("who", Kind.STRING),), (EmbeddingSpace("text", len(NOTES)),)
)


async def _ranked(collection: Collection, text: str, **page: int) -> tuple[LexicalQuery, HybridRanking]:
    words = await respelled(collection, typed(text), EVERYTHING)
    return words, await hybrid(
        collection, words, None, EVERYTHING, page.get("limit", 10), page.get("offset", 0)
    )


async def _fill(collection: Collection) -> None:
    await collection.upsert(
        [
            Record(key=str(number), texts={"body": note}, fields={"who": "ab"[number % 2]})
            for number, note in enumerate(NOTES)
        ]
    )


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("はいしゃ", ["2", "0", "1"]),
        ("かふんしょうのくすり", ["3"]),
        ("kafunsho no kusuri", ["3"]),
        ("onsen ryokan", ["4", "5"]),
        ("onsen", ["5", "4"]),
        ("りんご", ["6"]),
        ("リンゴ", ["6"]),
        ("絵本", ["2"]),
        ("車輪", []),
        ("虫歯", ["7"]),
    ],
)
async def test_a_query_finds_other_spellings_below_what_was_typed(query: str, keys: list[str]) -> None:
    async with indexed(shape=SHAPE) as collection:
        await _fill(collection)
        _, ranking = await _ranked(collection, query)
        found = [hit.key for hit in ranking.hits]
        assert (found[:1], set(found)) == (keys[:1], set(keys))
        assert all(0 < hit.score <= 1 and hit.parts is not None for hit in ranking.hits)


async def test_pages_of_several_spellings_follow_each_other() -> None:
    async with indexed(shape=SHAPE) as collection:
        await _fill(collection)
        _, whole = await _ranked(collection, "はいしゃ")
        pages = [(await _ranked(collection, "はいしゃ", limit=1, offset=at))[1].hits[0] for at in range(3)]
        assert [(hit.key, hit.score) for hit in pages] == [(hit.key, hit.score) for hit in whole.hits]


async def test_the_spelling_of_the_collection_is_embedded_and_marked() -> None:
    async with indexed(shape=SHAPE) as collection:
        await _fill(collection)
        words = await respelled(collection, typed("かふんしょう の くすり"), EVERYTHING)
        assert sense(words) == "花粉症 の 薬"
        assert marked_terms(words) == ["かふんしょう の くすり", "花粉症", "薬"]
        of_b = await respelled(collection, typed("はいしゃ"), Equal("who", "b"))
        assert sense(of_b) == "敗者"


@pytest.mark.parametrize(
    "query", ["歯医者", "guide for visitors", "make more", "くじら", "onsen*", '"はいしゃ"']
)
async def test_other_queries_are_not_changed(query: str) -> None:
    async with indexed(shape=SHAPE) as collection:
        await _fill(collection)
        asked = typed(query)
        assert await respelled(collection, asked, EVERYTHING) is asked


async def test_a_phrase_is_not_spelled_otherwise() -> None:
    async with indexed(shape=SHAPE) as collection:
        await _fill(collection)
        asked = typed("はいしゃ", Mode.PHRASE)
        assert await respelled(collection, asked, EVERYTHING) is asked


async def test_meaning_is_added_to_the_words_in_every_spelling() -> None:
    async with indexed(shape=SHAPE) as collection:
        await _fill(collection)
        rows = [packed([float(at == number) for at in range(len(NOTES))]) for number in range(len(NOTES))]
        keys = [str(number) for number in range(len(NOTES))]
        stored = [record for record in await collection.get(keys) if record is not None]
        await collection.upsert(
            [structs.replace(record, vectors={"text": row}) for record, row in zip(stored, rows, strict=True)]
        )
        words = await respelled(collection, typed("はいしゃ"), EVERYTHING)
        nearest = VectorQuery({"text": rows[6]}, threshold=0.5)
        found = {hit.key: hit for hit in (await hybrid(collection, words, nearest, EVERYTHING, 10)).hits}
        assert set(found) == {"0", "1", "2", "6"}
        assert found["2"].score > max(found["0"].score, found["1"].score) > 0
