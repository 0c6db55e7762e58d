"""Token buckets against a model: never more than burst + rate · t, and what they promise they keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.access.token_bucket import MOST_SHARERS, SharedBucket, TokenBucket
from tabane.settings.limit_rules import CallRate

RATES = st.builds(CallRate, st.integers(1, 1000), st.floats(0.001, 1000, allow_nan=False))
STEPS = st.lists(st.floats(0, 100, allow_nan=False), min_size=1, max_size=200)


@given(RATES, STEPS)
def test_never_gives_more_than_burst_and_rate_allow(calls: CallRate, steps: list[float]) -> None:
    bucket, now = TokenBucket(), 1e6
    taken: list[float] = []
    for step in steps:
        now += step
        if bucket.wait(now, calls) == 0:
            bucket.take(now, calls)
            taken.append(now)
    for first, start in enumerate(taken):
        for last, end in enumerate(taken[first:], first):
            assert last - first + 1 <= calls.burst + calls.rate * (end - start) + 0.01


@given(RATES, STEPS)
def test_who_waits_as_long_as_was_said_gets_a_token(calls: CallRate, steps: list[float]) -> None:
    bucket, now = TokenBucket(), 1e6
    for step in steps:
        now += step
        now += bucket.wait(now, calls)
        assert bucket.wait(now, calls) == 0
        bucket.take(now, calls)


@given(RATES)
def test_a_full_bucket_gives_its_burst_at_once_and_no_more(calls: CallRate) -> None:
    bucket = TokenBucket()
    for _ in range(calls.burst):
        assert bucket.wait(5.0, calls) == 0
        bucket.take(5.0, calls)
    assert bucket.wait(5.0, calls) > 0
    assert bucket.tokens(5.0, calls) < 0.01
    assert bucket.is_full(5.0 + calls.burst / calls.rate + 0.001)


def test_a_token_that_was_given_back_can_be_taken_again() -> None:
    bucket, calls = TokenBucket(), CallRate(1, 0.001)
    bucket.take(1.0, calls)
    bucket.give_back(calls)
    assert bucket.wait(1.0, calls) == 0


def test_a_changed_rate_applies_at_once() -> None:
    bucket = TokenBucket()
    for _ in range(10):
        bucket.take(0.0, CallRate(10, 1.0))
    assert bucket.wait(0.0, CallRate(10, 1.0)) == pytest.approx(1)
    assert bucket.wait(0.0, CallRate(100, 10.0)) == pytest.approx(0.1)


Asked = st.lists(
    st.tuples(st.sampled_from("abcde"), st.floats(0, 5, allow_nan=False)), min_size=1, max_size=300
)


@given(RATES, Asked)
def test_sharers_together_never_get_more_than_one_bucket_gives(
    calls: CallRate, asked: list[tuple[str, float]]
) -> None:
    bucket, now = SharedBucket(), 1e6
    taken: list[float] = []
    for holder, step in asked:
        now += step
        if bucket.wait(now, calls, holder) == 0:
            bucket.take(now, calls, holder)
            taken.append(now)
    for first, start in enumerate(taken):
        for last, end in enumerate(taken[first:], first):
            assert last - first + 1 <= calls.burst + calls.rate * (end - start) + 0.01


def test_a_flooding_sharer_leaves_half_of_the_tokens_to_another() -> None:
    bucket, calls = SharedBucket(), CallRate(10, 10.0)
    got = {"flood": 0, "other": 0}
    for tick in range(10_000):  # 100 seconds
        now = tick / 100
        asking = ["flood"] * 5
        if tick >= 1000 and tick % 10 == 0:
            asking.append("other")  # late in each tick, and only as often as tokens come
        for holder in asking:
            if bucket.wait(now, calls, holder) == 0:
                bucket.take(now, calls, holder)
                got[holder] += tick >= 1000
    assert got["other"] >= 0.4 * (got["flood"] + got["other"])
    assert got["flood"] + got["other"] >= 0.9 * 90 * calls.rate


def test_a_sharer_that_no_longer_asks_leaves_everything_to_the_others() -> None:
    bucket, calls = SharedBucket(), CallRate(10, 10.0)
    for holder in "abc":
        bucket.wait(0.0, calls, holder)
    assert len(bucket) == 3
    for _ in range(10):
        assert bucket.wait(100.0, calls, "a") == 0
        bucket.take(100.0, calls, "a")
    assert len(bucket) == 1


def test_sharers_are_bounded() -> None:
    bucket, calls = SharedBucket(), CallRate(10, 10.0)
    for number in range(MOST_SHARERS + 100):
        bucket.wait(0.0, calls, str(number))
    assert len(bucket) == MOST_SHARERS
