"""Tokens of pairs find exactly the texts that hold a substring."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.engine.query_plans import is_single, is_whole, needle_tokens, substring_tokens
from tabane.search.analysis import substring_spelling

# Few characters, so that needles are found; white space of several kinds, what folds, what escapes use.
CHARACTERS = st.sampled_from("ab東京かカｶA_ 　\t\n\x85\ufdd0\ufdef\U0001fffe😀ßが-−ー～〜’\u200b\ufe0f\u200d")
TEXTS = st.text(CHARACTERS, max_size=30)
NEEDLES = st.text(CHARACTERS, min_size=1, max_size=6)


def holds(tokens: list[str], needle: str) -> bool:
    """What an index does with them: a phrase, or a token that begins so."""
    wanted = needle_tokens(needle)
    if is_single(needle):
        return any(token.startswith(wanted[0]) for token in tokens)
    return any(tokens[at : at + len(wanted)] == wanted for at in range(len(tokens)))


@given(TEXTS, NEEDLES)
def test_tokens_say_what_the_text_says(text: str, needle: str) -> None:
    if not substring_spelling(needle):
        return  # of invisible characters alone; filters refuse it
    held = substring_spelling(needle) in substring_spelling(text)
    found = holds(substring_tokens(text), needle)
    assert found == held if is_whole(needle) else found >= held


@given(TEXTS)
def test_every_character_begins_a_token_and_none_is_a_blank(text: str) -> None:
    tokens = substring_tokens(text)
    assert len(tokens) == len(substring_spelling(text))
    assert not any(character.isspace() for token in tokens for character in token)


@pytest.mark.parametrize(
    ("text", "needle", "held"),
    [
        ("東京都の株価", "京都", True),
        ("東京都の株価", "価", True),
        ("ＡＢＣ", "b", True),
        ("カナ", "かな", False),
        ("two words", "o w", True),
        ("two\nwords", "o w", False),
        ("Straße", "RASSE", True),
        ("\ufdef", " ", False),
    ],
)
def test_case_and_width_are_one_and_kana_are_two(text: str, needle: str, held: bool) -> None:
    assert holds(substring_tokens(text), needle) is held


def test_a_long_needle_is_looked_for_by_its_beginning() -> None:
    assert len(needle_tokens("x" * 1000)) == 64
    assert is_whole("x" * 65)
    assert not is_whole("x" * 66)
