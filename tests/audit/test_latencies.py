"""Durations in buckets."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tabane.audit.usage_rollups import HIGHEST, bucket_of, duration_of, percentiles

durations = st.floats(min_value=0.001, max_value=1e9)


@given(durations)
def test_a_bucket_is_within_five_percent_of_its_durations(ms: float) -> None:
    assert math.isclose(duration_of(bucket_of(ms)), ms, rel_tol=0.05)


@given(st.floats())
def test_any_number_has_a_bucket(ms: float) -> None:
    assert 0 <= bucket_of(ms) <= HIGHEST


@given(st.lists(durations, min_size=1, max_size=200), st.floats(min_value=0.01, max_value=1))
def test_percentiles_are_within_five_percent_of_the_nearest_rank(values: list[float], share: float) -> None:
    buckets = Counter(map(bucket_of, values))
    exact = sorted(values)[max(1, math.ceil(share * len(values))) - 1]
    (found,) = percentiles(buckets.items(), [share])
    assert found is not None
    assert abs(found - exact) <= 0.05 * exact + 0.00006  # the result has four decimals


def test_nothing_has_no_percentiles() -> None:
    assert percentiles([], [0.5, 0.99]) == [None, None]
