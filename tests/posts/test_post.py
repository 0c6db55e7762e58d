"""A post converted to a record and back is unchanged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabane.posts.post import SHAPE, Post, comparable_user, duplicate_key, post_of, record_of
from tabane.search.records import checked

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)

POSTS = st.builds(
    Post,
    post_id=st.integers(1, 2**63),
    content=TEXTS,
    timestamp=TEXTS,
    url=TEXTS,
    user=TEXTS,
    log_type=st.sampled_from([1, 2, 3]),
    at=st.none() | st.integers(0, 2**33),
    reasoning=TEXTS,
    summary=TEXTS,
    tags=st.lists(TEXTS, max_size=4).map(tuple),
)


@given(POSTS)
def test_a_post_comes_back_from_its_record(post: Post) -> None:
    assert post_of(checked(record_of(post), SHAPE)) == post


def test_twins_have_one_user_and_one_content_whatever_the_case_of_the_name() -> None:
    first = Post(post_id=1, content="same", user="Alice")
    assert duplicate_key(first) == duplicate_key(Post(post_id=2, content="same", user="alice"))
    assert duplicate_key(first) != duplicate_key(Post(post_id=3, content="same", user="bob"))
    assert duplicate_key(first) != duplicate_key(Post(post_id=4, content="Same", user="Alice"))


def test_a_name_is_compared_without_at_and_case() -> None:
    assert comparable_user("@Alice") == comparable_user("alice") == "alice"
