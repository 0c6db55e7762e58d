"""What every engine keeps of rankings and counts: see :mod:`tests.engine.embedded.contract`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.errors import BadArguments
from tabane.search.engine import Collection, Order, VectorQuery
from tabane.search.records import EVERYTHING, Equal, Field, Filter, In, Kind, Range, Record, Shape
from tests.engine.embedded.contract import EngineContract
from tests.engine.embedded.model import Model, meant, put
from tests.engine.embedded.shapes import FILTERS
from tests.engine.embedded.shapes import RECORDS as NOTES
from tests.engine.embedded.shapes import SHAPE as NOTE
from tests.engine.embedded.vectors.oracle import QUERIES, RECORDS, SHAPE, packed, similarities


async def ranked(
    collection: Collection, query: VectorQuery, where: Filter = EVERYTHING
) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    async for block in collection.ranking(query, where):
        assert len(block.keys) == len(block.similarities)
        found += zip(block.keys, block.similarities, strict=True)
        assert len(found) <= block.total
    return found


def numbered(numbers: Sequence[int], form: str = "{}") -> list[Record]:
    return [
        Record(key=form.format(number), vectors={"text": packed([1, number % 977 / 100, 0.5, 0, 0])})
        for number in numbers
    ]


class RankingContract(EngineContract):
    """The protocols RankableVectors and CountableRecords."""

    shape = SHAPE

    @settings(max_examples=30, deadline=None)
    @given(st.lists(RECORDS, max_size=30), QUERIES, st.sampled_from([EVERYTHING, Equal("author", "a")]))
    async def test_a_ranking_has_every_similarity_the_highest_first(
        self, records: list[Record], query: VectorQuery, where: Filter
    ) -> None:
        async with self.empty() as collection:
            model: Model = {}
            put(model, records, SHAPE)
            await collection.upsert(records)
            found = await ranked(collection, query, where)
            whole = VectorQuery(query.vectors, query.combination, query.weights, whole=query.whole)
            assert dict(found) == pytest.approx(similarities(model, whole, where), abs=1e-5)
            scores = [score for _, score in found]
            assert scores == sorted(scores, reverse=True)
            assert len(dict(found)) == len(found)

    @pytest.mark.parametrize("form", ["{}", "k{}", "0{}", "9999999999999999{}"])
    async def test_blocks_join_without_a_gap_whatever_keys_are_like(self, form: str) -> None:
        query = VectorQuery({"text": packed([1, 0, 0, 0, 0])})
        async with self.empty() as collection:
            await collection.upsert(numbered(range(20_300), form))
            found = await ranked(collection, query)
            assert len(found) == len({key for key, _ in found}) == 20_300
            scores = [score for _, score in found]
            assert scores == sorted(scores, reverse=True)
            best = [key for key, _ in found[:21]]
            assert best == [form.format(number * 977) for number in range(21)]  # equal ones in order of rows
            gone = [form.format(number) for number in range(0, 20_300, 50)]
            await collection.delete(gone)
            await collection.upsert(numbered(range(20_300, 20_400), form))
            left = await ranked(collection, query)
            assert {key for key, _ in left} == {
                form.format(number) for number in range(20_400) if number % 50 or number >= 20_300
            }

    async def test_a_ranking_is_of_one_moment(self) -> None:
        query = VectorQuery({"text": packed([1, 0, 0, 0, 0])})
        async with self.empty() as collection:
            await collection.upsert(numbered(range(20_100)))
            blocks = collection.ranking(query, EVERYTHING)
            first = await anext(blocks)
            await collection.delete([str(number) for number in range(0, 20_100, 50)])
            await collection.upsert(numbered([50_000]))
            rest = [block async for block in blocks]
            keys = [*first.keys, *(key for block in rest for key in block.keys)]
            assert set(keys) == {str(number) for number in range(20_100)}

    @settings(max_examples=25, deadline=None)
    @given(st.lists(NOTES, max_size=20), FILTERS)
    async def test_a_tally_counts_every_value_of_what_matches(
        self, records: list[Record], where: Filter
    ) -> None:
        async with self.empty(NOTE) as collection:
            model: Model = {}
            put(model, records, NOTE)
            await collection.upsert(records)
            for field in ("author", "tags"):
                expected: Counter[object] = Counter()
                for record in meant(model, where, NOTE):
                    value = record.fields.get(field)
                    expected.update(
                        set(value) if isinstance(value, tuple) else [] if value is None else [value]
                    )
                assert await collection.tally(field, where) == expected

    @settings(max_examples=25, deadline=None)
    @given(st.lists(NOTES, max_size=20), FILTERS, st.sampled_from(["at", "likes"]), st.booleans())
    async def test_firsts_and_listings_are_as_worked_out_one_by_one(
        self, records: list[Record], where: Filter, field: str, descending: bool
    ) -> None:
        def place(record: Record) -> float:
            value = record.fields.get(field)
            return math.inf if not isinstance(value, int | float) else -value if descending else value

        async with self.empty(NOTE) as collection:
            model: Model = {}
            put(model, records, NOTE)
            await collection.upsert(records)
            expected = sorted(meant(model, where, NOTE), key=lambda record: (place(record), record.key))
            firsts: dict[object, str] = {}
            for record in expected:
                if "author" in record.fields:
                    firsts.setdefault(record.fields["author"], record.key)
            order = Order(field, descending)
            assert await collection.firsts("author", order, where) == firsts
            listed = [block async for block in collection.listing(order, where)]
            keys = [key for block in listed for key in block.keys]
            assert sorted(keys) == sorted(record.key for record in expected)
            assert [place(model[key]) for key in keys] == [place(record) for record in expected]
            assert [block.total for block in listed] == [len(expected)] * bool(expected)

    async def test_a_histogram_counts_from_each_bound_to_before_the_next(self) -> None:
        async with self.empty(NOTE) as collection:
            before = collection.changes
            ats = [None, -5, 0, 0, 9.5, 10, 19, 20, 25]
            await collection.upsert(
                [
                    Record(key=f"k{place}", fields={} if at is None else {"at": at})
                    for place, at in enumerate(ats)
                ]
            )
            assert collection.changes > before
            assert await collection.histogram("at", [0, 10, 20], EVERYTHING) == [3, 2]
            assert await collection.histogram("at", [0, 10, 20], Range("at", 9, 10)) == [1, 1]
            assert await collection.histogram("at", [100, 200], EVERYTHING) == [0]
            for field, bounds in (("author", [0.0, 1.0]), ("at", [0.0])):
                with pytest.raises(BadArguments):
                    await collection.histogram(field, bounds, EVERYTHING)
            with pytest.raises(BadArguments):
                await collection.tally("at", EVERYTHING)
            with pytest.raises(BadArguments):
                await collection.firsts("author", Order("author"), EVERYTHING)
            with pytest.raises(BadArguments):
                await anext(collection.listing(Order("tags"), EVERYTHING))

    async def test_a_set_may_have_tens_of_thousands_of_values(self) -> None:
        shape = Shape("users", (), (Field("user", Kind.STRING),))
        users = [f"u{number}" for number in range(3000)]
        async with self.empty(shape) as collection:
            await collection.upsert([Record(key=name, fields={"user": name}) for name in users])
            wanted = In("user", tuple(f"u{number}" for number in range(1500, 60_000)))
            assert await collection.count(wanted) == 1500
