"""Searches of posts agree with a plain reference implementation for every parameter and any archive."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.errors import BadArguments, ModelMissing
from tabane.posts.post import Post
from tests.posts.archive import Filed, opened
from tests.posts.reference import similar

# Of each space its own, in no simple relation to each other: equal scores are those of equal vectors.
_SPACES = {
    "content": [(1.0, 0.21, -0.33), (0.1, 1.0, 0.77), (-0.5, 0.4, 0.91), (0.02, -1.0, 0.3)],
    "reasoning": [(0.93, -0.12, 0.41), (0.37, 0.11, -1.0), (-0.81, 0.63, 0.29)],
    "summary": [(0.61, 0.83, -0.17), (-0.23, 0.71, 0.49), (0.13, -0.57, -0.97)],
}
_QUERIES = {"cats": (0.9, 0.35, -0.11), "a|b": (-0.2, 0.8, 0.45)}
_TEXTS = ["", "cats play", "Ｃａｔｓ and dogs", "ネコ", "ﾈｺと犬", "a \\ b", 'say "hi"']
_TERMS = {
    "cats": (["cats"], []),
    "-dogs": ([], ["dogs"]),
    "ネコ": (["ネコ"], []),
    '"and dogs"': (["and dogs"], []),
    "cats -play": (["cats"], ["play"]),
    r"\\": (["\\"], []),
}

_FILED = st.builds(
    Filed,
    st.builds(
        Post,
        post_id=st.just(0),
        content=st.sampled_from(_TEXTS),
        reasoning=st.sampled_from(_TEXTS),
        user=st.sampled_from(["alice", "Alice", "bob", "", "Çelik"]),
        at=st.none() | st.integers(0, 8).map(lambda half: half * 43_200),
        log_type=st.sampled_from([1, 2, 3]),
        tags=st.sampled_from([(), ("x",), ("x", "y"), ("z",)]),
    ),
    st.fixed_dictionaries({}, optional={name: st.sampled_from(of) for name, of in _SPACES.items()}),
)


@st.composite
def _archives(draw: st.DrawFn) -> list[Filed]:
    """Many twins, since texts and users are few."""
    filed = draw(st.lists(_FILED, max_size=40))
    numbers = draw(st.permutations([10**18 + 7 * place for place in range(len(filed))]))
    return [
        Filed(_numbered(each.post, number), each.vectors) for each, number in zip(filed, numbers, strict=True)
    ]


def _numbered(post: Post, number: int) -> Post:
    return Post(**{**{name: getattr(post, name) for name in post.__struct_fields__}, "post_id": number})


_NAMES = st.lists(st.sampled_from(["@alice", "BOB", "çelik", "nobody"]), max_size=3)
_DAYS = st.integers(1, 6).map(lambda day: f"1970-01-{day:02}")
_LIMITS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "user_filter": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "includes": st.none() | _NAMES,
                "excludes": _NAMES,
                "threshold_min": st.integers(0, 12),
                "threshold_max": st.none() | st.integers(0, 12),
            },
        ),
        "date_filter": st.fixed_dictionaries({}, optional={"from": _DAYS, "to": _DAYS}),
        "tags": st.none() | st.lists(st.sampled_from(["x", "y", "q"]), max_size=2),
        "log_type": st.lists(st.sampled_from(["post", "like", 3]), max_size=2),
    },
)
_MODES = st.sampled_from(
    ["content", "reasoning", "summary", "average", "maximum", "minimum", "product", "weighted"]
)
_WEIGHTS = st.none() | st.sampled_from([[1, 0, 0], [0.2, 0.5, 0.3], [3, 1, 2]])


@pytest.mark.heavy("a large archive")
@settings(max_examples=40, deadline=None)
@given(
    _archives(),
    st.lists(
        st.tuples(
            st.none() | st.sampled_from(list(_QUERIES)),
            st.none() | st.sampled_from(list(_TERMS)),
            _MODES,
            _WEIGHTS,
            _LIMITS,
            st.integers(1, 12),
        ).filter(lambda asked: asked[0] is not None or asked[1] is not None),
        min_size=1,
        max_size=8,
    ),
)
async def test_a_search_finds_what_its_parameters_mean(
    filed: list[Filed], questions: list[tuple[Any, ...]]
) -> None:
    async with opened(filed, _QUERIES) as asked:
        for meaning, terms, mode, weights, limits, top_k in questions:
            weights = weights if mode in ("average", "weighted") else None
            query = (meaning or "").replace("|", r"\|") + ("" if terms is None else f"|{terms}")
            includes, excludes = ([], []) if terms is None else _TERMS[terms]
            vector = None if meaning is None else _QUERIES[meaning]
            expected = similar(filed, vector, includes, excludes, mode, limits, weights, top_k)
            params = {"query": query, "mode": mode, "weights": weights, **limits}
            found = await asked.call("search_similar", **params, top_k=top_k)
            assert [row["post"]["post_id"] for row in found] == [hit.post_id for hit in expected]
            assert [row["rank"] for row in found] == list(range(1, len(found) + 1))
            assert [row["score"] for row in found] == pytest.approx([hit.score for hit in expected], abs=1e-5)
            every = similar(filed, vector, includes, excludes, mode, limits, weights, None)
            (part,) = await asked.stream("vector_search", **params)
            assert dict(part.value["data"]) == pytest.approx(
                {hit.post_id: hit.score for hit in every}, abs=1e-5
            )
            scores = [score for _, score in part.value["data"]]
            assert scores == sorted(scores, reverse=True)


def _many(count: int, content: str, first: int = 0) -> list[Filed]:
    """Posts of one user that say the same, the older ones later in the alphabet of keys."""
    return [
        Filed(
            Post(post_id=10**18 + first + number, content=content, user="bot", at=10_000 - number),
            {"content": _SPACES["content"][number % 2]},
        )
        for number in range(count)
    ]


@pytest.mark.heavy("a large archive")
async def test_thousands_of_twins_leave_room_for_the_others() -> None:
    others = [
        Filed(
            Post(post_id=number, content=f"other {number}", user="alice", at=number),
            {"content": (-1.0, 0.01 * number, 0.5)},
        )
        for number in range(1, 30)
    ]

    filed = [*_many(2500, "good morning"), *others]
    async with opened(filed, _QUERIES) as asked:
        near = await asked.call("search_similar", query="cats", top_k=10)
        held = await asked.call("search_posts_by_text", search_term="o", limit=20)
        near, held = [row["post"]["post_id"] for row in near], [post["post_id"] for post in held]
    assert near == [hit.post_id for hit in similar(filed, _QUERIES["cats"], [], [], "content", {}, None, 10)]
    assert near[0] == 10**18 + 2499  # the oldest, though half of its twins are nearer
    assert held == [10**18 + 2499, *range(29, 10, -1)]


async def test_an_older_twin_stands_in_its_own_place_however_near_the_younger_are() -> None:
    young = [
        Filed(Post(post_id=100 + n, content="same", user="a", at=100 + n), {"content": _QUERIES["cats"]})
        for n in range(60)
    ]
    between = [
        Filed(Post(post_id=n, content=f"n{n}", user="a", at=n), {"content": (0.5, 0.1 * n, 0.3)})
        for n in range(1, 30)
    ]
    old = Filed(Post(post_id=99, content="same", user="A", at=50), {"content": (0.3, -0.9, 0.4)})
    older = Filed(Post(post_id=98, content="same", user="A", at=40), {})  # has no vector to be found by
    filed = [*young, *between, old, older]
    async with opened(filed, _QUERIES) as asked:
        for top_k in (1, 5, 29, 30, 40):
            found = await asked.call("search_similar", query="cats", top_k=top_k)
            expected = similar(filed, _QUERIES["cats"], [], [], "content", {}, None, top_k)
            assert [row["post"]["post_id"] for row in found] == [hit.post_id for hit in expected]
        assert found[-1]["post"]["post_id"] == 99


async def test_users_are_chosen_by_name_and_by_how_much_they_have() -> None:
    users = ["one", *["two"] * 2, *["three"] * 3, *["Four"] * 4]
    filed = [
        Filed(Post(post_id=n, content=f"n{n}", user=user, at=n), {"content": (1.0, n / 10, 0.0)})
        for n, user in enumerate(users, 1)
    ]
    async with opened(filed, _QUERIES) as asked:

        async def found(**user_filter: Any) -> set[str]:
            rows = await asked.call("search_posts_by_text", search_term="n", user_filter=user_filter)
            return {row["user"] for row in rows}

        everybody = set(users)
        assert await found() == everybody
        assert await found(includes=["@ONE", "four"]) == {"one", "Four"}
        assert await found(includes=["one"], excludes=["one", "two"]) == {"one"}
        assert await found(includes=[], excludes=["one", "@FOUR"]) == {"two", "three"}
        assert await found(includes=["nobody"]) == set()
        assert await found(threshold_min=3) == {"three", "Four"}
        assert await found(threshold_max=1) == {"one"}
        assert await found(threshold_min=2, threshold_max=3) == {"two", "three"}
        assert await found(threshold_min=2, excludes=["two"]) == {"three", "Four"}
        assert await found(threshold_min=2, includes=["one", "two"]) == {"two"}
        assert await found(threshold_min=0, threshold_max=0) == set()
        assert await found(threshold_min=5) == set()
        # What is found is folded, narrowed and cut; the counts are of the whole archive.
        narrow = {"dateFilter": {"to": "1970-01-01 00:00:09"}, "userFilter": {"threshold_min": 4}}
        assert len(await asked.call("search_similar", query="cats", **narrow)) == 3


async def test_settings_give_way_to_parameters_beside_them_key_by_key() -> None:
    filed = [
        Filed(Post(post_id=n, content=f"n{n}", user="u", at=n * 86_400), {"content": (1.0, n / 10, 0.0)})
        for n in range(1, 9)
    ]
    async with opened(filed, _QUERIES) as asked:
        given = {"top_k": 2, "date_filter": {"from": "1970-01-04"}}
        one = await asked.call("search_similar", query="cats", settings=given)
        assert len(one) == 2
        more = await asked.call("search_similar", query="cats", settings=given, top_k=9)
        assert len(more) == 6
        other = await asked.call("search_similar", query="cats", settings=given, dateFilter={}, topK=9)
        assert len(other) == 8
        null = await asked.call("search_similar", query="cats", settings=given, top_k=None, mode=None)
        assert null == one


@pytest.mark.parametrize(
    ("params", "parameter"),
    [
        ({"query": ""}, "query"),
        ({"query": " | "}, "query"),
        ({"query": "|-"}, "query"),
        ({"query": "|" + "x" * 2000}, "query"),
        ({"query": 5}, "query"),
        ({"query": "cats", "top_k": 0}, "top_k"),
        ({"query": "cats", "top_k": 101}, "top_k"),
        ({"query": "cats", "top_k": "ten"}, "top_k"),
        ({"query": "cats", "settings": {"top_k": 101}}, "settings.top_k"),
        ({"query": "cats", "settings": {"view": 1}}, "settings.view"),
        ({"query": "cats", "mode": "best"}, "mode"),
        ({"query": "cats", "mode": "average", "weights": [1, 1]}, "weights"),
        ({"query": "cats", "mode": "average", "weights": [1, -1, 1]}, "weights"),
        ({"query": "cats", "mode": "weighted", "weights": [0, 0, 0]}, "weights"),
        ({"query": "cats", "mode": "content", "weights": [1, 1, 1]}, "weights"),
        ({"query": "cats", "date_filter": {"from": "soon"}}, "date_filter.from"),
        ({"query": "cats", "date_filter": {"to": "2024-02-30"}}, "date_filter.to"),
        ({"query": "cats", "date_filter": {"to": ""}}, "date_filter.to"),
        ({"query": "cats", "date_filter": {"until": "2024-02-03"}}, "date_filter.until"),
        ({"query": "cats", "user_filter": {"threshold_min": -1}}, "user_filter.threshold_min"),
        ({"query": "cats", "user_filter": {"includes": "alice"}}, "user_filter.includes"),
        ({"query": "cats", "user_filter": []}, "user_filter"),
        ({"query": "cats", "log_type": ["repost"]}, "log_type[0]"),
    ],
)
async def test_bad_parameters_are_named(params: Mapping[str, Any], parameter: str) -> None:
    async with opened([], _QUERIES) as asked:
        with pytest.raises(BadArguments) as raised:
            await asked.call("search_similar", **params)
        assert raised.value.parameter == parameter
        assert raised.value.code == -32602
        assert parameter in raised.value.text("ja")


async def test_a_mode_without_its_vectors_names_those_there_are() -> None:
    async with opened([], _QUERIES, spaces=["content"]) as asked:
        with pytest.raises(BadArguments, match="content, hybrid\\."):
            await asked.call("search_similar", query="cats", mode="average")
        with pytest.raises(BadArguments, match="content, hybrid\\."):
            await asked.stream("vector_search", query="cats", mode="summary")


async def test_without_a_model_words_are_found_and_the_rest_says_how() -> None:
    filed = [Filed(Post(post_id=1, content="blue whales sing"), {"content": (1.0, 0.0, 0.0)})]
    async with opened(filed) as asked:
        for mode in ("content", "average"):
            with pytest.raises(ModelMissing, match=r"no model here.*hybrid.*search_posts_by_text"):
                await asked.call("search_similar", query="whales", mode=mode)
        assert [row["post"]["post_id"] for row in await asked.call("search_similar", query="|whales")] == [1]
        (hit,) = await asked.call("search_similar", query="whales", mode="hybrid")
        assert hit["post"]["post_id"] == 1
        found = await asked.structured("search_similar", query="whales", mode="hybrid")
        assert found["warning"] == "Results match keywords only: There is no model here."
        assert "There is no model here." in await asked.text(
            "search_similar", "en", query="whales", mode="hybrid"
        )
        with pytest.raises(ModelMissing):
            await asked.call("embed_text", text="whales")


async def test_hybrid_finds_by_words_and_by_meaning_and_folds_twins() -> None:
    near, far = (0.9, 0.35, -0.11), (-0.9, 0.1, 0.2)
    filed = [
        Filed(Post(post_id=1, content="pets at home", at=1), {"content": near}),
        Filed(Post(post_id=2, content="all about cats", user="a", at=9), {"content": far}),
        Filed(Post(post_id=3, content="all about cats", user="A", at=5), {"content": far}),
        Filed(Post(post_id=4, content="trains", at=2), {"content": far}),
    ]
    async with opened(filed, _QUERIES) as asked:
        found = await asked.call("search_similar", query="cats", mode="hybrid")
        assert {row["post"]["post_id"] for row in found[:2]} == {1, 3}
        assert [row["post"]["post_id"] for row in found].count(2) == 0
        scores = [row["score"] for row in found]
        assert scores == sorted(scores, reverse=True)
        held = await asked.call("search_similar", query="cats|-trains", mode="hybrid")
        assert {row["post"]["post_id"] for row in held} == {1, 3}
        young = {"date_filter": {"from": "1970-01-01 00:00:09"}}
        (late,) = await asked.call("search_similar", query="cats", mode="hybrid", **young)
        assert late["post"]["post_id"] == 2


async def test_diversity_prefers_a_post_that_says_something_else() -> None:
    filed = [
        Filed(Post(post_id=1, content="pets", at=1), {"content": (1.0, 0.0, 0.0)}),
        Filed(Post(post_id=2, content="pets again", at=2), {"content": (1.0, 0.01, 0.0)}),
        Filed(Post(post_id=3, content="zoos", at=3), {"content": (0.7, 0.7, 0.0)}),
    ]
    async with opened(filed, _QUERIES) as asked:
        query = next(iter(_QUERIES))
        plain = await asked.call("search_similar", query=query, top_k=3)
        ranked = [row["post"]["post_id"] for row in plain]
        diverse = await asked.call("search_similar", query=query, top_k=2, diversity=0.9)
        chosen = [row["post"]["post_id"] for row in diverse]
        assert chosen[0] == ranked[0]
        assert not {1, 2} <= set(chosen)


async def test_a_post_is_near_to_its_like_but_not_to_itself_or_its_twins() -> None:
    filed = [
        Filed(Post(post_id=1, content="one", user="a", at=1), {"content": (1.0, 0.0, 0.0)}),
        Filed(Post(post_id=2, content="one", user="a", at=2), {"content": (1.0, 0.0, 0.0)}),
        Filed(Post(post_id=3, content="two", user="a", at=3), {"content": (1.0, 0.5, 0.0)}),
        Filed(Post(post_id=4, content="three", user="a", at=4), {"content": (0.1, 1.0, 0.0)}),
        Filed(Post(post_id=5, content="two and one", user="a", at=4), {}),
    ]
    async with opened(filed, _QUERIES) as asked:
        found = await asked.call("get_related_posts", post_id=1)
        assert [row["post"]["post_id"] for row in found] == [3, 4]
        assert found[0]["score"] == pytest.approx(1 / math.hypot(1, 0.5), abs=1e-6)
        assert found == await asked.call("get_related_posts", post_id="1")
        by_words = await asked.call("get_related_posts", post_id=5)
        assert {row["post"]["post_id"] for row in by_words} == {1, 3}
        with pytest.raises(BadArguments, match="no post 9"):
            await asked.call("get_related_posts", post_id=9)


@pytest.mark.heavy("a large archive")
async def test_all_similarities_come_in_chunks_in_order() -> None:
    count = 20_500
    filed = [
        Filed(
            Post(post_id=number + 1, content=f"n{number}", at=number),
            {"content": (1.0, (number * 7919) % count / 1000, 0.3)},
        )
        for number in range(count)
    ]
    async with opened(filed, _QUERIES) as asked:
        parts = await asked.stream("vector_search", query="cats")
        heads = [
            {name: part.value[name] for name in ("chunk", "total_chunks", "start_rank")} for part in parts
        ]
        assert heads == [
            {"chunk": 1, "total_chunks": 2, "start_rank": 1},
            {"chunk": 2, "total_chunks": 2, "start_rank": 20_001},
        ]
        assert [part.more for part in parts] == [True, False]
        assert [len(part.value["data"]) for part in parts] == [20_000, 500]
        pairs = [pair for part in parts for pair in part.value["data"]]
        assert {post for post, _ in pairs} == set(range(1, count + 1))
        assert [score for _, score in pairs] == sorted((score for _, score in pairs), reverse=True)
        (few,) = await asked.stream("vector_search", query="cats", top_k=3)
        assert (few.value["data"], few.value["total_chunks"], few.more) == (pairs[:3], 1, False)
        newest = await asked.stream("vector_search", query="|n")
        assert [pair for part in newest for pair in part.value["data"]] == [
            (post, 1.0) for post in range(count, 0, -1)
        ]
        (both,) = await asked.stream("vector_search", query="cats|n1999", mode="hybrid")
        assert {post for post, _ in both.value["data"]} == {2000, *range(19_991, 20_001)}
        (none,) = await asked.stream("vector_search", query="cats|nothing of the kind")
        assert none == (
            {"data": [], "chunk": 1, "total_chunks": 1, "start_rank": 1}, False,
        )  # fmt: skip
