"""Cursors: of one kind alone, and safe in any place; pages of our own lists."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.wire import cursors
from tabane.wire.cursors import LONGEST, CursorCodec, ForeignCursor
from tabane.wire.era import INVALID_PARAMS, ProtocolRefusal


class Place(NamedTuple):
    start: int
    values: tuple[str | float | bool | None, ...]
    digest: bytes


KEYS = st.text(st.characters(), max_size=12) | st.sampled_from(["", "\n", "\ud800", "tools", "a\nb"])
KINDS = st.sampled_from(["tools", "prompts", "resources", "templates"])
VALUES = st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5)
PLACES = st.builds(
    Place, st.integers(0, 1 << 40), st.lists(VALUES, max_size=3).map(tuple), st.binary(max_size=8)
)
CODEC = CursorCodec("pages", Place)


@given(PLACES)
def test_a_cursor_gives_its_place_back_and_is_safe_in_a_url(place: Place) -> None:
    cursor = CODEC.encode(place)
    assert CODEC.decode(cursor) == place
    assert cursor.isascii()
    assert cursor.replace("-", "").replace("_", "").isalnum()


@given(PLACES)
def test_a_cursor_is_of_its_kind_and_shape(place: Place) -> None:
    for other in (CursorCodec("posts", Place), CursorCodec("pages", int)):
        with pytest.raises(ForeignCursor):
            other.decode(CODEC.encode(place))


@given(PLACES, st.integers(0), st.characters(codec="ascii"))
def test_a_changed_cursor_is_refused(place: Place, at: int, character: str) -> None:
    cursor = CODEC.encode(place)
    changed = cursor[: at % len(cursor)] + character + cursor[at % len(cursor) + 1 :]
    if changed != cursor:
        with pytest.raises(ForeignCursor):
            CODEC.decode(changed)


@given(st.text() | st.text("AQ-_", max_size=12) | st.just("A" * (LONGEST + 1)))
def test_what_we_did_not_hand_out_is_refused(cursor: str) -> None:
    with pytest.raises(ForeignCursor):
        CODEC.decode(cursor)


@given(KINDS, KINDS, KEYS)
def test_a_cursor_of_a_list_holds_its_key_and_is_none_of_another_list(
    kind: str, other: str, after: str
) -> None:
    cursor = cursors.list_cursor(kind, after)
    assert cursors.key_of_cursor(cursor, kind) == after
    if kind != other:
        with pytest.raises(ProtocolRefusal):
            cursors.key_of_cursor(cursor, other)


@pytest.mark.parametrize("cursor", ["", "0", "dG9vbHMKYQ", " {}", "{}=", "{} ", "\ud800", "/w"])
def test_the_empty_string_and_what_is_nearly_ours_is_refused(cursor: str) -> None:
    with pytest.raises(ProtocolRefusal) as caught:
        cursors.key_of_cursor(cursor.format(cursors.list_cursor("tools", "a")), "tools")
    assert caught.value.code == INVALID_PARAMS
    assert "list again from the start" in caught.value.message


@given(st.lists(KEYS, unique=True, max_size=20), st.integers(1, 7))
def test_pages_hold_each_key_once_in_order_and_end(keys: list[str], size: int) -> None:
    seen: list[str] = []
    after: str | None = None
    for _ in range(len(keys) // size + 1):
        part, after = cursors.page(keys, after, size)
        assert len(part) == size or after is None
        seen += part
        if after is None:
            break
    assert (seen, after) == (keys, None)


def test_no_page_is_empty_but_the_only_one() -> None:
    assert cursors.page([], None, 3) == ([], None)
    assert cursors.page(["a", "b"], None, 2) == (["a", "b"], None)
    assert cursors.page(("a", "b", "c"), None, 2) == (("a", "b"), "b")


def test_what_came_or_went_between_two_pages_shifts_nothing() -> None:
    _, after = cursors.page(["a", "b", "c", "d"], None, 2)
    assert cursors.page(["0", "b", "b2", "c", "d"], after, 2) == (["b2", "c"], "c")


def test_a_place_that_is_gone_is_refused_with_what_to_do() -> None:
    with pytest.raises(ProtocolRefusal) as caught:
        cursors.page(["a", "c"], "b", 2)
    assert caught.value.code == INVALID_PARAMS
    assert "list again from the start" in caught.value.message
