"""Queries as people type them: always parsed, never an error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.search.engine import Collection, EngineHit, EngineHits, LexicalQuery, Mode, VectorQuery
from tabane.search.pipeline import hybrid
from tabane.search.records import EVERYTHING, Filter, Record
from tabane.search.typed_query import LONGEST, TextTest, sense, typed

TYPED = st.text(st.one_of(st.sampled_from('ab東京 　"“”「」『』-－−*＊'), st.characters()), max_size=60)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("東京 株価", LexicalQuery("東京 株価")),
        ('"two words" more', LexicalQuery("more", phrases=("two words",))),
        ("東京　－大阪", LexicalQuery("東京", exclude=("大阪",))),
        ('a -"b c" -dogs', LexicalQuery("a", exclude=("b c", "dogs"))),
        ('a -"b c" -d', LexicalQuery("a -d", exclude=("b c",))),
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


def test_what_is_excluded_has_no_part_in_the_meaning_and_is_not_in_what_is_found_by_it() -> None:
    query = typed('tea "green leaf" -coffee')
    assert sense(query) == "tea green leaf"
    test = TextTest(query)
    assert test.accepts(["Green Leaf tea"])
    assert test.accepts(["a title", "the green leaf"])
    assert not test.accepts(["leaf, green"])
    assert not test.accepts(["evergreen leaf"])
    assert not test.accepts(["green leaf, coffee"])
    assert not test.accepts(["green leaf", "coffees"])
    assert not TextTest(typed("tea"))


@pytest.mark.parametrize(
    ("query", "accepted", "refused"),
    [
        ("pictures -art", "a new start of the party", "modern art"),
        ("旅行 -大阪", "東京への旅行", "大阪城"),
        ("猫 -犬", "猫", "子犬と猫"),
        ("話 -らーめん", "うどんの話", "らーめんの話"),
        ('news -"stock price"', "the price of a stock", "the stock prices"),
        ("a -e-mail", "a mail", "an e-mail"),
    ],
)
def test_whole_words_are_excluded(query: str, accepted: str, refused: str) -> None:
    test = TextTest(typed(query))
    assert test.accepts([accepted])
    assert not test.accepts([refused])


PASTED = json.loads((Path(__file__).parent / "pasted.json").read_bytes())


@pytest.mark.parametrize("text", PASTED["text"])
def test_a_pasted_text_has_no_syntax(text: str) -> None:
    query = typed(text)
    assert (query.phrases, query.exclude, query.prefix) == ((), (), False)
    assert query.text == text.strip()


@pytest.mark.parametrize(("text", "expected"), PASTED["typed"])
def test_what_a_person_types_has_its_syntax(text: str, expected: list[str]) -> None:
    query = typed(text)
    assert [*query.phrases, *(f"-{word}" for word in query.exclude)] == expected


def test_of_a_long_trace_what_happened_is_read_first() -> None:
    frames = "".join(f'  File "/usr/lib/python3/site.py", line {at}, in f{at}\n' for at in range(200))
    text = f"Traceback (most recent call last):\n{frames}KeyError: 'colour' is not a setting"
    query = typed(text)
    assert query.text.startswith("KeyError: 'colour' is not a setting")
    assert len(query.text) <= LONGEST


@given(st.text(max_size=60), st.integers(1, 3_000))
def test_a_long_text_is_cut(text: str, times: int) -> None:
    assert len(typed(text * times).text) <= LONGEST


class _Long:
    """The nearest records of an engine that answers on the event loop: 300 long texts, half of them alike."""

    async def nearest(self, query: VectorQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        hits = tuple(EngineHit(str(row), row, 1 - row / 1000) for row in range(1, 301)[:limit])
        return EngineHits(hits, 300)

    async def get(self, keys: Sequence[str]) -> list[Record]:
        ends = ("", " tea")
        return [Record(key=key, texts={"text": "plain words " * 1_700 + ends[int(key) % 2]}) for key in keys]


async def test_long_texts_are_tested_within_a_budget_and_not_on_the_event_loop() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    collection, meaning = cast(Collection, _Long()), VectorQuery({"text": b""})
    found = await hybrid(collection, None, meaning, EVERYTHING, 300, conditions=typed("lunch -tea"))
    other.cancel()
    assert turns > 5
    assert all(int(hit.key) % 2 == 0 for hit in found.hits)
    assert 40 <= len(found.hits) < 60  # of 2 million characters; the rest was not read
    assert not found.exact
