"""Ranges of lines as a model writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.catalog.results.selection import InvalidRange, line_range

COUNTS = st.integers(1, 500)


@given(
    COUNTS, st.integers(1, 600), st.integers(0, 600), st.sampled_from(["-", " - ", ":", "..", ",", "–", "to"])
)
def test_a_range_is_the_lines_between_both_ends(count: int, first: int, more: int, between: str) -> None:
    found = line_range(f"{first}{between}{first + more}", count)
    assert list(found) == [line for line in range(1, count + 1) if first <= line <= first + more]


@given(COUNTS, st.integers(1, 600))
def test_a_negative_number_counts_from_the_end(count: int, last: int) -> None:
    lines = list(range(1, count + 1))
    assert list(line_range(f"-{last}", count)) == lines[-last:]
    assert list(line_range(f"-{last}-", count)) == lines[-last:]
    assert list(line_range(f"-{last}--1", count)) == lines[-last:]
    assert list(line_range(f"{last}-", count)) == lines[last - 1 :] or last > count


@given(st.text(max_size=12), COUNTS)
def test_any_text_is_a_range_within_the_lines_or_refused(text: str, count: int) -> None:
    try:
        found = line_range(text, count)
    except InvalidRange:
        return
    assert all(1 <= line <= count for line in found)


@pytest.mark.parametrize("text", ["", "-", "a", "5-2", "1-2-3-4", "1.5"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidRange):
        line_range(text, 100)
