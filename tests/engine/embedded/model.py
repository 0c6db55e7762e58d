"""What a collection ought to answer, worked out the plain way from a dict of its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cmp_to_key

import msgspec

from tabane.search.engine import Collection, Order
from tabane.search.records import (
    EVERYTHING,
    Equal,
    Filter,
    Kind,
    Record,
    Scalar,
    Shape,
    checked_filter,
    matches,
    values_of,
)
from tabane.search.records import checked as checked_record

Model = dict[str, Record]


def put(model: Model, records: Iterable[Record], shape: Shape) -> list[bool]:
    """Upsert into the model; the answer is what the collection's ought to be."""
    results = []
    for record in records:
        ready = checked_record(record, shape)
        results.append(model.get(ready.key) != ready)
        model[ready.key] = ready
    return results


def exchange(
    model: Model, records: Iterable[Record], gone: Iterable[str], shape: Shape
) -> tuple[list[bool], int]:
    """Exchange in the model; the answer is what the collection's ought to be."""
    deleted = sum(model.pop(key, None) is not None for key in gone)
    results = []
    for record in records:
        ready, there = checked_record(record, shape), model.get(record.key)
        if there is not None and not ready.vectors:
            ready = msgspec.structs.replace(ready, vectors=there.vectors)  # its vectors stay, if all else is
        same = ready == there
        results.append(not same)
        model[ready.key] = ready if same else checked_record(record, shape)
    return results, deleted


def meant(model: Model, where: Filter, shape: Shape) -> list[Record]:
    fitted = checked_filter(where, shape)
    return [record for record in model.values() if matches(fitted, record)]


def ordered(records: Iterable[Record], order: Sequence[Order]) -> list[str]:
    """The keys in order: by each field, absent last, then by key."""

    def compared(one: Record, other: Record) -> int:
        for each in order:
            left, right = one.fields.get(each.field), other.fields.get(each.field)
            if left == right:
                continue
            if left is None or right is None:
                return 1 if left is None else -1
            less = left < right  # type: ignore[operator]
            return -1 if less != each.descending else 1
        return -1 if one.key < other.key else 1

    return [record.key for record in sorted(records, key=cmp_to_key(compared))]


def faceted(records: Iterable[Record], field: str, limit: int) -> list[tuple[Scalar, int]]:
    counted = Counter(value for record in records for value in dict.fromkeys(values_of(record, field)))
    return sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]


async def all_of(
    collection: Collection, where: Filter = EVERYTHING, order: tuple[Order, ...] = (), limit: int = 100
) -> list[Record]:
    """Every record of a selection, page by page."""
    page = await collection.select(where, order=order, limit=limit)
    found = list(page.records)
    while page.after is not None:
        page = await collection.select(where, order=order, after=page.after, limit=limit)
        found.extend(page.records)
    return [stored.record for stored in found]


async def agrees(collection: Collection, model: Model) -> None:
    """Every way of asking says what the model says: records, keys, counts, facets, filters."""
    records = await all_of(collection, limit=37)
    assert records == [model[key] for key in sorted(model)]
    assert await collection.count(EVERYTHING) == len(model)
    some = sorted(model)[:50]
    assert await collection.get(some) == [model[key] for key in some]
    for field in collection.shape.fields:
        facet = await collection.facet(field.name, EVERYTHING, 1000)
        assert facet == faceted(model.values(), field.name, 1000), field
        if facet and field.kind is not Kind.BOOLEAN:
            value, count = facet[-1]
            assert await collection.count(Equal(field.name, value)) == count
