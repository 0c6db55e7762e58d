"""Cleaned text for embedding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.posts.post import cleaned


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("見て https://t.co/AbC123 これ", "見て これ"),
        ("見てhttps://t.co/AbC123これ", "見て これ"),
        ("https://日本語.jp/あ です", "です"),
        ("HTTP://EXAMPLE.COM/ x", "x"),
        ("www.example.com へ", "へ"),
        ("@alice こんにちは @bob_2さん", "こんにちは さん"),
        ("こんにちは@alice", "こんにちは"),
        ("＠alice hi", "hi"),
        ("@alice@mastodon.social hi", "hi"),
        ("mail a.b+c@example.com now", "mail a.b+c@example.com now"),
        ("問い合わせはinfo@example.co.jpへ", "問い合わせはinfo@example.co.jpへ"),
        ("#Python と #検索", "#Python と #検索"),
        ("a\n\n  b\u3000c", "a b c"),
        ("@alice https://t.co/x", ""),
        ("3 @ 100円", "3 @ 100円"),
        ("", ""),
    ],
)
def test_addresses_and_names_go_and_the_rest_stays(text: str, left: str) -> None:
    assert cleaned(text) == left


@given(st.text())
def test_cleaning_what_is_clean_of_names_changes_only_white_space(text: str) -> None:
    plain = text.replace("@", "").replace("＠", "").replace(":", "").replace("ww", "")
    assert cleaned(plain) == " ".join(plain.split())
