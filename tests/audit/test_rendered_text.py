"""Entries and usage as text."""

from __future__ import annotations

import pytest

from tabane.audit.rendered_text import milliseconds


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""), (0.0264, "0.03 ms"), (999.4, "999 ms"), (999.6, "1 s"), (1004.0, "1 s"),
        (999_400.0, "999 s"), (999_600.0, "1,000 s"), (1_234_567.0, "1,235 s"),
    ],
)  # fmt: skip
def test_a_duration_has_three_digits_and_no_exponent(value: float | None, shown: str) -> None:
    assert milliseconds(value) == shown
