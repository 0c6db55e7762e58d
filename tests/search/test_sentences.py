"""The gist of a description is its first sentence, wherever its author put the full stop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.search.snippets import first_sentence, one_line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Read a file. Then more.", "Read a file."),
        ("Read a file, e.g. a log. Then more.", "Read a file, e.g. a log."),
        ("Uses v1.0 of api.example.com. More", "Uses v1.0 of api.example.com."),
        ("Fetch (i.e. download) pages. x", "Fetch (i.e. download) pages."),
        ("Rates of the U.S. economy. b", "Rates of the U.S. economy."),
        ("Is it up? Yes.", "Is it up?"),
        ("ファイルを読む。詳細は次のとおり。", "ファイルを読む。"),
        ("「はい。」と答える。次", "「はい。」と答える。"),
        ("v1.0 のAPIを使う。次", "v1.0 のAPIを使う。"),
        ("Search the web\nArgs:\n  q: words", "Search the web"),
        ("検索する\n引数：\n  q", "検索する"),
        ("Get the current\nweather of a city.\n\nMore", "Get the current weather of a city."),
        ("日本語の説明を\n返す。次", "日本語の説明を返す。"),
        ("# Title\n\nBody text. More", "Body text."),
        ("# Title", "Title"),
        ("<usecase>Find things.</usecase> x", "Find things."),
        ("Lists:\n- one\n- two", "Lists:"),
        ("no end", "no end"),
        ("", ""),
        (" \n\n ", ""),
    ],
)
def test_the_first_sentence(text: str, expected: str) -> None:
    assert first_sentence(text) == expected


@given(st.text(max_size=300))
def test_the_first_sentence_is_one_line_and_no_longer_than_the_text(text: str) -> None:
    found = first_sentence(text)
    assert found == one_line(found)
    assert len(found) <= len(text)
