"""Fused rankings: general properties, and values of small examples."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.search.fusion import CosineWeight, Scale, convex, diverse, reciprocal_ranks, stretched

ITEMS = st.integers(0, 30)
RANKINGS = st.lists(st.lists(ITEMS, unique=True, max_size=15), max_size=5)
SCORES = st.floats(allow_nan=False, allow_infinity=False)
SCORED = st.lists(st.dictionaries(ITEMS, SCORES, max_size=15), min_size=1, max_size=4)
WEIGHTS = st.floats(0.01, 100)


def test_ranks_are_added_up_as_the_paper_has_it() -> None:
    fused = reciprocal_ranks([["a", "b", "c"], ["c", "a"]])
    most = 2 / 61
    assert [item for item, _ in fused] == ["a", "c", "b"]
    sums = [1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62]
    assert [score for _, score in fused] == pytest.approx([each / most for each in sums])


@given(RANKINGS)
def test_a_fusion_has_every_item_once_scored_between_nothing_and_one(rankings: list[list[int]]) -> None:
    fused = reciprocal_ranks(rankings)
    assert sorted(item for item, _ in fused) == sorted({item for ranking in rankings for item in ranking})
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


@given(RANKINGS.filter(lambda rankings: any(rankings)))
def test_first_everywhere_is_the_best_there_can_be(rankings: list[list[int]]) -> None:
    fused = reciprocal_ranks([[99, *ranking] for ranking in rankings])
    assert fused[0] == (99, 1.0)


@given(st.lists(ITEMS, unique=True, max_size=15), st.integers(1, 4))
def test_rankings_that_agree_stay_as_they_are(ranking: list[int], times: int) -> None:
    assert [item for item, _ in reciprocal_ranks([ranking] * times)] == ranking


def test_an_item_that_comes_twice_has_its_best_rank() -> None:
    assert reciprocal_ranks([["a", "b", "a"]]) == reciprocal_ranks([["a", "b"]])


def test_scores_are_stretched_and_weighed() -> None:
    words, meaning = {"a": 10.0, "b": 5.0, "c": 0.0}, {"b": 0.9, "c": 0.8, "d": 0.7}
    fused = dict(convex([words, meaning], [0.3, 0.7]))
    assert fused == {
        "a": pytest.approx(0.3),
        "b": pytest.approx(0.3 * 0.5 + 0.7),
        "c": pytest.approx(0.7 * 0.5),
        "d": pytest.approx(0.0),
    }


def test_scales_say_what_scores_mean() -> None:
    words, meaning = {"a": 4.0, "b": 1.0}, {"b": 0.6, "c": 0.1, "d": 0.35}
    fused = dict(convex([words, meaning], [1, 1], [Scale(0.0, 8.0), Scale(0.1, 1.0)]))
    assert fused == {
        "a": pytest.approx(0.5 * 0.5),
        "b": pytest.approx(0.5 * 0.125 + 0.5 * 0.5 / 0.9),
        "c": 0.0,
        "d": pytest.approx(0.5 * 0.25 / 0.9),
    }


def test_what_is_no_better_than_nothing_counts_nothing() -> None:
    assert stretched({"b": 0.1, "c": 0.05}, Scale(0.1)) == {"b": 0.0, "c": 0.0}
    assert stretched({"only": 3.0}, Scale(0.0)) == {"only": 1.0}


def test_what_is_better_than_the_most_takes_its_place() -> None:
    assert stretched({"a": 4.0, "b": 2.0}, Scale(0.0, 2.0)) == {"a": 1.0, "b": 0.5}


def test_there_are_as_many_scales_as_rankings_or_none() -> None:
    words, meaning = {"a": 4.0, "b": 2.0}, {"b": 0.6, "a": 0.2}
    assert convex([words, meaning], [1, 1], [Scale(), Scale()]) == convex([words, meaning], [1, 1])
    with pytest.raises(ValueError, match="shorter"):
        convex([words, meaning], [1, 1], [Scale()])


@given(st.dictionaries(ITEMS, SCORES, min_size=1, max_size=15), SCORES, SCORES)
def test_by_a_scale_the_order_stays(scores: dict[int, float], low: float, high: float) -> None:
    wide = stretched(scores, Scale(low, high))
    assert all(math.isfinite(score) and 0 <= score <= 1 for score in wide.values())
    assert all(wide[a] <= wide[b] for a in scores for b in scores if scores[a] < scores[b])
    assert all(wide[item] == 0 for item, score in scores.items() if score <= low)


@given(SCORED, st.data())
def test_a_convex_fusion_has_every_item_once_scored_in_bounds(
    rankings: list[dict[int, float]], data: st.DataObject
) -> None:
    weights = data.draw(st.lists(WEIGHTS, min_size=len(rankings), max_size=len(rankings)))
    fused = convex(rankings, weights)
    assert sorted(item for item, _ in fused) == sorted({item for ranking in rankings for item in ranking})
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@given(st.dictionaries(ITEMS, SCORES, min_size=1, max_size=15))
def test_stretching_keeps_the_order_and_reaches_both_ends(scores: dict[int, float]) -> None:
    wide = stretched(scores)
    assert all(math.isfinite(score) and 0 <= score <= 1 for score in wide.values())
    assert max(wide.values()) == 1
    assert all(wide[a] <= wide[b] for a in scores for b in scores if scores[a] < scores[b])
    if len(set(scores.values())) > 1:
        assert min(wide.values()) == 0


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, math.nan]])
def test_weights_that_make_no_sense_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights"):
        convex([{"a": 1.0}, {"b": 1.0}], weights)


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


@given(st.floats(0, 1), st.floats(0, 1), st.floats(-1, 3), st.floats(-1, 3))
def test_the_weight_of_the_cosine_falls_with_coverage(
    one: float, other: float, less: float, more: float
) -> None:
    weight = CosineWeight(covered=min(one, other), uncovered=max(one, other))
    low, high = sorted((less, more))
    assert weight.covered - 1e-12 <= weight.at(high) <= weight.at(low) + 1e-12 <= weight.uncovered + 1e-9
    assert (weight.at(0), weight.at(1)) == pytest.approx((weight.uncovered, weight.covered))
