"""What every engine with vectors keeps: see :mod:`tests.engine.embedded.contract`."""

from __future__ import annotations

import asyncio
import random
from functools import cache
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.errors import BadArguments
from tabane.search.engine import Combination, VectorQuery
from tabane.search.records import EVERYTHING, And, EmbeddingSpace, Equal, Filter, Not, Range, Record, Shape
from tests.engine.embedded.contract import EngineContract
from tests.engine.embedded.model import Model, put
from tests.engine.embedded.vectors.oracle import QUERIES, RECORDS, SHAPE, check, packed, similarities

WHERES: list[Filter] = [
    EVERYTHING,
    Equal("author", "a"),
    And((Not(Equal("author", "a")), Range("likes", 1, 2))),
]


def bare(record: Record) -> Record:
    """The record as it comes back."""
    return msgspec.structs.replace(record, vectors={})


def crowd(count: int) -> list[Record]:
    """Return records around a few centers, in one space or in two: the same ones each time."""
    return list(_crowd(count))


@cache
def _crowd(count: int) -> tuple[Record, ...]:
    chance = random.Random(3)
    centres = [[chance.gauss(0, 1) for _ in range(70)] for _ in range(40)]

    def vector(size: int) -> bytes:
        centre = chance.choice(centres)
        return packed([centre[at] + chance.gauss(0, 0.7) for at in range(size)])

    return tuple(
        Record(
            key=f"k{number:05}",
            fields={"author": "abcde"[number % 5], "likes": number},
            vectors={"text": vector(5)} | ({"image": vector(70)} if number % 3 else {}),
        )
        for number in range(count)
    )


