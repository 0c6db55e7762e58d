"""Queries in kana and in Latin letters, cut into words that can be spelled otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.search.analysis import normalize
from tabane.search.readings import MOST_LETTERS, kana_of_romaji, may_read, readings

QUERIES = st.text(
    st.one_of(st.sampled_from("はいしゃのーをガんっnokyushizt' 1歯"), st.characters()), max_size=80
)


@pytest.mark.parametrize(
    ("latin", "kana"),
    [
        ("hikkoshi", "ひっこし"),
        ("shimbun", "しんぶん"),
        ("kin'en", "きんえん"),
        ("tyotto", "ちょっと"),
        ("matcha", "まっちゃ"),
        ("kōen", "こうえん"),
        ("search", ""),
        ("python", ""),
        ("", ""),
    ],
)
def test_latin_letters_are_syllables_or_nothing(latin: str, kana: str) -> None:
    assert kana_of_romaji(latin) == kana


@pytest.mark.parametrize(
    ("query", "spellings"),
    [
        ("はいしゃ", ["歯医者"]),
        ("かふんしょうのくすり", ["花粉症", "薬"]),
        ("ひっこし", ["引っ越し"]),
        ("ひっこし", ["引越し"]),
        ("れいぞうこがこわれた", ["冷蔵庫", "壊れ"]),
        ("カレーのつくりかた", ["カレー", "作り方"]),
        ("リンゴ", ["りんご"]),
        ("りんご", ["リンゴ"]),
        ("onsen ryokan", ["温泉", "旅館"]),
        ("tokyo", ["東京"]),
        ("osaka no ramen", ["大阪", "ラーメン"]),
        ("Tanaka san", ["田中"]),
        ("haisha no yoyaku", ["歯医者", "予約"]),
    ],
)
def test_words_have_the_spellings_that_sound_so(query: str, spellings: list[str]) -> None:
    found = readings(query)[0]
    assert [each in word for each, word in zip(spellings, found.words, strict=True)] == [True] * len(
        spellings
    )


@pytest.mark.parametrize(
    "query",
    [
        "歯医者のよやく",  # has kanji
        "make me more time",  # English words that are syllables
        "home page",
        "sudo",
        "docker compose",
        "コンピューター",  # a loanword is written in no other way
        "東京",
        "2024",
        "",
        "はいしゃ" * 30,  # a text, not a query
    ],
)
def test_other_queries_are_left_alone(query: str) -> None:
    assert readings(query) == ()


def test_a_query_is_written_in_the_spellings_that_are_chosen() -> None:
    found = readings("かふんしょう の くすり?")[0]
    assert found.written(["花粉症", "薬"]) == "花粉症 の 薬?"


@given(QUERIES)
def test_any_text_is_read_or_left_alone_and_keeps_what_was_typed(text: str) -> None:
    for found in readings(text):
        assert may_read(text)
        assert len(text) <= MOST_LETTERS
        assert found.written([word[0] for word in found.words]) == normalize(text)
        assert all(len(word) == len(set(word)) for word in found.words)
