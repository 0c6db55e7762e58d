"""Fused rankings: general properties, and values of small examples."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.search.fusion import CHANCE_RANK, Rise, diverse, fused, scaled, weight_of_words

ITEMS = st.integers(0, 30)
SHARES = st.floats(0, 1)
SCORES = st.floats(-1e6, 1e6)
WORDS = st.dictionaries(ITEMS, SHARES, max_size=15)
MEANING = st.dictionaries(ITEMS, st.none() | SHARES, max_size=15)
RISES = st.tuples(st.floats(0, 3), st.floats(0, 3)).map(lambda pair: Rise(max(pair), min(pair)))


@given(WORDS, MEANING, SHARES)
def test_a_fusion_has_every_item_once_best_first_and_scored_in_bounds(
    words: dict[int, float], meaning: dict[int, float | None], weight: float
) -> None:
    found = fused(words, meaning, weight)
    assert found.keys() == words.keys() | meaning.keys()
    assert all(part >= 0 for parts in found.values() for part in parts)
    scores = [sum(parts) for parts in found.values()]
    assert all(0 <= score <= 1 + 1e-9 for score in scores)
    assert all(one >= other - 1e-9 for one, other in pairwise(scores))


@given(st.dictionaries(ITEMS, SHARES, min_size=1, max_size=15), SHARES)
def test_rankings_that_agree_stay_as_they_are(scores: dict[int, float], weight: float) -> None:
    order = list(fused(scores, dict(scores), weight))
    assert all(scores[one] >= scores[other] - 1e-9 for one, other in pairwise(order))


@given(WORDS, MEANING, SHARES)
def test_the_best_two_by_meaning_are_among_the_first_five(
    words: dict[int, float], meaning: dict[int, float | None], weight: float
) -> None:
    found = list(fused(words, meaning, weight))
    known = {item: near for item, near in meaning.items() if near}
    for item in sorted(known, key=lambda item: -known[item])[:2]:
        assert found.index(item) < 5


def test_one_that_takes_a_place_has_the_score_of_the_one_before() -> None:
    words: dict[int | str, float] = {number: 1.0 - number / 100 for number in range(8)}
    meaning: dict[int | str, float | None] = {**dict.fromkeys(words, 0.0), "near": 1.0}
    found = fused(words, meaning, 0.9)
    assert list(found)[:6] == [0, 1, 2, 3, "near", 4]
    assert sum(found["near"]) == pytest.approx(sum(found[3]))
    assert found["near"][0] == 0


def test_a_text_that_words_alone_find_is_among_the_first_five_if_it_stands_out() -> None:
    near: dict[int | str, float | None] = {number: 1.0 - number / 100 for number in range(8)}
    near["named"] = 0.0
    words: dict[int | str, float] = {"named": 1.0, 7: 0.2}
    found = fused(words, near, 0.05, outstanding=True)
    assert list(found)[:6] == [0, 1, 2, 3, "named", 4]
    assert sum(found["named"]) == pytest.approx(sum(found[3]))
    assert found["named"][1] == 0
    assert list(fused(words, near, 0.05))[:5] == [0, 1, 2, 3, 4]


def test_words_stand_out_if_one_text_has_many_and_hardly_another_has() -> None:
    assert Rise.of([0.5, *[0.2] * CHANCE_RANK], fewer=0.0).is_outstanding
    assert not Rise.of([0.5, *[0.45] * CHANCE_RANK], fewer=0.0).is_outstanding
    assert not Rise.of([0.3, *[0.1] * CHANCE_RANK], fewer=0.0).is_outstanding


def test_unknown_meaning_is_taken_to_be_as_good_as_the_words() -> None:
    found = fused({"a": 1.0, "b": 1.0, "c": 0.5}, {"a": 1.0, "b": None, "d": 1.0}, 0.3)
    assert found["a"] == pytest.approx((0.3, 0.7))
    assert found["b"] == (1.0, 0.0)
    assert sum(found["c"]) < sum(found["d"])


@given(RISES, RISES, RISES)
def test_words_weigh_more_if_they_cover_more_and_less_if_meaning_rises_further(
    one: Rise, other: Rise, meaning: Rise
) -> None:
    less, more = sorted((one, other))
    if less.share <= more.share and less.best > 0:
        assert (
            weight_of_words(less, meaning, latin=True) <= weight_of_words(more, meaning, latin=True) + 1e-12
        )
    near, far = sorted((one, other), key=lambda rise: rise.share)
    if near.best > 0:
        assert weight_of_words(meaning, far, latin=True) <= weight_of_words(meaning, near, latin=True) + 1e-12
    assert 0 <= weight_of_words(meaning, one, latin=True) <= 1


def test_what_nobody_found_has_no_weight() -> None:
    nothing, something = Rise.of([], fewer=0.5), Rise.of([0.8], fewer=0.5)
    assert weight_of_words(nothing, something, latin=True) == 0
    assert weight_of_words(something, nothing, latin=True) == 1


def test_words_that_all_texts_share_do_not_beat_a_text_that_is_clearly_near() -> None:
    near = Rise.of([0.4, *[0.2] * CHANCE_RANK], fewer=0.5)
    common = Rise.of([0.4, *[0.35] * CHANCE_RANK], fewer=0.0)
    named = Rise.of([1.2, *[0.3] * CHANCE_RANK], fewer=0.0)
    assert weight_of_words(common, near, latin=True) < 0.05 < 0.5 < weight_of_words(named, near, latin=True)


@given(st.lists(st.floats(-1, 1)), SHARES)
def test_a_rise_is_a_share(scores: list[float], fewer: float) -> None:
    rise = Rise.of(sorted(scores, reverse=True), fewer)
    assert 0 <= rise.chance <= rise.best
    assert 0 <= rise.share <= 1


@given(st.dictionaries(ITEMS, SCORES, max_size=15), SCORES)
def test_scaling_keeps_the_order_and_the_best_becomes_one(scores: dict[int, float], nothing: float) -> None:
    found = scaled(scores, nothing)
    assert found.keys() == scores.keys()
    assert all(0 <= score <= 1 for score in found.values())
    assert all(found[a] <= found[b] for a in scores for b in scores if scores[a] < scores[b])
    assert all(found[item] == 0 for item, score in scores.items() if score <= nothing)
    if scores and max(scores.values()) > nothing:
        assert max(found.values()) == 1


def test_what_is_like_what_was_chosen_makes_way() -> None:
    ranked = [("cat", 1.0), ("cats", 0.95), ("dog", 0.6)]

    def alike(one: str, other: str) -> float:
        return 1.0 if one[:3] == other[:3] else 0.0

    assert diverse(ranked, alike, 2) == ["cat", "dog"]
    assert diverse(ranked, alike, 3) == ["cat", "dog", "cats"]
    assert diverse(ranked, alike, 3, relevance=1.0) == ["cat", "cats", "dog"]


@given(st.dictionaries(ITEMS, st.floats(0, 1), max_size=12), st.integers(0, 15), st.floats(0, 1))
def test_a_diverse_choice_begins_with_the_best_and_repeats_nobody(
    scores: dict[int, float], limit: int, relevance: float
) -> None:
    ranked = sorted(scores.items(), key=lambda entry: -entry[1])
    chosen = diverse(ranked, lambda a, b: 1 / (1 + abs(a - b)), limit, relevance)
    assert len(chosen) == min(limit, len(ranked)) == len(set(chosen))
    if chosen and relevance > 0:
        assert chosen[0] == ranked[0][0] or scores[chosen[0]] * relevance == ranked[0][1] * relevance
