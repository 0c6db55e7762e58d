"""Counts that are kept from write to write are those that counting anew gives."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.engine.embedded.masks import KEPT, CountCache, Masks
from tabane.search.engine import Order
from tabane.search.records import (
    EVERYTHING,
    Equal,
    Field,
    Filter,
    Kind,
    Range,
    Record,
    Shape,
    Value,
    checked_key,
)
from tests.engine.embedded.model import Model, meant, ordered, put
from tests.engine.embedded.opening import embedded
from tests.engine.embedded.shapes import FILTERS, KEYS, RECORDS, SHAPE

SMALL = Shape(
    "small", (), (Field("user", Kind.STRING), Field("at", Kind.NUMBER), Field("tags", Kind.STRINGS))
)


def tallied(records: Sequence[Record], field: str) -> Counter[object]:
    found: Counter[object] = Counter()
    for record in records:
        value = record.fields.get(field)
        found.update(set(value) if isinstance(value, tuple) else [] if value is None else [value])
    return found


def first(records: Sequence[Record], order: Order) -> list[str]:
    def place(record: Record) -> tuple[bool, float, str]:
        value = record.fields.get(order.field)
        number = float(value) if isinstance(value, int | float) else 0.0
        return value is None, -number if order.descending else number, record.key

    return [record.key for record in sorted(records, key=place)]


_WRITES = st.lists(st.one_of(st.lists(RECORDS, max_size=6), st.lists(KEYS, max_size=3)), max_size=8)


@pytest.mark.heavy("thousands of records")
@settings(max_examples=60, deadline=None)
@given(_WRITES, FILTERS, st.builds(Order, st.sampled_from(["at", "likes"]), st.booleans()))
async def test_after_each_write_counts_are_those_of_the_records(
    writes: list[list[Record] | list[str]], where: Filter, order: Order
) -> None:
    async with embedded() as collection:
        model: Model = {}
        for write in writes:
            records = [each for each in write if isinstance(each, Record)]
            keys = [checked_key(each) for each in write if isinstance(each, str)]
            put(model, records, SHAPE)
            await collection.upsert(records)
            for key in keys:
                model.pop(key, None)
            await collection.delete(keys)
            for each in (where, EVERYTHING):
                there = meant(model, each, SHAPE)
                assert await collection.count(each) == len(there)
                assert await collection.tally("author", each) == tallied(there, "author")
                assert await collection.tally("tags", each) == tallied(there, "tags")
                page = await collection.select(each, order=(order,), limit=1)
                assert [stored.record.key for stored in page.records] == first(there, order)[:1]
                assert (page.after is not None) == (len(there) > 1)


def small(number: int, user: str = "") -> Record:
    fields: dict[str, Value] = {
        "user": user or f"u{number % 50}",
        "at": number,
        "tags": (f"t{number % 7}", "all"),
    }
    return Record(key=str(number), fields=fields)


@pytest.mark.parametrize("values", [(1, 2, 3), (1, 1, 2, 2, 2), (3, None, 3, None)])
async def test_pages_are_complete_and_in_order_after_any_record_came_or_went(
    values: tuple[int | None, ...],
) -> None:
    records = [
        Record(key=str(key), fields={} if value is None else {"at": value})
        for key, value in enumerate(values)
    ]
    async with embedded(shape=SMALL) as collection:

        async def pages(order: Order, limit: int) -> list[list[str]]:
            page = await collection.select(EVERYTHING, order=(order,), limit=limit)
            found = [page]
            while page.after is not None:
                page = await collection.select(EVERYTHING, order=(order,), after=page.after, limit=limit)
                found.append(page)
            return [[stored.record.key for stored in each.records] for each in found]

        async def check(present: Sequence[Record]) -> None:
            for order, limit in itertools.product((Order("at"), Order("at", descending=True)), (1, 2)):
                keys = ordered(present, (order,))
                wanted = [keys[at : at + limit] for at in range(0, len(keys), limit)]
                assert await pages(order, limit) == wanted

        await collection.upsert(records)
        for gone in records:
            await check(records)
            await collection.delete([gone.key])
            await check([each for each in records if each is not gone])
            await collection.upsert([gone])


async def test_what_was_swept_since_a_count_is_not_counted_on() -> None:
    async with embedded(shape=SMALL) as collection:
        await collection.upsert([small(number) for number in range(100)] + [small(100, "alone")])
        assert (await collection.tally("user", EVERYTHING))["alone"] == 1
        await collection.delete(["100"])
        await collection.engine.compact()
        assert await collection.tally("user", EVERYTHING) == {f"u{number}": 2 for number in range(50)}


async def test_what_moved_to_other_rows_is_counted_once(tmp_path: Path) -> None:
    async with embedded(tmp_path, SMALL) as collection:
        await collection.upsert([small(number) for number in range(9000)])
        assert await collection.count(Range("tags")) == 9000
        await collection.delete([str(number) for number in range(0, 9000, 2)])
        for _ in range(2):
            assert await collection.count(Range("tags")) == 4500
            assert await collection.count(Equal("tags", "all")) == 4500
            assert sum((await collection.tally("user", EVERYTHING)).values()) == 4500
            page = await collection.select(EVERYTHING, order=(Order("at"),), limit=1)
            assert page.records[0].record.key == "1"
            await collection.engine.compact()


class _Watched(Masks):
    """Tells how often all is counted."""

    times = 0

    def tally(self, field: str, where: Filter) -> dict[str | int | float | bool, int]:
        _Watched.times += 1
        return super().tally(field, where)


async def test_after_a_small_write_not_all_is_counted_again_and_the_last_so_many_are_kept() -> None:
    async with embedded(shape=SMALL) as collection:
        tallies, table = CountCache(), collection.engine.table
        _Watched.times = 0

        async def asked(where: Filter) -> int:
            def reading(masks: Masks, connection: object) -> int:
                watched = _Watched(
                    masks.snapshot, masks._strings, masks._connection, masks._holding, masks.sweeps
                )
                return sum(tallies.tally(watched, "user", where).values())

            return await table.read(reading)

        await collection.upsert([small(number) for number in range(3000)])
        assert await asked(EVERYTHING) == 3000
        for number in range(3000, 3010):
            await collection.upsert([small(number), small(5, f"v{number}")])
            await collection.delete([str(number - 2990)])
            assert await asked(EVERYTHING) == 3000
        assert _Watched.times == 1
        for number in range(KEPT):
            await asked(Equal("user", f"u{number}"))
        await asked(EVERYTHING)
        assert _Watched.times == 2 + KEPT


async def test_a_string_that_was_swept_meanwhile_does_not_make_its_old_records_count() -> None:
    async with embedded() as collection:
        gone = Record(key="k", fields={"author": "ann"})
        await collection.upsert([gone])
        assert await collection.count(Equal("author", "ann")) == 1
        await collection.delete(["k"])
        await collection.engine.compact()
        await collection.upsert([gone])
        assert await collection.count(Equal("author", "ann")) == 1
