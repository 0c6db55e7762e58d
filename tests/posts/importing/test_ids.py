"""A table of ids behaves like a dict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabane.posts.importing.import_report import LARGEST, PostIdTable, post_id

# Few low bits: they meet in one place of the table.
IDS = st.integers(1, LARGEST) | st.integers(1, 50).map(lambda number: number << 40)


@given(st.lists(st.tuples(IDS, st.integers(0, 2**64 - 1)), max_size=200))
def test_a_table_of_ids_holds_what_a_dict_would(items: list[tuple[int, int]]) -> None:
    table, model = PostIdTable(), dict(items)
    for post, value in items:
        table[post] = value
    assert {post: table.get(post, -1) for post in table} == model
    assert len(table) == len(model)
    assert all(post in table for post in model)
    assert table.get(LARGEST - 12345, -1) == model.get(LARGEST - 12345, -1)


def test_a_table_grows_and_loses_nothing() -> None:
    table = PostIdTable("B")
    for number in range(1, 20_000):
        table[number * 4_194_304] = number % 200
    assert all(table.get(number * 4_194_304, 255) == number % 200 for number in range(1, 20_000))
    assert 4_194_303 not in table


def test_ids_are_positive_numbers_of_63_bits_in_plain_digits() -> None:
    assert post_id("1234567890123456789") == 1234567890123456789
    assert post_id(str(LARGEST)) == LARGEST
    assert [post_id(text) for text in ("", "0", "-1", "1e5", "１２", "9" * 19, " 1", "1" * 20)] == [None] * 8
