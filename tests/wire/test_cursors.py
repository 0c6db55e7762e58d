"""Cursors of our own lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.wire import cursors
from tabane.wire.era import INVALID_PARAMS, Refusal

KEYS = st.text(st.characters(), max_size=12) | st.sampled_from(["", "\n", "\ud800", "tools", "a\nb"])
KINDS = st.sampled_from(["tools", "prompts", "resources", "templates"])


@given(KINDS, KEYS)
def test_a_cursor_gives_its_key_back_and_is_safe_in_any_place(kind: str, after: str) -> None:
    cursor = cursors.encode(kind, after)
    assert cursors.decode(cursor, kind) == after
    assert cursor.isascii()
    assert cursor.replace("-", "").replace("_", "").isalnum()


@given(KINDS, KINDS, KEYS)
def test_a_cursor_of_one_list_is_none_of_another(kind: str, other: str, after: str) -> None:
    if kind != other:
        with pytest.raises(Refusal):
            cursors.decode(cursors.encode(kind, after), other)


def taken(cursor: str) -> str | None:
    """A cursor as it is spelt where it is taken, None where it is refused."""
    try:
        return cursors.encode("tools", cursors.decode(cursor, "tools"))
    except Refusal:
        return None


@given(st.text(st.characters(), max_size=20) | st.text("dG9vbHMKYQ=-_", max_size=12))
def test_what_we_did_not_hand_out_is_refused(cursor: str) -> None:
    assert cursor == taken(cursor) or taken(cursor) is None


@pytest.mark.parametrize("cursor", ["", "0", "dG9vbHMKYQ==", " dG9vbHMKYQ", "dG9vbHMKYR", "\ud800", "/w"])
def test_the_empty_string_and_what_is_nearly_ours_is_refused(cursor: str) -> None:
    assert cursors.encode("tools", "a") == "dG9vbHMKYQ"
    with pytest.raises(Refusal) as caught:
        cursors.decode(cursor, "tools")
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
    with pytest.raises(Refusal) as caught:
        cursors.page(["a", "c"], "b", 2)
    assert caught.value.code == INVALID_PARAMS
    assert "list again from the start" in caught.value.message
