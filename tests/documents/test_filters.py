"""Filters on metadata mean what a plain reading of them in Python means, whatever is asked of whatever."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.documents import metadata, searching
from tabane.documents.document import SHAPE, ChunkText, Document, head_record
from tabane.errors import BadArguments
from tabane.search.records import checked_filter as checked
from tabane.search.records import matches
from tests.documents.library import opened

Own = Mapping[str, Any]

KEYS = st.sampled_from(["year", "author", "tags", "done", "filepath", "file_type"])
STRINGS = st.sampled_from(["", "a", "ab", "b", "あ", "1", "true", "x\0y", "\U0010ffff"])
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -0.5, -0.0, 1e300, -1e300, 5e-324, -5e-324, 2**53, -(2**53)]),
    st.floats(allow_nan=False, allow_infinity=False),
)
SCALARS = st.one_of(STRINGS, NUMBERS, st.booleans())
OWN = st.dictionaries(
    st.sampled_from(["year", "author", "tags", "done"]),
    st.one_of(SCALARS, st.lists(STRINGS, max_size=3)),
    max_size=4,
)


@st.composite
def documents(draw: st.DrawFn) -> tuple[Document, Own]:
    own = metadata.checked(draw(OWN))
    file_type = draw(st.one_of(st.none(), st.sampled_from(["a", "b"])))
    document = Document(
        filepath=draw(st.sampled_from(["a", "ab", "b", "あ"])), kind="text", updated_at=0.0, hash="", size=1,
        length=1, measure="", file_type=file_type, metadata=own,
    )  # fmt: skip
    fields = {"filepath": document.filepath} | ({"file_type": file_type} if file_type else {})
    return document, {**own, **fields}


def _conditions(key: str) -> st.SearchStrategy[Any]:
    operand = STRINGS if key in ("filepath", "file_type") else SCALARS
    ordered = operand if key in ("filepath", "file_type") else st.one_of(STRINGS, NUMBERS)
    operators = st.one_of(
        st.tuples(st.sampled_from(["eq", "ne", "$eq", "$ne"]), operand),
        st.tuples(st.sampled_from(["gt", "gte", "lt", "lte", "$gt", "$lte"]), ordered),
        st.tuples(st.sampled_from(["in", "nin", "$in"]), st.lists(operand, max_size=3)),
        st.tuples(st.sampled_from(["prefix", "$prefix"]), STRINGS),
    )
    several = st.lists(operators, min_size=1, max_size=2).map(dict)
    return st.one_of(operand, st.lists(operand, max_size=3), several)


LEAVES = st.lists(KEYS.flatmap(lambda key: st.tuples(st.just(key), _conditions(key))), max_size=2).map(dict)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda of: {"$and": of}),
        st.lists(inner, max_size=3).map(lambda of: {"$or": of}),
        inner.map(lambda of: {"$not": of}),
        st.tuples(LEAVES, inner).map(lambda both: {**both[0], "$not": both[1]}),
    ),
    max_leaves=6,
)


def holds(filters: Mapping[str, Any], own: Own) -> bool:
    """What a filter means."""
    return all(_member(key, value, own) for key, value in filters.items())


def _member(key: str, value: Any, own: Own) -> bool:
    match key:
        case "$and":
            return all(holds(each, own) for each in value)
        case "$or":
            return any(holds(each, own) for each in value)
        case "$not":
            return not holds(value, own)
    if isinstance(value, dict):
        return all(
            _operated(operator.lstrip("$"), operand, _values(own, key)) for operator, operand in value.items()
        )
    return _operated("in" if isinstance(value, list) else "eq", value, _values(own, key))


def _values(own: Own, key: str) -> list[Any]:
    value = own.get(key, [])
    return value if isinstance(value, list) else [value]


def _operated(operator: str, operand: Any, values: list[Any]) -> bool:
    match operator:
        case "eq":
            return any(_same(each, operand) for each in values)
        case "ne":
            return not _operated("eq", operand, values)
        case "in":
            return any(_operated("eq", each, values) for each in operand)
        case "nin":
            return not _operated("in", operand, values)
        case "prefix":
            return any(isinstance(each, str) and each.startswith(operand) for each in values)
    return any(_ordered(operator, each, operand) for each in values if _alike(each, operand))


def _kind(value: Any) -> type:
    return type(value) if isinstance(value, bool | str) else float


def _alike(one: Any, other: Any) -> bool:
    return _kind(one) is _kind(other)


def _same(one: Any, other: Any) -> bool:
    return _alike(one, other) and bool(one == other)


def _ordered(operator: str, one: Any, other: Any) -> bool:
    return bool({"gt": one > other, "gte": one >= other, "lt": one < other, "lte": one <= other}[operator])


@pytest.mark.heavy("many files")
@settings(max_examples=120)
@given(documents(), FILTERS)
def test_a_filter_means_what_it_says(case: tuple[Document, Own], filters: Mapping[str, Any]) -> None:
    document, own = case
    record = head_record(document, metadata.encoded(document.metadata), ChunkText("a", (), ""))
    where = checked(searching.read(filters, UTC), SHAPE)
    assert matches(where, record) is holds(filters, own), (filters, own)


@pytest.mark.heavy("many files")
@settings(max_examples=15)
@given(st.lists(OWN, min_size=1, max_size=6), st.lists(FILTERS, min_size=1, max_size=5))
async def test_searches_and_lists_keep_to_the_filter(
    owns: list[Own], several: list[Mapping[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with opened(folder=folder) as asked:
            await asked.documents.put([])
            there = {f"d{place}": metadata.checked(own) for place, own in enumerate(owns)}
            for name, own in there.items():
                await asked.put(name, f"apples of {name}", metadata=own)
            for filters in several:
                meant = {name for name, own in there.items() if holds(filters, {**own, "filepath": name})}
                assert set(await asked.found("apples", filters=filters, mode="lexical", top_k=100)) == meant
                listed = await asked.call("list_documents", filters=filters)
                assert {each["filepath"] for each in listed["documents"]} == meant


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_written_in_their_order(one: float, other: float) -> None:
    first, second = metadata.spelled(one), metadata.spelled(other)
    assert (first < second, first == second) == (one < other, one == other)
    assert len(first) == 16
    assert metadata.spelled(math.copysign(0.0, one)) == metadata.spelled(0)


@pytest.mark.parametrize(
    ("filters", "path"),
    [
        ({"a": {"near": 1}}, "filters.a.near"),
        ({"a": {}}, "filters.a"),
        ({"a": {"in": 1}}, "filters.a.in"),
        ({"a": {"gt": True}}, "filters.a"),
        ({"a": {"prefix": 1}}, "filters.a.prefix"),
        ({"a": None}, "filters.a"),
        ({"a": {"eq": {"b": 1}}}, "filters.a.eq"),
        ({"$and": {}}, "filters.$and"),
        ({"$or": [1]}, "filters.$or"),
        ({"$or": [{"x": {"y": 1}}]}, "filters.$or[0].x.y"),
        ({"$nor": []}, "filters.$nor"),
        ({"file_type": 1}, "filters.file_type"),
        ({"updated_at": "yesterday"}, "filters.updated_at"),
        ({"updated_at": True}, "filters.updated_at"),
        ({"updated_at": {"prefix": "2025"}}, "filters.updated_at"),
        ({"updated_at": "9999-12-31"}, "filters.updated_at"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused_by_its_path(filters: Mapping[str, Any], path: str) -> None:
    with pytest.raises(BadArguments) as raised:
        searching.read(filters, UTC)
    assert raised.value.parameter == path


async def test_a_filter_that_is_too_deep_or_too_long_is_an_answer_too() -> None:
    async with opened() as asked:
        deep: dict[str, Any] = {"a": 1}
        for _ in range(200):
            deep = {"$not": deep}
        for filters in (deep, {"a": [str(number) for number in range(100_001)]}):
            found = await asked.call("search_documents", query="a", filters=filters)
            assert (found["status"], found["error_type"]) == ("error", "ValidationError")
