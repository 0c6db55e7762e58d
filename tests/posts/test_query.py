"""The query V|T: its cases as given, and what holds for every text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.posts.query import PostTerms, escaped_meaning, parsed, terms

_TEXT = st.text(st.sampled_from(list('ab \\|-"\u3000\n東')) | st.characters(), max_size=30)


def escaped_term(term: str) -> str:
    """One term as a phrase of T, so that :func:`terms` gives it back."""
    return '"' + re.sub(r'(["\\])', r"\\\1", term) + '"'


@pytest.mark.parametrize(
    ("text", "includes", "excludes"),
    [
        ("hello -world", ["hello"], ["world"]),
        (r"hello \-world", ["hello", "-world"], []),
        (
            r'apple "banana cake" -orange -"grape juice" \\backslash',
            ["apple", "banana cake", r"\backslash"],
            ["orange", "grape juice"],
        ),
        ('"a b"c', ["a b", "c"], []),
        ('"unclosed phrase', ["unclosed phrase"], []),
        ('-"unclosed phrase', [], ["unclosed phrase"]),
        ("- a -", ["a"], []),
        ("-", [], []),
        ("--a", [], ["-a"]),
        ('""  -""', [], []),
        (r'"say \"hi\"" x', ['say "hi"', "x"], []),
        (r"a\ b c", ["a b", "c"], []),
        ("東京\u3000-大阪", ["東京"], ["大阪"]),
        ("end\\", ["end\\"], []),
        ('in"side', ['in"side'], []),
        (r"x\|y", ["x|y"], []),
        ("", [], []),
    ],
)
def test_terms(text: str, includes: list[str], excludes: list[str]) -> None:
    assert terms(text) == PostTerms(tuple(includes), tuple(excludes))


@pytest.mark.parametrize(
    ("text", "meaning", "held"),
    [
        ("vector only", "vector only", []),
        ("a|", "a", []),
        ("|t", "", ["t"]),
        (" v | t ", "v", ["t"]),
        ("a|b|c", "a", ["b|c"]),
        (r"a\|b", "a|b", []),
        (r"a\|b|c", "a|b", ["c"]),
        (r"a\\|b", "a\\", ["b"]),
        (r"C:\temp", r"C:\temp", []),
        ("|", "", []),
        ("", "", []),
    ],
)
def test_halves(text: str, meaning: str, held: list[str]) -> None:
    assert (parsed(text).meaning, list(parsed(text).terms.includes)) == (meaning, held)


@given(_TEXT)
def test_no_text_is_an_error_and_no_term_is_empty(text: str) -> None:
    query = parsed(text)
    assert all((*query.terms.includes, *query.terms.excludes))
    assert terms(text) is not None


@given(_TEXT, st.lists(_TEXT.filter(bool)), st.lists(_TEXT.filter(bool)))
def test_what_is_escaped_comes_back(meaning: str, includes: list[str], excludes: list[str]) -> None:
    held = " ".join([*map(escaped_term, includes), *("-" + escaped_term(term) for term in excludes)])
    query = parsed(f"{escaped_meaning(meaning)}|{held}")
    assert query.meaning == meaning.strip()
    assert query.terms == PostTerms(tuple(includes), tuple(excludes))
