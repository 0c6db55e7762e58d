"""Merging what several sources contain about one post, checked against a plain model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabane.posts.importing.model_results import ModelResult, enriched, merged, unchanged_vectors
from tabane.posts.post import Post

POSTS = st.builds(
    Post,
    post_id=st.just(1),
    content=st.sampled_from(["", "one", "two"]),
    user=st.sampled_from(["", "alice", "bob"]),
    url=st.sampled_from(["", "u1", "u2"]),
    timestamp=st.sampled_from(["", "t1", "t2"]),
    log_type=st.sampled_from([1, 2, 3]),
)


def through(stored: Post | None, rows: list[Post]) -> Post | None:
    """What one import makes of a post by its rows."""
    level = 0
    for row in rows:
        stored = merged(stored, row, level)
        level = max(level, row.log_type)
    return stored


@given(st.none() | POSTS, st.lists(POSTS, max_size=5))
def test_importing_the_same_rows_again_changes_nothing(stored: Post | None, rows: list[Post]) -> None:
    once = through(stored, rows)
    assert through(once, rows) == once


@given(st.lists(POSTS, min_size=1, max_size=5))
def test_of_several_rows_the_first_of_the_largest_log_type_wins_and_gaps_are_filled(rows: list[Post]) -> None:
    found = through(None, rows)
    assert found is not None
    largest = max(row.log_type for row in rows)
    winner = next(row for row in rows if row.log_type == largest)
    assert found.log_type == largest
    for name in ("content", "user", "timestamp"):
        given_values = [getattr(row, name) for row in rows]
        assert getattr(found, name) == (getattr(winner, name) or getattr(found, name))
        assert bool(getattr(found, name)) == any(given_values)
        assert getattr(found, name) in given_values


@given(POSTS, POSTS)
def test_a_later_import_wins_over_an_earlier_one_and_takes_nothing_away(stored: Post, row: Post) -> None:
    known = enriched(stored, ModelResult("why", "what", ("tag",)))
    found = merged(known, row, 0)
    assert (found.reasoning, found.summary, found.tags) == ("why", "what", ("tag",))
    if row.log_type >= stored.log_type:
        assert found.content == (row.content or stored.content)
    else:
        assert found.content == (stored.content or row.content)


def test_vectors_stay_where_the_text_that_is_embedded_is_the_same() -> None:
    before = Post(post_id=1, content="@alice hi  https://t.co/x", reasoning="a", summary="b")
    after = Post(post_id=1, content="hi", reasoning="a", summary="c")
    vectors = {"content": b"1", "reasoning": b"2", "summary": b"3"}
    assert unchanged_vectors(before, after, vectors) == {"content": b"1", "reasoning": b"2"}


def test_a_result_fills_what_it_has() -> None:
    post = Post(post_id=1, content="c", reasoning="r", summary="s", tags=("t",))
    assert enriched(post, None) is post
    assert enriched(post, ModelResult("", "S", ())) == Post(
        post_id=1, content="c", reasoning="r", summary="S", tags=("t",)
    )
