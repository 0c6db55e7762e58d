"""Snippets show the passage that was meant, and mark words in the text as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.search.analysis import tokens
from tabane.search.snippets import MOST_MARKS, marks, snippet

_MARKED = ["か\u3099", "e\u0301té"]
_PLAIN = [
    "東京",
    "ﾃﾞｰﾀ",
    "データ",
    "サーバー",
    "の",
    "を",
    "Searching",
    "files.",
    "read_file",
    "𝕏",
    "ﬁle",
    "１２",
    "İ",
    "㍿",
]
WORDS = st.sampled_from([*_PLAIN, *_MARKED, "。", "\n"])
TEXTS = st.lists(WORDS, max_size=80).map(" ".join) | st.lists(WORDS, max_size=80).map("".join) | st.text()


@given(TEXTS, st.lists(WORDS, max_size=4), st.integers(10, 80))
def test_a_snippet_is_a_piece_of_the_original_with_its_marks_inside(
    text: str, words: list[str], length: int
) -> None:
    found = snippet(text, words, length)
    assert found.text == text[found.start : found.end]
    assert len(found.text) <= length
    last = 0
    for start, end in found.marks:
        assert last <= start < end <= len(found.text)
        last = end


@given(st.lists(WORDS, max_size=60).map(" ".join), st.lists(WORDS, min_size=1, max_size=3))
def test_what_is_marked_has_a_token_that_was_asked_for(text: str, words: list[str]) -> None:
    wanted = {token for word in words for token in tokens(word)}
    found = snippet(text, words, 60)
    for start, end in found.marks:
        assert wanted & set(tokens(found.text[start:end]))


@pytest.mark.parametrize(
    ("text", "word", "marked"),
    [
        ("最新のﾃﾞｰﾀｾﾝﾀｰへ", "データセンター", ["ﾃﾞｰﾀｾﾝﾀｰ"]),
        ("検索サーバーが動く", "サーバ", ["サーバー"]),
        ("It was Searched, again.", "searching", ["Searched"]),
        ("か\u3099東京か\u3099", "東京", ["東京"]),
        ("call read_file now", "file", ["read_file"]),
        ("ＡＢＣ と abc", "abc", ["ＡＢＣ", "abc"]),
        ("昔 葛\U000e0100城の駅", "葛城", ["葛\U000e0100城"]),
        ("毎朝、食(た)べるとき", "食べる", ["食(た)べ"]),
        ("このサ−バ−と", "サーバー", ["サ−バ−"]),
        ("dis\u00adcovery, wi‑fi", "discovery wi-fi", ["dis\u00adcovery", "wi‑fi"]),
        ("nothing of it", "東京", []),
    ],
)
def test_words_are_marked_as_the_text_spells_them(text: str, word: str, marked: list[str]) -> None:
    found = snippet(text, [word])
    assert [found.text[start:end] for start, end in found.marks] == marked


def test_the_passage_holds_most_of_what_was_asked() -> None:
    filler = "よくある話です。" * 40
    text = f"{filler}東京の話。{filler}東京の株価と金利が動いた。{filler}"
    found = snippet(text, ["東京 株価 金利"], 60)
    assert "東京の株価と金利" in found.text


def test_without_a_hit_it_is_the_beginning() -> None:
    found = snippet("A text of some words that goes on and on.", ["absent"], 20)
    assert (found.start, found.marks) == (0, ())
    assert found.text == "A text of some words"[: len(found.text)]


def test_words_are_marked_in_a_whole_text() -> None:
    text = "Cathedral cats purr。ありがとう、黒猫と catalog"
    assert _marked(text, ["cat"]) == ["cats"]
    assert _marked(text, ["purr cat"], unfinished=True) == ["Cathedral", "cats", "purr", "catalog"]
    assert _marked(text, ["猫 ありがとう"]) == ["ありがとう", "猫"]
    assert _marked(text, [], ["THEDR", "と"]) == ["thedr", "と", "と"]
    assert len(marks("猫 " * 500, ["猫"])) == MOST_MARKS


@pytest.mark.parametrize("before", ["İİ", "㍿½", "ﬃ", "ẞ", "か\u3099", "𝕏", "ﾃﾞ"])
def test_a_character_whose_folding_has_another_length_shifts_no_mark(before: str) -> None:
    text = f"{before} 猫と {before}"
    assert _marked(text, ["猫と"]) == ["猫と"]
    assert _marked(text, [], ["猫と"]) in (["猫と"], [])  # none, if lower case is longer than the text


def _marked(
    text: str, words: list[str], parts: list[str] | None = None, *, unfinished: bool = False
) -> list[str]:
    return [text[start:end] for start, end in marks(text, words, parts or (), unfinished=unfinished)]


@given(TEXTS, st.lists(WORDS, max_size=4), st.lists(WORDS, max_size=3), st.booleans())
def test_marks_of_a_whole_text_are_inside_it_and_apart(
    text: str, words: list[str], parts: list[str], unfinished: bool
) -> None:
    last = -1
    for start, end in marks(text, words, parts, unfinished=unfinished):
        assert last < start < end <= len(text)
        last = end
