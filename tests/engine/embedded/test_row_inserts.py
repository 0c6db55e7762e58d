"""Rows that are inserted together, and records of one write that meet each other in it."""

from __future__ import annotations

import sqlite3
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.engine.embedded.database import TOGETHER, RowInserts
from tabane.search.records import EVERYTHING, EmbeddingSpace, Field, Kind, Record, Shape, TextField
from tests.engine.embedded.opening import embedded
from tests.engine.embedded.vectors.oracle import packed

SHAPE = Shape(
    "notes",
    (TextField("body"),),
    (Field("by", Kind.STRING), Field("tags", Kind.STRINGS)),
    (EmbeddingSpace("one", 4), EmbeddingSpace("two", 2)),
)


@pytest.mark.parametrize("count", [0, 1, TOGETHER - 1, TOGETHER, 2 * TOGETHER + 3])
def test_all_rows_are_inserted_in_order_and_once(count: int) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE pair (id INTEGER PRIMARY KEY, number INTEGER, text TEXT)")
    inserts = RowInserts(connection, "pair", ("number", "text"))
    for number in range(count):
        inserts.add(number, f"text {number}")
    inserts.flush()
    inserts.flush()
    rows = connection.execute("SELECT number, text FROM pair ORDER BY id").fetchall()
    assert rows == [(number, f"text {number}") for number in range(count)]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 3)), max_size=150))
async def test_records_of_a_write_replace_each_other_with_their_vectors(
    given: list[tuple[int, int, int]],
) -> None:
    """The same keys again and again, equal or different, with vectors of no space, one, or both."""
    records = [_record(*each) for each in given]

    async with embedded(shape=SHAPE) as collection:
        stored: dict[str, Record] = {}
        results = []
        for record in records:
            results.append(stored.get(record.key) != record)
            stored[record.key] = record
        assert await collection.upsert(records) == results
        keys = list(stored)
        assert await collection.get(keys) == [
            Record(key=key, texts=stored[key].texts, fields=stored[key].fields) for key in keys
        ]
        authors = Counter(record.fields["by"] for record in stored.values())
        assert dict(await collection.facet("by", EVERYTHING)) == authors
        tags = Counter(tag for record in stored.values() for tag in _tags(record))
        assert dict(await collection.facet("tags", EVERYTHING)) == tags
        for space in ("one", "two"):
            wanted = [stored[key].vectors.get(space) for key in keys]
            assert await collection.vectors(keys, space) == wanted
        assert await collection.engine.agrees()


def _record(key: int, text: int, spaces: int) -> Record:
    vectors = {}
    if spaces & 1:
        vectors["one"] = packed([1.0, key, text, spaces])
    if spaces & 2:
        vectors["two"] = packed([text + 1.0, key])
    tags = tuple(f"tag {number}" for number in range(text))
    return Record(
        key=str(key),
        texts={"body": f"text {text}"},
        fields={"by": f"author {key % 4}", **({"tags": tags} if tags else {})},
        vectors=vectors,
    )


def _tags(record: Record) -> tuple[str, ...]:
    tags = record.fields.get("tags", ())
    assert isinstance(tags, tuple)
    return tags
