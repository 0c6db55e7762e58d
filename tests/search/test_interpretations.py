"""What is searched instead of a query as it stands: negation, and phrases that nobody wrote."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.messages import say
from tabane.operations import Caller, Face
from tabane.posts.post import Post
from tabane.search.analysis import content, tokens
from tabane.search.source import SearchRequest, joined, sentences
from tests.documents.library import opened as documents
from tests.posts.archive import Filed
from tests.posts.archive import opened as posts

ENGLISH = Caller("local", Face.RPC, "test", "en")

NOTES = {
    "a": "Budget meeting with Tanaka in the blue room.",
    "b": "Budget meeting with Sato in the red room.",
    "c": "Cake without sugar: take honey.",
    "d": "Cake with sugar.",
    "e": "田中さんとの会議の記録。",
    "f": "佐藤さんとの会議の記録。",
    "g": "The start of the party.",
    "h": "Modern art, a party.",
    "i": "In the docker group, sudo is no longer needed for docker.",
    "j": "給湯器からお湯が出なくなった。",
}


async def answered(query: str, **params: Any) -> tuple[list[str], str | None]:
    """The documents that are found, and the warning in English."""
    async with documents() as asked:
        for name, text in NOTES.items():
            await asked.put(name, text)
        await asked.fill()
        answer = await asked.call("search_documents", ENGLISH, query=query, **params)
        return [result["filepath"] for result in answer["results"]], answer.get("warning")


@pytest.mark.parametrize("mode", ["hybrid", "lexical", "vector"])
@pytest.mark.parametrize(
    ("query", "first", "absent", "remark"),
    [
        ("budget meeting without Tanaka", "b", "a", "Tanaka"),
        ("budget meeting not with Tanaka", "b", "a", "Tanaka"),
        ("田中さん以外との会議", "f", "e", "田中"),
        ("田中さん抜きの会議の記録", "f", "e", "田中"),
        ("田中部長のいない会議の記録", "f", "e", "田中"),
        ("cake without sugar", "c", None, None),
        ("docker without sudo", "i", None, None),
        ("お湯が出ない 給湯器", "j", None, None),
        ("party -art", "g", "h", None),
    ],
)
async def test_what_a_query_does_not_want_is_left_out(
    query: str, first: str, absent: str | None, remark: str | None, mode: str
) -> None:
    found, warning = await answered(query, mode=mode)
    assert mode == "vector" or found[0] == first  # a model of letters
    assert absent not in found
    assert (warning is None) == (remark is None)
    assert remark is None or remark in (warning or "")


def test_warnings_of_several_sources_can_be_said_once_each() -> None:
    remark, other = say("The hub is stopping."), say("Nothing was found.")
    one, both = joined(remark, None), joined(remark, joined(None, joined(other, remark)))
    assert [*sentences(None), *sentences(one), *sentences(both)] == [remark, remark, other, remark]


NEGATIONS = [
    ("lunch except Friday", "Friday"),
    ("posts not by Alice", "Alice"),
    ("notes but not Kyoto", "Kyoto"),
    ("meetings other than Tokyo", "Tokyo"),
    ("notes without Tanaka and Sato", "Tanaka Sato"),
    ("東京以外の支社", "東京"),
    ("佐藤さんのいない打ち合わせ", "佐藤"),
    ("ピーマン抜きの炒め物", "ピーマン"),
    ("edit config without reloading", ""),
    ("can't live without You lyrics", ""),
    ("Doctors Without Borders", ""),
    ("run script without Docker", ""),
    ("works in Chrome but not Firefox", ""),
    ("python try except ValueError", ""),
    ("login without a password", ""),
    ("データなしで開始", ""),
    ("パスワードなしのログイン", ""),
    ("東京以外にも支社がある", ""),
    ("日本以外でも使える", ""),
    ("手抜きの料理", ""),
    ("汚れを除く洗剤", ""),
    ("君のいない世界", ""),
    ("関係者以外立入禁止", ""),
    ("パスワードを使わないログイン", ""),
]


@pytest.mark.parametrize(("query", "excluded"), NEGATIONS)
async def test_only_names_are_left_out_and_only_where_nothing_else_is_meant(
    query: str, excluded: str
) -> None:
    async with documents() as asked:
        await asked.put("a", "nothing")
        answer = await asked.call("search_documents", ENGLISH, query=query + " nothing", mode="lexical")
    remark = f"Results that contain {', '.join(excluded.split())} are left out"
    assert (answer.get("warning") or "").startswith(remark if excluded else "")
    assert bool(excluded) == ("left out" in (answer.get("warning") or ""))


@pytest.mark.parametrize("mode", ["hybrid", "lexical", "vector"])
async def test_a_phrase_that_no_text_has_is_given_up_and_the_answer_says_so(mode: str) -> None:
    found, warning = await answered('"blue meeting" Tanaka', mode=mode)
    assert mode == "vector" or found[0] == "a"
    assert (
        warning == 'Nothing has the exact phrase "blue meeting". These are results without the exact phrase.'
    )
    assert await answered('"blue room" meeting', mode=mode) == (["a"], None)
    assert await answered('"absent words"', mode="lexical") == ([], None)


async def test_posts_are_searched_without_a_phrase_that_no_post_has() -> None:
    texts = ["the blue room", "a red room"]
    async with posts(
        [
            Filed(Post(post_id=number, content=text, timestamp="", url="", user="a"), {})
            for number, text in enumerate(texts, 1)
        ]
    ) as asked:
        for query, expected, warned in (('"red blue room"', 2, True), ('"blue room"', 1, False)):
            page = await asked.call("find_posts", query=query, mode="hybrid")
            assert len(page["results"]) == expected
            assert ("red blue room" in page.get("warning", "")) == warned
            assert (
                "red blue room" in await asked.text("search_similar", query=query, mode="hybrid")
            ) == warned


async def test_a_long_query_is_cut_and_not_refused() -> None:
    query = "Budget meeting with Tanaka in the blue room.\n" + "and more words " * 20_000
    found, _ = await answered(query)
    assert found[0] == "a"
    async with posts([Filed(Post(post_id=1, content="x", timestamp="", url="", user="a"), {})]) as asked:
        for name in ("find_posts", "search_similar"):
            assert await asked.call(name, query=f"x {query}", mode="hybrid")
        assert await asked.stream("vector_search", query=f"x {query}", mode="hybrid")


PASTED: list[str] = json.loads((Path(__file__).parent / "pasted.json").read_bytes())["text"]
TEXTS = st.text(
    st.one_of(st.sampled_from('abxyz  \n"-*|/:東京のに猫「」'), st.characters(codec="utf-8")), max_size=80
)


@pytest.mark.heavy("opens an archive for each example")
@settings(max_examples=8, deadline=None)
@given(st.lists(TEXTS, max_size=8), st.integers(0, 7))
def test_a_text_of_an_archive_finds_itself(more: list[str], at: int) -> None:
    """The text is the whole query. Words or letters are needed: vectors find symbols only if a model does."""

    async def whole() -> None:
        texts = [
            *PASTED[at * 4 : at * 4 + 4],
            *NOTES.values(),
            *(text for text in more if tokens(content(text))),
        ]
        texts = list(dict.fromkeys(texts))
        async with documents() as asked, posts() as archive:
            for number, text in enumerate(texts):
                await asked.put(f"{number:03}", text)
            await archive.put(
                [
                    Filed(Post(post_id=n, content=text, timestamp="", url="", user="a"), {})
                    for n, text in enumerate(texts, 1)
                ]
            )
            await asked.fill()
            for number, text in enumerate(texts):
                for mode in ("hybrid", "lexical"):
                    assert f"{number:03}" in await asked.found(text, mode=mode, top_k=10), (mode, text)
                answer = await archive.archive.searching.search(ENGLISH, SearchRequest(text, 10))
                assert number + 1 in [hit.item.post_id for hit in answer.hits], text

    asyncio.run(whole())


async def test_a_pasted_text_is_searched_by_its_words_in_the_default_mode_too() -> None:
    pasted, other = "fatal: bad object HEAD\n  at x.c:3", "a day at the beach"
    vectors = {pasted: (0.0, 1.0, 0.0), "bad object": (0.0, 1.0, 0.0)}
    filed = [(1, "fatal: bad object HEAD, and how I fixed it", (0.9, 0.1, 0.0)), (2, other, (0.1, 1.0, 0.0))]
    async with posts(
        [
            Filed(Post(post_id=number, content=text, timestamp="", url="", user="a"), {"content": vector})
            for number, text, vector in filed
        ],
        vectors,
    ) as asked:
        found = [await asked.call("search_similar", query=query) for query in vectors]
        assert [rows[0]["post"]["post_id"] for rows in found] == [1, 2]  # by words; by vectors


BARS = [
    ("cat app.log | grep -i error", [2, 1], "read as text"),
    ("the log || nothing", [1], "read as text"),
    ("| kitten | the cat | log |", [3], "read as text"),
    ("log of an app | absent words", [], None),
    ("log|missing", [], None),
    ('log | "absent words"', [], None),
    ("log | missing -kitten", [], None),
    ("cat|kitten", [3], None),
    ("go|python", [], None),
    ("cat|-RT", [2, 3], None),
    ("|kitten", [3], None),
]


@pytest.mark.parametrize("name", ["find_posts", "search_similar"])
@pytest.mark.parametrize(("query", "expected", "remark"), BARS)
async def test_the_bar_of_a_shell_or_a_table_is_text_and_the_answer_says_so(
    query: str, expected: list[int], remark: str | None, name: str
) -> None:
    texts = ["the log of an app, absent", "cat app.log | grep -i error finds it", "kitten: the cat"]
    async with posts(
        [
            Filed(Post(post_id=number, content=text, timestamp="", url="", user="a"), {})
            for number, text in enumerate(texts, 1)
        ]
    ) as asked:
        if name == "find_posts":
            page = await asked.call(name, query=query, mode="hybrid")
            found = {each["post"]["post_id"] for each in page["results"]}
            warning = page.get("warning", "")
        else:
            rows = await asked.call(name, query=query, mode="hybrid")
            found = {each["post"]["post_id"] for each in rows}
            warning = await asked.text(name, query=query, mode="hybrid")
        assert found >= set(expected)
        if remark is None:
            assert found == set(expected)
            assert "bar (|)" not in warning
        else:
            assert (remark if name == "find_posts" else "縦棒(|)") in warning
