"""What every engine keeps, whatever it is made of: subclass with a way to open one, and run.

Nothing here knows how an engine stores. ``home`` is a folder that is the engine's own for one test;
opened again with the same folder, it has what it had.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import BadArguments
from tabane.search.engine import Collection, Order
from tabane.search.records import (
    EVERYTHING,
    MOST_VALUES,
    NOTHING,
    And,
    Contains,
    Equal,
    Field,
    Filter,
    In,
    Kind,
    Not,
    Prefix,
    Range,
    Record,
    Shape,
    TextField,
)
from tests.engine.embedded.model import Model, agrees, all_of, faceted, meant, ordered, put
from tests.engine.embedded.shapes import FILTERS, ORDERS, RECORDS, SHAPE


class Engine(Protocol):
    """Opens a collection of the engine under test."""

    def __call__(self, home: Path, shape: Shape) -> AbstractAsyncContextManager[Collection]: ...


def note(number: int, **fields: object) -> Record:
    return Record(key=f"n{number:05}", texts={"body": f"note {number}"}, fields=fields)  # type: ignore[arg-type]


class EngineContract:
    """What contracts share. A subclass has ``engine``."""

    engine: Engine
    shape = SHAPE

    @asynccontextmanager
    async def empty(self, shape: Shape | None = None) -> AsyncIterator[Collection]:
        """Open a collection that is empty."""
        with tempfile.TemporaryDirectory() as home:
            async with self.engine(Path(home), shape or self.shape) as collection:
                yield collection


class RecordsContract(EngineContract):
    """The protocol Records."""

    async def test_what_comes_back_is_what_went_in(self) -> None:
        record = Record(
            key="鍵 1",
            texts={"title": "題", "body": "Text\nwith 😀"},
            fields={
                "author": "江",
                "likes": 2.5,
                "at": 1_700_000_000,
                "open": False,
                "tags": ("b", "a", "b"),
            },
            payload=b'{"any": [1, "\\u3042"]}\xff',
        )
        async with self.empty() as collection:
            assert await collection.upsert([record]) == [True]
            assert await collection.get(["鍵 1", "absent"]) == [record, None]
            page = await collection.select(EVERYTHING)
            assert [stored.record for stored in page.records] == [record]
            assert page.after is None

    async def test_an_upsert_says_what_is_new_or_changed(self) -> None:
        async with self.empty() as collection:
            assert await collection.upsert([note(1, likes=1), note(2)]) == [True, True]
            assert await collection.upsert([note(1, likes=1.0), note(2, likes=0), note(3)]) == [
                False,
                True,
                True,
            ]
            assert await collection.count(EVERYTHING) == 3
            assert await collection.upsert([]) == []

    async def test_the_last_of_equal_keys_stays(self) -> None:
        async with self.empty() as collection:
            results = await collection.upsert([note(1, likes=1), note(1, likes=2), note(1, likes=2)])
            assert results == [True, True, False]
            assert await collection.get(["n00001"]) == [note(1, likes=2)]
            assert await collection.facet("likes", EVERYTHING) == [(2, 1)]

    async def test_keys_are_one_whether_composed_or_not(self) -> None:
        async with self.empty() as collection:
            await collection.upsert([Record(key="か\u3099")])
            assert await collection.upsert([Record(key="が")]) == [False]
            assert await collection.get(["か\u3099"]) == [Record(key="が")]
            assert await collection.delete(["か\u3099"]) == 1

    async def test_more_than_one_commit_takes_goes_in_whole(self) -> None:
        many = [note(number, likes=number % 7) for number in range(731)]
        heavy = [Record(key=f"h{number}", payload=b"x" * 700_000) for number in range(7)]
        async with self.empty() as collection:
            assert await collection.upsert(many + heavy) == [True] * 738
            assert await collection.count(EVERYTHING) == 738
            assert await collection.count(Equal("likes", 3)) == 104
            assert await collection.delete([record.key for record in many]) == 731
            assert await all_of(collection) == heavy

    async def test_delete_counts_what_was_there(self) -> None:
        async with self.empty() as collection:
            await collection.upsert([note(1), note(2)])
            assert await collection.delete(["n00001", "n00001", "absent"]) == 1
            assert await collection.get(["n00001", "n00002"]) == [None, note(2)]
            assert await collection.upsert([note(1)]) == [True]

    @pytest.mark.parametrize(
        ("wrong", "parameter"),
        [
            (Record(key=""), "key"),
            (Record(key="k" * 1025), "key"),
            (Record(key="\ud800"), "key"),
            (Record(key="k", texts={"absent": "text"}), "absent"),
            (Record(key="k", texts={"body": "\udfff"}), "body"),
            (Record(key="k", fields={"absent": 1}), "absent"),
            (Record(key="k", fields={"author": 1}), "author"),
            (Record(key="k", fields={"author": "x" * 4097}), "author"),
            (Record(key="k", fields={"likes": "1"}), "likes"),
            (Record(key="k", fields={"likes": True}), "likes"),
            (Record(key="k", fields={"likes": float("nan")}), "likes"),
            (Record(key="k", fields={"likes": 2**53 + 1}), "likes"),
            (Record(key="k", fields={"at": float("inf")}), "at"),
            (Record(key="k", fields={"open": 1}), "open"),
            (Record(key="k", fields={"tags": "one"}), "tags"),
            (Record(key="k", payload=b"x" * 4_000_001), "k"),
        ],
    )
    async def test_a_record_that_does_not_fit_keeps_the_others_out_too(
        self, wrong: Record, parameter: str
    ) -> None:
        async with self.empty() as collection:
            with pytest.raises(BadArguments) as refused:
                await collection.upsert([note(1), wrong])
            assert refused.value.parameter == parameter
            assert await collection.count(EVERYTHING) == 0

    @pytest.mark.parametrize(
        ("wrong", "parameter"),
        [
            (Equal("absent", 1), "absent"),
            (Equal("likes", "1"), "likes"),
            (And((Not(In("open", (True, 1))),)), "open"),
            (Prefix("likes", "1"), "likes"),
            (Range("open"), "open"),
            (Range("at", "2024"), "at"),
            (Contains(""), "contains"),
            (Contains("x", ("absent",)), "absent"),
            (In("likes", tuple(range(MOST_VALUES + 1))), "filter"),
        ],
    )
    async def test_a_filter_that_does_not_fit_is_refused(self, wrong: Filter, parameter: str) -> None:
        async with self.empty() as collection:
            for asked in (
                collection.count(wrong),
                collection.select(wrong),
                collection.facet("likes", wrong),
            ):
                with pytest.raises(BadArguments) as refused:
                    await asked
                assert refused.value.parameter == parameter

    async def test_a_filter_has_a_bounded_depth(self) -> None:
        deep: Filter = Equal("likes", 1)
        for _ in range(31):
            deep = Not(deep)
        async with self.empty() as collection:
            await collection.upsert([note(1, likes=1)])
            assert await collection.count(deep) == 0
            with pytest.raises(BadArguments):
                await collection.count(Not(deep))

    async def test_limits_are_bounded(self) -> None:
        async with self.empty() as collection:
            for limit in (0, 1001):
                for asked in (
                    collection.select(EVERYTHING, limit=limit),
                    collection.facet("likes", EVERYTHING, limit),
                ):
                    with pytest.raises(BadArguments):
                        await asked
            with pytest.raises(BadArguments):
                await collection.select(EVERYTHING, order=(Order("tags"),))
            with pytest.raises(BadArguments):
                await collection.facet("absent", EVERYTHING)

    @given(st.lists(RECORDS, max_size=20), st.lists(FILTERS, min_size=1, max_size=6))
    async def test_filters_counts_and_facets_mean_what_they_say(
        self, records: list[Record], wheres: list[Filter]
    ) -> None:
        async with self.empty() as collection:
            model: Model = {}
            assert await collection.upsert(records) == put(model, records, SHAPE)
            for where in wheres:
                expected = meant(model, where, SHAPE)
                assert await all_of(collection, where) == sorted(expected, key=lambda record: record.key)
                assert await collection.count(where) == len(expected)
                for field in SHAPE.fields:
                    for limit in (2, 1000):
                        facet = await collection.facet(field.name, where, limit)
                        assert facet == faceted(expected, field.name, limit)

    @given(st.lists(RECORDS, max_size=20), ORDERS, st.integers(1, 5))
    async def test_pages_follow_the_order(
        self, records: list[Record], order: tuple[Order, ...], limit: int
    ) -> None:
        async with self.empty() as collection:
            model: Model = {}
            await collection.upsert(records)
            put(model, records, SHAPE)
            found = await all_of(collection, order=order, limit=limit)
            assert [record.key for record in found] == ordered(model.values(), order)

    @given(st.data(), ORDERS)
    async def test_a_record_that_stays_comes_once_whatever_is_written_between_pages(
        self, data: st.DataObject, order: tuple[Order, ...]
    ) -> None:
        values = st.sampled_from(["a", "b", "c"])
        first = {f"s{number:02}": data.draw(values) for number in range(12)}

        def note_of(key: str, value: str) -> Record:
            return Record(key=key, fields={"author": value, "likes": ord(value)})

        async def disturb(collection: Collection) -> set[str]:
            key = data.draw(st.sampled_from([*first, "a0", "s055", "z9"]))
            if data.draw(st.booleans()):
                await collection.delete([key])
            else:
                await collection.upsert([note_of(key, data.draw(values))])
            return {key}

        async with self.empty() as collection:
            for key, value in first.items():
                await collection.upsert([Record(key=key, fields={"author": value, "likes": ord(value)})])
            seen: list[str] = []
            after: str | None = None
            touched: set[str] = set()
            while True:
                page = await collection.select(EVERYTHING, order=order, after=after, limit=3)
                seen += [stored.record.key for stored in page.records]
                after = page.after
                if after is None:
                    break
                touched |= await disturb(collection)
            stayed = [key for key in first if key not in touched]
            assert [key for key in seen if key in stayed] == ordered(
                [note_of(key, first[key]) for key in stayed], order
            )

    async def test_a_cursor_belongs_to_its_order(self) -> None:
        async with self.empty() as collection:
            await collection.upsert([note(number, likes=number) for number in range(5)])
            page = await collection.select(EVERYTHING, order=(Order("likes"),), limit=2)
            wrong: Sequence[tuple[tuple[Order, ...], str | None]] = [
                ((Order("likes", descending=True),), page.after),
                ((), page.after),
                ((Order("likes"),), "not a cursor"),
                ((Order("likes"),), "东"),
                ((Order("likes"),), ""),
            ]
            for order, after in wrong:
                with pytest.raises(BadArguments) as refused:
                    await collection.select(EVERYTHING, order=order, after=after)
                assert refused.value.parameter == "after"

    async def test_what_was_acknowledged_is_seen_at_once_by_everyone(self) -> None:
        async with self.empty() as collection:

            async def writer(lane: int) -> None:
                for number in range(20):
                    record = Record(
                        key=f"{lane}-{number}", fields={"author": f"lane {lane}", "likes": number}
                    )
                    await collection.upsert([record])
                    assert await collection.count(Equal("author", f"lane {lane}")) == number + 1
                    assert await collection.get([record.key]) == [record]

            await asyncio.gather(*map(writer, range(8)))
            assert await collection.count(EVERYTHING) == 160

    async def test_a_replaced_record_is_never_missing_nor_double(self) -> None:
        async with self.empty() as collection:
            await collection.upsert([note(number, likes=0) for number in range(300)])
            done = asyncio.Event()

            async def replace() -> None:
                for turn in range(1, 30):
                    await collection.upsert([note(number, likes=turn) for number in range(100, 160)])
                done.set()

            async def look() -> None:
                while not done.is_set():
                    assert await collection.count(EVERYTHING) == 300
                    assert len(await all_of(collection, limit=1000)) == 300
                    facet = await collection.facet("likes", EVERYTHING)
                    assert sum(count for _, count in facet) == 300

            await asyncio.gather(replace(), look(), look())

    async def test_what_is_stored_outlives_closing(self, tmp_path: Path) -> None:
        model: Model = {}
        records = [note(number, likes=number % 5, tags=["a", f"t{number}"]) for number in range(400)]
        async with self.engine(tmp_path, SHAPE) as collection:
            await collection.upsert(records)
            await collection.delete(["n00003"])
        put(model, records, SHAPE)
        del model["n00003"]
        async with self.engine(tmp_path, SHAPE) as collection:
            await agrees(collection, model)

    async def test_another_shape_is_taken_on(self, tmp_path: Path) -> None:
        wider = Shape(
            SHAPE.name,
            (*SHAPE.texts, TextField("summary")),
            (*SHAPE.fields[:-1], Field("place", Kind.STRING), Field("tags", Kind.STRINGS)),
        )
        async with self.engine(tmp_path, SHAPE) as collection:
            await collection.upsert([note(1, likes=1, tags=["a"]), note(2, likes=2)])
        async with self.engine(tmp_path, wider) as collection:
            assert await collection.count(Equal("likes", 2)) == 1
            assert await collection.count(Range("place")) == 0
            await collection.upsert([note(2, place="東京", tags=["a"])])
            assert await collection.facet("tags", EVERYTHING) == [("a", 2)]
            assert await collection.facet("place", EVERYTHING) == [("東京", 1)]
            assert await collection.count(NOTHING) == 0
