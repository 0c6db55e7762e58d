"""Words in hiragana, distinguished from grammar."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.engine.query_plans import SHORTEST, kana_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("おにぎりの握り方", ["おにぎり"]),
        ("さくらんぼの産地はどこですか", ["さくらんぼ"]),
        ("ひらがなはどのように成立しましたか", ["ひらがな"]),
        ("ＡＢＣとふしぎの国", ["とふしぎ"]),
        ("東京の株価について", []),
        ("会社はどこにありますか", []),
        ("read the docs", []),
        ("", []),
    ],
)
def test_content_is_kept_and_grammar_is_not(text: str, words: list[str]) -> None:
    assert kana_words(text) == words


@given(st.text(alphabet="あいのはがですかますしたいる東京ABー゛ ", max_size=60))
def test_words_are_parts_of_the_text_and_none_is_short_or_twice(text: str) -> None:
    words = kana_words(text)
    assert all(len(word) >= SHORTEST for word in words)
    assert len(set(words)) == len(words)
