"""A collection with a field of each kind, and strategies for records, filters and orders over it."""

from __future__ import annotations

from hypothesis import strategies as st

from tabane.search.engine import Order
from tabane.search.records import (
    And,
    Contains,
    Equal,
    Everything,
    Field,
    Filter,
    In,
    Kind,
    Not,
    Or,
    Prefix,
    Range,
    Record,
    Shape,
    TextField,
    Value,
)

SHAPE = Shape(
    "notes",
    (TextField("title", 2.0), TextField("body")),
    (
        Field("author", Kind.STRING),
        Field("likes", Kind.NUMBER),
        Field("at", Kind.DATE),
        Field("open", Kind.BOOLEAN),
        Field("tags", Kind.STRINGS),
    ),
)

# Few of each, so that they meet; with what stands at the ends of orders, and what is spelled in two ways.
STRINGS = st.sampled_from(
    [
        "",
        "a",
        "ab",
        "A",
        "b",
        "東",
        "東京",
        "京都",
        "é",
        "e\u0301",
        "\x00",
        "\ud7ff",
        "\ue000",
        "😀",
        "\U0010ffff",
    ]
)
NUMBERS = st.sampled_from([0, -0.0, 0.1, 1, 1.0, 1.5, -3, 2**53, -(2**53), 1e308, 5e-324])
DATES = st.sampled_from([0, 1.5, 1_700_000_000, 1_700_000_000.25, -86_400])
TEXTS = st.sampled_from(
    [
        "",
        "東京都の株価",
        "京都へ行く",
        "トウキョウ",
        "ﾄｳｷｮｳ",
        "とうきょう",
        "ＡＢＣ abc",
        "Straße",
        "STRASSE",
        "a",
        "か\u3099",
        "が",
    ]
)
KEYS = st.sampled_from([*(f"k{number}" for number in range(12)), "鍵", "が", "か\u3099", "K1"])

_FIELDS: dict[str, st.SearchStrategy[Value]] = {
    "author": STRINGS,
    "likes": NUMBERS,
    "at": DATES,
    "open": st.booleans(),
    "tags": st.lists(STRINGS, max_size=4).map(tuple),
}
_VALUES = {**_FIELDS, "tags": STRINGS}

RECORDS = st.builds(
    Record,
    key=KEYS,
    texts=st.fixed_dictionaries({}, optional={"title": TEXTS, "body": TEXTS}),
    fields=st.fixed_dictionaries({}, optional=_FIELDS),
    payload=st.sampled_from([b"", b"{}", b'{"a":1}', b"\xff\x00"]),
)


def _conditions(field: str) -> st.SearchStrategy[Filter]:
    values = _VALUES[field]
    found: list[st.SearchStrategy[Filter]] = [
        st.builds(Equal, st.just(field), values),
        st.builds(In, st.just(field), st.lists(values, max_size=3).map(tuple)),
    ]
    if field != "open":
        bound = st.none() | values
        found.append(st.builds(Range, st.just(field), bound, bound, st.booleans(), st.booleans()))
    if field in ("author", "tags"):
        found.append(st.builds(Prefix, st.just(field), STRINGS))
    return st.one_of(found)


_NEEDLES = st.sampled_from(["東", "京都", "東京", "トウ", "ﾄ", "と", "abc", "Ａ", "ss", "STRASSE", "が", " "])
_CONTAINS = st.builds(Contains, _NEEDLES, st.sampled_from([None, ("title",), ("body", "title")]))


def _joined(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    some = st.lists(inner, max_size=3).map(tuple)
    return st.builds(Not, inner) | st.builds(And, some) | st.builds(Or, some)


FILTERS: st.SearchStrategy[Filter] = st.recursive(
    st.one_of(st.just(Everything()), _CONTAINS, *map(_conditions, _FIELDS)), _joined, max_leaves=6
)

ORDERS = st.lists(
    st.builds(Order, st.sampled_from(["author", "likes", "at", "open"]), st.booleans()), max_size=3
).map(tuple)
