"""User statistics: the same ranking, whichever way the counts were computed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabane.posts.post import comparable_user
from tabane.posts.statistics import PostAuthor, Users

_NAMES = st.sampled_from(["", "Ann", "ANN", "ann", "bob", "Bob", "文", *(f"u{n}" for n in range(150))])
_TALLIES = st.dictionaries(_NAMES, st.integers(1, 4), max_size=200)


def expected(spellings: dict[str, int]) -> tuple[PostAuthor, ...]:
    """Worked out from nothing."""
    users = []
    for name in {comparable_user(name) for name in spellings} - {""}:
        group = {spelled: count for spelled, count in spellings.items() if comparable_user(spelled) == name}
        spelled = sorted(group, key=lambda each: (-group[each], each))[0]
        users.append(PostAuthor(spelled, sum(group.values())))
    return tuple(sorted(users, key=lambda user: (-user.posts, user.name)))


@given(st.lists(_TALLIES, min_size=1, max_size=6))
def test_users_follow_from_tally_to_tally(tallies: list[dict[str, int]]) -> None:
    users = Users()
    for tally in tallies:
        assert users.follow(tally) == expected(tally)


@given(_TALLIES, st.lists(st.tuples(_NAMES, st.integers(0, 3)), max_size=8))
def test_a_few_who_changed_find_their_places(tally: dict[str, int], changes: list[tuple[str, int]]) -> None:
    users = Users()
    users.follow(tally)
    for name, count in changes:
        tally = {each: known for each, known in {**tally, name: count}.items() if known}
        assert users.follow(tally) == expected(tally)
