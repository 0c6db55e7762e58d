"""What every engine keeps of Records when it exchanges: see :mod:`tests.engine.embedded.contract`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.errors import BadArguments
from tabane.search.engine import (
    LARGEST_EXCHANGE,
    LARGEST_VECTORS,
    MOST_EXCHANGED,
    Collection,
    EngineHits,
    Exchanged,
    LexicalQuery,
    VectorQuery,
)
from tabane.search.records import EVERYTHING, And, Contains, EmbeddingSpace, Equal, Filter, Not, Record, Shape
from tests.engine.embedded import documents
from tests.engine.embedded.contract import EngineContract
from tests.engine.embedded.documents import advance, document, generation_of
from tests.engine.embedded.model import Model, agrees, exchange
from tests.engine.embedded.vectors.oracle import RECORDS, SHAPE, check, packed, similarities

MINE = Equal("document", "d")
_KEYS = st.lists(st.sampled_from([f"k{number}" for number in range(12)]), max_size=6)


def bare(record: Record) -> Record:
    return msgspec.structs.replace(record, vectors={})


class ExchangeContract(EngineContract):
    """An exchange is one moment. The engine has words, substrings and vectors."""

    shape = SHAPE

    async def test_records_come_and_keys_go(self) -> None:
        async with self.empty() as collection:
            assert await collection.exchange([]) == Exchanged()
            await collection.upsert([Record(key="a"), Record(key="b"), Record(key="c")])
            done = await collection.exchange([Record(key="b"), Record(key="d")], ["a", "a", "absent"])
            assert done == Exchanged([False, True], 1)
            assert await collection.get(list("abcd")) == [None, *(Record(key=key) for key in "bcd")]
            assert await collection.exchange([], ["b", "c", "d"]) == Exchanged([], 3)
            assert await collection.count(EVERYTHING) == 0

    async def test_what_is_equal_is_left_untouched_with_its_vectors(self) -> None:
        one, other = packed([1, 0, 0, 0, 0]), packed([0, 1, 0, 0, 0])
        kept = Record(key="kept", texts={"body": "東京"}, fields={"likes": 1}, vectors={"text": one})
        async with self.empty() as collection:

            async def row() -> int:
                return (await collection.select(Equal("likes", 1))).records[0].row

            await collection.upsert([kept])
            first = await row()
            for same in (bare(kept), kept):
                assert (await collection.exchange([same, Record(key="x")])).results[0] is False
                assert await row() == first
                assert await collection.vectors(["kept"], "text") == [one]
            for changed, vector in (
                (msgspec.structs.replace(kept, vectors={"text": other}), other),
                (msgspec.structs.replace(bare(kept), payload=b"other"), None),
            ):
                assert (await collection.exchange([changed])).results == [True]
                assert await row() > first
                assert await collection.vectors(["kept"], "text") == [vector]

    @pytest.mark.parametrize(
        ("records", "gone", "parameter"),
        [
            ([Record(key="a"), Record(key="が")], ["か\u3099"], "gone"),
            ([Record(key="a"), Record(key="b", fields={"absent": 1})], ["there"], "absent"),
            ([Record(key="a")], ["there", ""], "key"),
            ([Record(key=f"k{number}") for number in range(MOST_EXCHANGED)], ["there"], "records"),
            ([Record(key=f"{n}", payload=bytes(3_900_000)) for n in range(5)], ["there"], "records"),
        ],
    )
    async def test_what_does_not_fit_is_refused_whole(
        self, records: list[Record], gone: list[str], parameter: str
    ) -> None:
        async with self.empty() as collection:
            await collection.upsert([Record(key="there")])
            with pytest.raises(BadArguments) as refused:
                await collection.exchange(records, gone)
            assert refused.value.parameter == parameter
            assert await collection.get(["there"]) == [Record(key="there")]
            assert await collection.count(EVERYTHING) == 1

    async def test_the_largest_goes_in_whole(self) -> None:
        """All that an exchange may have: records, bytes of their own, bytes of vectors."""
        size = LARGEST_EXCHANGE // MOST_EXCHANGED - 100
        wide = LARGEST_VECTORS // MOST_EXCHANGED // 4
        shape = Shape("notes", SHAPE.texts, SHAPE.fields, (EmbeddingSpace("text", wide),))
        vector = {"text": packed([1.0] * wide)}
        records = [
            Record(key=f"k{number:05}", fields={"author": "a"}, payload=bytes(size), vectors=vector)
            for number in range(MOST_EXCHANGED)
        ]
        async with self.empty(shape) as collection:
            done = await collection.exchange(records)
            assert done.results == [True] * MOST_EXCHANGED
            assert await collection.count(Equal("author", "a")) == MOST_EXCHANGED
            hits = await collection.nearest(VectorQuery(vector), EVERYTHING, 3)
            assert (len(hits.hits), hits.total) == (3, MOST_EXCHANGED)
            with pytest.raises(BadArguments):
                await collection.exchange(
                    [msgspec.structs.replace(each, payload=bytes(size + 100)) for each in records]
                )
            done = await collection.exchange([], [record.key for record in records])
            assert done.deleted == MOST_EXCHANGED
            assert await collection.count(EVERYTHING) == 0

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.tuples(st.lists(RECORDS, max_size=10), _KEYS), max_size=5), st.booleans())
    async def test_exchanges_leave_what_a_dict_would_hold(
        self, steps: list[tuple[list[Record], list[str]]], reopen: bool
    ) -> None:
        async with self.empty() as collection:
            model: Model = {}
            for records, keys in steps:
                gone = [key for key in keys if key not in {record.key for record in records}]
                done = await collection.exchange(records, gone)
                assert (done.results, done.deleted) == exchange(model, records, gone, SHAPE)
            await agrees(collection, {key: bare(record) for key, record in model.items()})
            query = VectorQuery({"text": packed([1, 2, 0, 0, 1])})
            check(await collection.nearest(query, EVERYTHING, 20), similarities(model, query, EVERYTHING), 20)
            words = {key for key, record in model.items() if "東京" in record.texts.get("body", "")}
            hits = await collection.search(LexicalQuery("東京"), EVERYTHING, 20)
            assert {hit.key for hit in hits.hits} == words

    @pytest.mark.parametrize("parts", [6, 150])
    async def test_everyone_sees_all_of_an_exchange_or_nothing(self, parts: int) -> None:
        """Whoever asks, by words, by vectors, by fields or by substrings, meets one generation."""
        turns = 120 if parts < 100 else 25
        async with self.empty(documents.SHAPE) as collection:
            await collection.upsert([_other(number) for number in range(200)])
            await advance(collection, "d", 0, parts)
            watch = _Watch(collection, turns, parts)

            async def write() -> None:
                try:
                    for turn in range(1, turns):
                        await advance(collection, "d", turn, parts)
                finally:
                    watch.done = True

            *asked, _ = await asyncio.gather(*watch.all(), write())
            assert all(asked)

    async def test_an_exchange_outlives_closing(self, tmp_path: Path) -> None:
        async with self.engine(tmp_path, documents.SHAPE) as collection:
            for generation in range(6):
                await advance(collection, "d", generation)
        async with self.engine(tmp_path, documents.SHAPE) as collection:
            assert await generation_of(collection, "d") == 5
            hits = await collection.search(LexicalQuery("東京"), EVERYTHING, 100)
            assert _keys(hits) == {each.key for each in document("d", 5)[1:]}


class _Watch:
    """Asks in every way there is what belongs to document ``d``, until it is done."""

    def __init__(self, collection: Collection, turns: int, parts: int) -> None:
        self.collection = collection
        self.parts = parts
        self.done = False
        self.turns = {
            frozenset(each.key for each in document("d", turn, parts)[1:]): turn for turn in range(turns)
        }

    def all(self) -> list[Coroutine[None, None, int | None]]:
        """Each says how often it asked."""
        texts = And((MINE, Not(Contains("absent"))))
        return [
            self.looking(lambda: self.searched(EVERYTHING)),
            self.looking(lambda: self.searched(texts)),
            self.looking(lambda: self.selected(EVERYTHING)),
            self.looking(lambda: self.selected(Contains("version"))),
            self.looking(self.near),
            self.counting(),
        ]

    async def looking(self, ask: Callable[[], Awaitable[frozenset[str]]]) -> int:
        """What is found are the parts of one generation, and never of one before the last one found."""
        asked, latest = 0, 0
        while not self.done:
            found = await ask()
            assert found in self.turns, f"a mixture of {sorted(found)}"
            assert self.turns[found] >= latest
            latest, asked = self.turns[found], asked + 1
        return asked

    async def counting(self) -> int:
        asked = 0
        while not self.done:
            assert sorted(await self.collection.facet("part", MINE)) == [("head", 1), ("part", self.parts)]
            assert await self.collection.count(MINE) == self.parts + 1
            assert await self.collection.count(And((MINE, Contains("version")))) == self.parts
            asked += 1
        return asked

    async def selected(self, where: Filter) -> frozenset[str]:
        page = await self.collection.select(And((MINE, where)), limit=1000)
        return frozenset(each.record.key for each in page.records) - {"=d"}

    async def searched(self, where: Filter) -> frozenset[str]:
        return _keys(await self.collection.search(LexicalQuery("東京"), where, 1000))

    async def near(self) -> frozenset[str]:
        return _keys(await self.collection.nearest(VectorQuery({"text": packed([1.0] * 8)}), MINE, 1000))


def _other(number: int) -> Record:
    """A record of nobody's document."""
    return Record(key=f"o{number:03}", texts={"body": f"京都 {number}"}, fields={"document": f"o{number}"})


def _keys(hits: EngineHits) -> frozenset[str]:
    found = [hit.key for hit in hits.hits]
    assert len(set(found)) == len(found)
    return frozenset(found)
