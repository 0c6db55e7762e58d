"""Ratios of a run beside those that are committed."""

from __future__ import annotations

import pytest
from benchmarks.comparing import Compared, better_of, compared, comparison_table
from benchmarks.sections.figure import Better, Figure

from tests.benchmarks.made_sections import TIMES, goals, ratio, section

BEFORE = {
    "calls": section("calls", goals(ratio("p50", 2.0), ratio("share", 0.5, better=Better.MORE))),
    "others": section("others", goals(ratio("p50", 9.0))),
}


def now(*figures: Figure) -> list[Compared]:
    return compared(BEFORE, {"calls": section("calls", goals(*figures))})


@pytest.mark.parametrize(
    ("value", "share", "worse"),
    [(2.5, 0.45, []), (2.7, 0.45, ["p50"]), (1.0, 0.38, ["share"]), (1.0, 0.99, [])],
)
def test_a_ratio_fails_above_a_factor_in_its_direction(value: float, share: float, worse: list[str]) -> None:
    found = now(ratio("p50", value), ratio("share", share, better=Better.MORE))
    assert [one.name for one in found if one.is_worse] == worse


def test_only_ratios_of_sections_that_were_run_are_compared() -> None:
    found = now(ratio("p50", 2.0), Figure("memory", 900, " MB", goal=40))
    assert [(one.section, one.name, one.verdict) for one in found] == [
        ("calls", "p50", "as before"),
        ("calls", "share", "not measured"),
    ]


def test_a_new_ratio_fails_nothing() -> None:
    (*_, one) = now(ratio("p50", 2.0), ratio("p99", 99.0))
    assert (one.name, one.verdict, one.is_worse) == ("p99", "new", False)


def test_a_ratio_against_a_peer_is_compared_too() -> None:
    faster = TIMES.__class__(
        ("tabane", "numpy"), (TIMES.rows[0].__class__("top 10", (8.0, 16.0)),), TIMES.title
    )
    found = compared({"vectors": section("vectors", TIMES)}, {"vectors": section("vectors", faster)})
    assert [(one.name, one.factor) for one in found if one.factor] == [
        ("20,000 × 384: top 10: against numpy", 2.0)
    ]


def test_the_better_of_two_runs_counts() -> None:
    first = now(ratio("p50", 4.0), ratio("share", 0.6, better=Better.MORE))
    second = now(ratio("p50", 2.2))
    factors = {one.name: one.factor for one in better_of(first, second)}
    assert factors == pytest.approx({"p50": 1.1, "share": 0.5 / 0.6})


def test_a_second_run_that_is_worse_does_not_count() -> None:
    first, second = now(ratio("p50", 2.1)), now(ratio("p50", 4.0))
    assert better_of(first, second)[0].factor == pytest.approx(1.05)


def test_the_table_has_the_worst_first_and_what_was_not_measured_not() -> None:
    table = comparison_table(now(ratio("p50", 3.0), ratio("new", 1.0)))
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]] == [
        ["calls: p50", "2.00 ×", "3.00 ×", "1.50", "worse"],
        ["calls: new", "–", "1.00 ×", "–", "new"],
    ]
