"""Words of grammar do not count beside words with content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.search.analysis import FUNCTION_WORDS, content


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("when is the dentist appointment", "dentist appointment"),
        ("What's the wifi password?", "wifi password?"),
        ("how many days until the passport expires", "many days passport expires"),
        ("あの温泉のメモ", "あの温泉のメモ"),
        ("what is 温泉", "温泉"),
        ("where did I read about C++", "read C++"),
        ("I'm looking", "looking"),
        ("", ""),
        ("?!", "?!"),
    ],
)
def test_only_content_is_left(query: str, left: str) -> None:
    assert content(query) == left


@pytest.mark.parametrize("query", ["to be or not to be", "who", "What Is It", "it", "how is it いつ"])
def test_a_query_of_grammar_alone_stays_as_it_is(query: str) -> None:
    assert content(query) == query


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("what happened in May", "happened May"),
        ("where is the US embassy", "US embassy"),
        ("IT support at work", "IT support work"),
        ("tickets for The Who", "tickets The Who"),
    ],
)
def test_names_are_not_taken_for_grammar(query: str, left: str) -> None:
    assert content(query) == left


@given(st.lists(st.sampled_from([*sorted(FUNCTION_WORDS), "dentist", "温泉", "C++"]), max_size=12))
def test_words_with_content_are_never_lost(words: list[str]) -> None:
    kept = content(" ".join(words)).split()
    named = [word for word in words if word not in FUNCTION_WORDS]
    assert [word for word in kept if word not in FUNCTION_WORDS] == named
    assert kept == (named or words)


@given(st.text(max_size=60))
def test_what_is_left_stays_so(text: str) -> None:
    assert content(content(text)).split() == content(text).split()
