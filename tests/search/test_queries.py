"""Queries as people type them: always parsed, never an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.search.engine import LexicalQuery, Mode
from tabane.search.records import Record, matches
from tabane.search.typed_query import demands, sense, typed

TYPED = st.text(st.one_of(st.sampled_from('ab東京 　"“”「」『』-－−*＊'), st.characters()), max_size=60)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("東京 株価", LexicalQuery("東京 株価")),
        ('"two words" more', LexicalQuery("more", phrases=("two words",))),
        ("東京　－大阪", LexicalQuery("東京", exclude=("大阪",))),
        ('a -"b c" -d', LexicalQuery("a", exclude=("b c", "d"))),
        ("sear*", LexicalQuery("sear", prefix=True)),
        ("検索＊ ", LexicalQuery("検索", prefix=True)),
        ("「東京都」 検索", LexicalQuery("検索", phrases=("東京都",))),
        ("小説「こころ」の作者", LexicalQuery("小説「こころ」の作者")),
        ("read-file e-mail", LexicalQuery("read-file e-mail")),
        ('an "open quote', LexicalQuery('an "open quote')),
        ("- -- a", LexicalQuery("- -- a")),
        ("", LexicalQuery("")),
    ],
)
def test_marks_of_search_boxes_are_read(text: str, expected: LexicalQuery) -> None:
    found = typed(text)
    assert " ".join(found.text.split()) == expected.text
    assert (found.phrases, found.exclude, found.prefix) == (
        expected.phrases,
        expected.exclude,
        expected.prefix,
    )


@given(TYPED, st.sampled_from(Mode))
def test_nothing_that_is_typed_is_an_error(text: str, mode: Mode) -> None:
    query = typed(text, mode)
    assert query.mode is mode
    assert len(query.text) <= len(text)


def test_a_phrase_is_taken_whole() -> None:
    assert typed('all "of" -it', Mode.PHRASE).text == 'all "of" -it'


def test_what_is_excluded_has_no_part_in_the_meaning_and_is_demanded_of_what_is_found_by_it() -> None:
    query = typed('tea "green leaf" -coffee')
    assert sense(query) == "tea green leaf"
    wanted = demands(query)
    assert matches(wanted, Record(key="a", texts={"body": "Green Leaf tea"}))
    assert not matches(wanted, Record(key="a", texts={"body": "leaf, green"}))
    assert not matches(wanted, Record(key="a", texts={"body": "green leaf, coffee"}))
