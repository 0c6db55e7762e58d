"""Posts for programs that show the archive: pages, reasons, users and tags."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.errors import BadArguments
from tabane.posts.post import Post
from tests.posts.archive import Asked, Filed, opened

_NEAR = (1.0, 0.0, 0.0)


def _filed(number: int, content: str, user: str = "alice", at: float | None = None, **more: Any) -> Filed:
    post = Post(post_id=number, content=content, user=user, at=at, **more)
    return Filed(post, {"content": (1.0, 0.1 * number, 0.0)})


_CATS = [
    _filed(1, "The cat sleeps.", at=100.0, tags=("cats", "sleep")),
    _filed(2, "Program the cathedral clock", "Bob", at=200.0, tags=("cats",)),
    _filed(3, "猫の写真を撮りました", "bob", at=300.0, tags=("写真",)),
    _filed(4, "The cat sleeps.", at=400.0),
    _filed(5, "nothing about it", "", at=None),
]


async def _pages(asked: Asked, method: str, **params: Any) -> list[list[Any]]:
    pages, cursor = [], None
    while True:
        page = await asked.call(method, **params, **({"cursor": cursor} if cursor else {}))
        pages.append(page["results"])
        cursor = page["next_cursor"]
        if cursor is None:
            return pages


async def test_posts_are_listed_newest_first_in_pages() -> None:
    async with opened(_CATS) as asked:
        pages = await _pages(asked, "list_posts", limit=2)
        assert [[row["post"]["post_id"] for row in page] for page in pages] == [[4, 3], [2, 1], [5]]
        first = await asked.call("list_posts", limit=2)
        assert first["total"] == 5
        assert first["results"][0]["post"]["at"] == 400.0
        assert "total" not in await asked.call("list_posts", limit=2, cursor=first["next_cursor"])


async def test_the_list_of_posts_obeys_filters_and_marks_the_term() -> None:
    async with opened(_CATS) as asked:
        found = await asked.call("list_posts", search_term="cat -clock", user_filter={"includes": ["alice"]})
        assert [(row["post"]["post_id"], row["marks"]) for row in found["results"]] == [
            (4, [[4, 7]]),
            (1, [[4, 7]]),
        ]
        same = await asked.call("list_posts", duplicates_of=4)
        assert [row["post"]["post_id"] for row in same["results"]] == [4, 1]
        for wrong in ({"cursor": "x"}, {"duplicates_of": 77}, {"limit": 101}):
            with pytest.raises(BadArguments):
                await asked.call("list_posts", **wrong)


async def test_counts_obey_the_term_too() -> None:
    async with opened(_CATS) as asked:
        months = await asked.call("get_timeline", search_term="cat", unit="year")
        assert months == [{"period": "1970", "post_count": 3}]
        users = await asked.call("get_post_facets", field="user", search_term="cathedral")
        assert [row["post_count"] for row in users] == [1]


async def test_users_and_tags_are_listed_by_their_beginning() -> None:
    async with opened(_CATS) as asked:
        users = await _pages(asked, "list_post_users", limit=1)
        assert users == [
            [{"user": "alice", "post_count": 2}],
            [{"user": "Bob", "post_count": 2}],
        ] or users == [[{"user": "Bob", "post_count": 2}], [{"user": "alice", "post_count": 2}]]
        named = await asked.call("list_post_users", prefix="@BO")
        assert ([row["user"] for row in named["results"]], named["total"]) == (["Bob"], 1)
        tags = await asked.call("list_post_tags")
        assert [(row["tag"], row["post_count"]) for row in tags["results"]] == [
            ("cats", 2),
            ("sleep", 1),
            ("写真", 1),
        ]
        assert (await asked.call("list_post_tags", prefix="SL"))["total"] == 1
        with pytest.raises(BadArguments):
            await asked.call("list_post_tags", cursor="wrong")


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=12), st.integers(1, 4))
async def test_pages_of_tags_hold_each_tag_once(tags: list[str], limit: int) -> None:
    filed = [_filed(number, f"text {number}", tags=(tag,)) for number, tag in enumerate(tags, 1)]
    async with opened(filed) as asked:
        pages = await _pages(asked, "list_post_tags", limit=limit)
        listed = [(row["tag"], row["post_count"]) for page in pages for row in page]
        wanted = sorted(((tag, tags.count(tag)) for tag in set(tags)), key=lambda each: (-each[1], each[0]))
        assert listed == wanted


async def test_a_hit_says_why_it_was_found() -> None:
    async with opened(_CATS[:1] + _CATS[2:3], {"cat sleeps": _NEAR}) as asked:
        found = await asked.call("find_posts", query="cat sleeps", mode="hybrid")
        best = found["results"][0]
        assert best["post"]["post_id"] == 1
        assert best["marks"] == [[4, 7], [8, 14]]
        why = best["why"]
        assert why["words"] > 0
        assert why["meaning"] > 0
        assert why["words"] + why["meaning"] == pytest.approx(best["score"], abs=0.001)
        assert (why["fusion"], why["words_rank"], why["meaning_rank"]) == ("scaled", 1, 1)
        near = (await asked.call("find_posts", query="cat sleeps"))["results"][0]["why"]
        assert (near["words"], near["meaning"] > 0.9) == (0, True)


async def test_words_alone_need_no_model() -> None:
    async with opened(_CATS) as asked:
        found = await asked.call("find_posts", query="cat|sleeps", keywords="only")
        assert [row["post"]["post_id"] for row in found["results"]] == [1]
        assert found["results"][0]["marks"] == [[4, 7], [8, 14]]
        assert found["results"][0]["why"]["words"] == pytest.approx(found["results"][0]["score"], abs=1e-3)
        assert "warning" not in found


async def test_a_search_while_typing_finds_unfinished_words() -> None:
    async with opened(_CATS) as asked:
        found = await asked.call("find_posts", query="cathedr", keywords="typing")
        assert [row["post"]["post_id"] for row in found["results"]] == [2]
        assert found["results"][0]["marks"] == [[12, 21]]
        assert not (await asked.call("find_posts", query="cathedr", keywords="only"))["results"]
        kanji = await asked.call("find_posts", query="猫", keywords="typing")
        assert [(row["post"]["post_id"], row["marks"]) for row in kanji["results"]] == [(3, [[0, 1]])]
        letter = await asked.call("find_posts", query="clock p", keywords="typing")
        assert [row["post"]["post_id"] for row in letter["results"]] == [2]


async def test_kana_find_kanji_and_mark_it() -> None:
    filed = [
        Filed(Post(post_id=1, content="明日は歯医者に行く"), {}),
        Filed(Post(post_id=2, content="猫が眠る"), {}),
    ]
    async with opened(filed) as asked:
        for query in ("はいしゃ", "haisha"):
            (found,) = (await asked.call("find_posts", query=query, keywords="only"))["results"]
            assert found["post"]["post_id"] == 1
            assert found["marks"] == [[3, 6]]
        assert not (await asked.call("find_posts", query="はいしゃ", keywords="typing"))["results"]