class VectorsContract(EngineContract):
    """The protocol Vectors, of a collection of the shape SHAPE."""

    shape = SHAPE

    @settings(max_examples=50, deadline=None)
    @given(st.lists(RECORDS, max_size=25), st.lists(QUERIES, min_size=1, max_size=4), st.integers(1, 8))
    async def test_the_nearest_are_the_nearest(
        self, records: list[Record], queries: list[VectorQuery], limit: int
    ) -> None:
        await self.check_nearest(records, queries, limit)

    async def check_nearest(self, records: list[Record], queries: list[VectorQuery], limit: int) -> None:
        async with self.empty() as collection:
            model: Model = {}
            assert await collection.upsert(records) == put(model, records, SHAPE)
            for query in queries:
                for where in WHERES:
                    expected = similarities(model, query, where)
                    for offset in (0, 2):
                        hits = await collection.nearest(query, where, limit, offset)
                        check(hits, expected, limit, offset)
                        assert hits.total >= len(expected) or query.threshold is not None
                    found: dict[str, float] = {}
                    async for block in collection.scan(query, where):
                        found |= dict(zip(block.keys, block.similarities, strict=True))
                        assert block.rows == sorted(block.rows)
                    whole = similarities(model, unlimited(query), where)
                    assert found.keys() == whole.keys()
                    assert all(abs(found[key] - whole[key]) < 1e-5 for key in found)

    @pytest.mark.parametrize("combination", list(Combination))
    async def test_many_are_searched_as_exactly_as_few(self, combination: Combination) -> None:
        """So many that there are codes, of records of which a part has come since."""
        records = crowd(7000)
        model: Model = {}
        put(model, records, SHAPE)
        async with self.empty() as collection:
            await collection.upsert(records)
            for number in range(6):
                given = records[number * 999 + 1].vectors
                wanted = {"image": given["image"]} if number % 2 else given
                query = VectorQuery(wanted, combination)
                for where in (EVERYTHING, Equal("author", "a"), Range("likes", 100, 900)):
                    hits = await collection.nearest(query, where, 10)
                    check(hits, similarities(model, query, where), 10)

    async def test_equals_come_in_order_of_keys_and_pages_fit_together(self) -> None:
        vector = packed([1, 2, 3, 4, 5])
        records = [Record(key=f"k{number % 97:02}", vectors={"text": vector}) for number in range(97)]
        async with self.empty() as collection:
            await collection.upsert(records[::-1])
            query = VectorQuery({"text": vector})
            pages = [await collection.nearest(query, EVERYTHING, 10, offset) for offset in range(0, 100, 10)]
            keys = [hit.key for page in pages for hit in page.hits]
            assert keys == sorted(record.key for record in records)

    async def test_weights_count(self) -> None:
        near, far = packed([1, 0, 0, 0, 0]), packed([0, 1, 0, 0, 0])
        wide_near, wide_far = packed([1] + [0] * 69), packed([0, 1] + [0] * 68)
        records = [
            Record(key="text", vectors={"text": near, "image": wide_far}),
            Record(key="image", vectors={"text": far, "image": wide_near}),
        ]
        async with self.empty() as collection:
            await collection.upsert(records)
            for combination in (Combination.AVERAGE, Combination.WEIGHTED):
                for favourite, other in (("text", "image"), ("image", "text")):
                    query = VectorQuery(
                        {"text": near, "image": wide_near}, combination, {favourite: 3.0, other: 1.0}
                    )
                    hits = (await collection.nearest(query, EVERYTHING, 2)).hits
                    factor = 4 if combination is Combination.AVERAGE else 1
                    assert [(hit.key, round(hit.score * factor, 6)) for hit in hits] == [
                        (favourite, 3.0),
                        (other, 1.0),
                    ]

    async def test_vectors_are_part_of_what_an_upsert_replaces(self) -> None:
        one, other = packed([1, 0, 0, 0, 0]), packed([0, 1, 0, 0, 0])
        async with self.empty() as collection:
            query = VectorQuery({"text": one})

            async def scores() -> list[float]:
                return [hit.score for hit in (await collection.nearest(query, EVERYTHING, 5)).hits]

            assert await collection.upsert([Record(key="k", vectors={"text": one})]) == [True]
            assert await collection.upsert([Record(key="k", vectors={"text": one})]) == [False]
            assert await scores() == [1.0]
            assert await collection.upsert([Record(key="k", vectors={"text": other})]) == [True]
            assert await scores() == [0.0]
            assert await collection.vectors(["k", "absent"], "text") == [other, None]
            assert await collection.upsert([Record(key="k")]) == [True]
            assert await scores() == []
            assert await collection.vectors(["k"], "text") == [None]
            assert await collection.upsert([Record(key="k", vectors={"text": one})]) == [True]
            assert await collection.get(["k"]) == [Record(key="k")]
            assert await collection.delete(["k"]) == 1
            assert await scores() == []

    async def test_vectors_come_after_their_records_too(self) -> None:
        one, other = packed([1, 0, 0, 0, 0]), packed([0, 1, 0, 0, 0])
        async with self.empty() as collection:
            await collection.upsert([Record(key=f"k{number}") for number in range(5)])
            await collection.upsert([Record(key="k1", vectors={"text": other})])
            lacking = await collection.lacking("text", limit=3)
            assert [each.record.key for each in lacking] == ["k0", "k2", "k3"]
            await collection.upsert([Record(key="k2", fields={"likes": 1})])
            rows = {each.row: {"text": one} for each in lacking}
            assert await collection.attach(rows) == 2
            assert await collection.vectors(["k0", "k1", "k2", "k3"], "text") == [one, other, None, one]
            hits = await collection.nearest(VectorQuery({"text": one}), EVERYTHING, 9)
            assert [(hit.key, hit.score) for hit in hits.hits] == [("k0", 1.0), ("k3", 1.0), ("k1", 0.0)]
            assert await collection.attach({lacking[0].row: {"text": other}}) == 1
            hits = await collection.nearest(VectorQuery({"text": one}), EVERYTHING, 9)
            assert [hit.key for hit in hits.hits] == ["k3", "k0", "k1"]
            rest = await collection.lacking("text", after=lacking[1].row)
            assert [each.record.key for each in rest] == ["k4", "k2"]

    @pytest.mark.parametrize(
        ("wrong", "parameter"),
        [
            ({"absent": packed([1])}, "absent"),
            ({"text": packed([1, 2, 3, 4])}, "text"),
            ({"text": b"x"}, "text"),
            ({"text": packed([0, 0, 0, 0, 0])}, "text"),
            ({"text": packed([1, 0, 0, 0, float("nan")])}, "text"),
            ({"text": packed([1, 0, 0, 0, float("inf")])}, "text"),
        ],
    )
    async def test_a_vector_that_does_not_fit_is_refused(
        self, wrong: dict[str, bytes], parameter: str
    ) -> None:
        async with self.empty() as collection:
            await collection.upsert([Record(key="there")])
            row = (await collection.select(EVERYTHING)).records[0].row
            for asked in (
                collection.upsert([Record(key="k", vectors=wrong)]),
                collection.attach({row: wrong}),
                collection.nearest(VectorQuery(wrong), EVERYTHING, 1),
            ):
                with pytest.raises(BadArguments) as refused:
                    await asked
                assert refused.value.parameter == parameter
            assert await collection.count(EVERYTHING) == 1

    async def test_a_query_that_means_nothing_is_refused(self) -> None:
        vector = {"text": packed([1, 0, 0, 0, 0])}
        async with self.empty() as collection:
            for wrong in (
                VectorQuery({}),
                VectorQuery(vector, weights={"image": 1.0}),
                VectorQuery(vector, weights={"text": float("nan")}),
                VectorQuery(vector, weights={"text": 0.0}),
            ):
                with pytest.raises(BadArguments):
                    await collection.nearest(wrong, EVERYTHING, 1)
            with pytest.raises(BadArguments):
                await collection.nearest(VectorQuery(vector), EVERYTHING, 0)

    async def test_very_large_and_very_small_vectors_have_cosines_too(self) -> None:
        async with self.empty() as collection:
            sizes = [1e-40, 1e-20, 1.0, 1e20, 3e38]
            records = [
                Record(key=f"{number}", vectors={"text": packed([size, 0, 0, 0, size])})
                for number, size in enumerate(sizes)
            ]
            await collection.upsert(records)
            hits = await collection.nearest(VectorQuery({"text": packed([0, 0, 0, 0, 2])}), EVERYTHING, 9)
            assert [hit.key for hit in hits.hits] == ["0", "1", "2", "3", "4"] or len(hits.hits) == 5
            assert all(abs(hit.score - 0.5**0.5) < 1e-4 for hit in hits.hits)

    async def test_what_is_written_beside_a_search_is_there_once(self) -> None:
        """Replaced again and again, each record is found exactly once, by one of its vectors."""
        async with self.empty() as collection:
            records = crowd(300)
            await collection.upsert(records)
            query, done = VectorQuery({"text": packed([1, 0, 0, 0, 0])}), asyncio.Event()

            async def replace() -> None:
                for turn in range(20):
                    await collection.upsert(
                        [
                            Record(key=record.key, vectors={"text": packed([turn + 1, 1, 0, 0, 0])})
                            for record in records[100:160]
                        ]
                    )
                done.set()

            async def look() -> None:
                while not done.is_set():
                    hits = await collection.nearest(query, EVERYTHING, 1000)
                    assert len({hit.key for hit in hits.hits}) == len(hits.hits) == 300

            await asyncio.gather(replace(), look(), look())

    async def test_the_similarity_of_any_records_is_told(self) -> None:
        records = crowd(400)
        model: Model = {}
        put(model, records, SHAPE)
        query = VectorQuery(records[1].vectors, Combination.MINIMUM, threshold=0.99)
        async with self.empty() as collection:
            await collection.upsert([*records, Record(key="bare"), Record(key="か\u3099")])
            keys = ["absent", "k00399", "k00000", "bare", "k00000", *(each.key for each in records[7:300])]
            found = await collection.similarities(query, keys)
            expected = similarities(model, unlimited(query), EVERYTHING)
            for key, value in zip(keys, found, strict=True):
                assert value == pytest.approx(expected.get(key), abs=1e-6), key
            await collection.attach(
                {(await collection.select(Equal("likes", 3))).records[0].row: records[1].vectors}
            )
            assert await collection.similarities(query, ["k00003"]) == [pytest.approx(1.0)]
            assert await collection.similarities(query, ["か\u3099"]) == [None]
            assert await collection.similarities(query, []) == []
            with pytest.raises(BadArguments):
                await collection.similarities(query, ["k"] * 1001)

    async def test_what_is_deleted_during_a_scan_is_left_out_of_the_rest(self) -> None:
        """And what is replaced is not there twice; so many that there are several blocks."""
        vector = packed([1, 2, 0, 0, 0])
        records = [Record(key=f"k{number:06}", vectors={"text": vector}) for number in range(30_000)]
        async with self.empty() as collection:
            await collection.upsert(records)
            found: list[str] = []
            async for block in collection.scan(VectorQuery({"text": vector}), EVERYTHING):
                if not found:
                    await collection.delete([f"k{number:06}" for number in range(5000, 29_900, 7)])
                    await collection.upsert([Record(key="k029999", vectors={"text": vector}, payload=b"x")])
                found += block.keys
            assert len(set(found)) == len(found)
            assert "k029999" not in found
            assert {f"k{number:06}" for number in range(5000)} <= set(found)
            assert (
                not {f"k{number:06}" for number in range(25_000, 29_900)}
                & {f"k{number:06}" for number in range(5000, 29_900, 7)}
                & set(found)
            )

    async def test_what_is_stored_outlives_closing_and_another_shape(self, tmp_path: Path) -> None:
        records = crowd(60)
        query = VectorQuery({"text": packed([1, 2, 0, 0, 0])})
        narrower = Shape(
            SHAPE.name, SHAPE.texts, SHAPE.fields, (EmbeddingSpace("text", 5), EmbeddingSpace("more", 71))
        )
        none = Shape(SHAPE.name, SHAPE.texts, SHAPE.fields)
        model: Model = {}
        put(model, records, SHAPE)
        expected = similarities(model, query, EVERYTHING)
        async with self.engine(tmp_path, SHAPE) as collection:
            await collection.upsert(records)
        async with self.engine(tmp_path, SHAPE) as collection:
            check(await collection.nearest(query, EVERYTHING, 9), expected, 9)
        async with self.engine(tmp_path, narrower) as collection:
            check(await collection.nearest(query, EVERYTHING, 9), expected, 9)
            wide = VectorQuery({"more": packed([1.0] * 71)})
            assert (await collection.nearest(wide, EVERYTHING, 9)).hits == ()
            assert len(await collection.lacking("more")) == 60
            assert len(await collection.lacking("image")) == 20
        async with self.engine(tmp_path, none) as collection:
            check(await collection.nearest(query, EVERYTHING, 9), expected, 9)
            assert await collection.delete(["k00000"]) == 1
            assert await collection.upsert(records[:2]) == [True, False]
        async with self.engine(tmp_path, SHAPE) as collection:
            check(await collection.nearest(query, EVERYTHING, 9), expected, 9)


def unlimited(query: VectorQuery) -> VectorQuery:
    """The query without its threshold, which a scan does not ask for."""
    return VectorQuery(query.vectors, query.combination, query.weights, whole=query.whole)
