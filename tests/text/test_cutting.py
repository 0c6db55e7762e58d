"""Texts are cut at natural boundaries."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.text.cutting import cut_at, shortened

CLUSTERS = ["👩‍👩‍👧‍👦", "🇯🇵", "👍🏽", "が", "é", "ﾊﾞ", "한", "❤️", "\r\n"]


def parts_of(text: str, most: int) -> list[str]:
    """A text cut to the end, as those do who say nothing of lines."""
    parts, start = [], 0
    while len(text) - start > most:
        end = cut_at(text, start, start + most)
        assert start < end <= start + most
        parts.append(text[start:end])
        start = end
    return [*parts, text[start:]]


@given(st.text(), st.integers(4, 50))
def test_the_parts_of_any_text_are_the_text(text: str, most: int) -> None:
    assert "".join(parts_of(text, most)) == text


@pytest.mark.parametrize(
    ("text", "border"),
    [
        ("some line of text\n" * 50, "\n"),
        ("word " * 200, " "),
        ("1,000,000 " * 50, " "),
        ("吾輩は猫である。名前はまだ無い。" * 20, "。"),
        ("見出し\u3000" * 50, "\u3000"),
    ],
)
def test_a_text_is_cut_after_a_line_or_a_word_or_a_sentence(text: str, border: str) -> None:
    assert all(part.endswith(border) for part in parts_of(text, 100))


def test_what_has_no_border_is_cut_anywhere_and_fills_its_parts() -> None:
    assert [len(part) for part in parts_of("束" * 2_500, 1_000)] == [1_000, 1_000, 500]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("offset", range(30))
def test_no_character_of_a_reader_is_cut(cluster: str, offset: int) -> None:
    cluster = unicodedata.normalize("NFD", cluster)
    text = "x" * offset + cluster * 80
    parts = parts_of(text, 50)
    assert len(parts) > 1
    assert all((part.lstrip("x").count(cluster) * len(cluster)) == len(part.lstrip("x")) for part in parts)
    rest = shortened(text, offset + 40)[offset:-1]
    assert rest.count(cluster) * len(cluster) == len(rest)


def test_a_text_is_shortened_at_the_end_of_a_word() -> None:
    assert shortened("read the whole file", 16) == "read the whole…"
    assert shortened("short", 16) == "short"


@given(st.text(max_size=200), st.integers(2, 50))
def test_a_shortened_text_is_no_longer_than_asked(text: str, most: int) -> None:
    assert len(shortened(text, most)) <= most
