"""Of tools that fit equally well, the one that the same caller uses more comes first."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.catalog.catalogs import HALF_LIFE, MOST, ToolUse, ties_broken
from tabane.catalog.tools.index import ToolHit
from tabane.catalog.tools.listings import ListingsFile

NOW = 1_800_000_000.0


def order(scores: dict[str, float], used: dict[str, float], own: tuple[str, ...] = ()) -> list[str]:
    hits = [ToolHit(name, score) for name, score in scores.items()]
    return [hit.alias for hit in ties_broken(hits, used, own)]


def test_the_tool_that_is_used_more_comes_first_among_equal_ones() -> None:
    assert order({"a": 0.5, "b": 0.495, "c": 0.49}, {"c": 2.0, "b": 1.0}) == ["c", "b", "a"]
    assert order({"a": 0.5, "b": 0.495, "c": 0.49}, {}) == ["a", "b", "c"]


def test_a_better_score_wins_whatever_was_used() -> None:
    assert order({"a": 0.5, "b": 0.489}, {"b": 100.0}) == ["a", "b"]
    # No chain: c is near b, but not near a.
    assert order({"a": 0.5, "b": 0.492, "c": 0.484}, {"c": 9.0}) == ["a", "b", "c"]


def test_what_is_named_or_only_listed_keeps_its_place() -> None:
    assert order({"a": 1.0, "b": 0.999}, {"b": 9.0}) == ["a", "b"]
    assert order({"a": 0.0, "b": 0.0}, {"b": 9.0}) == ["a", "b"]


def test_the_hubs_own_tools_come_after_equal_ones_of_servers() -> None:
    assert order({"own": 0.5, "a": 0.495, "b": 0.494}, {"own": 9.0, "b": 1.0}, ("own",)) == ["b", "a", "own"]
    assert order({"own": 0.5, "a": 0.4}, {}, ("own",)) == ["own", "a"]


@given(
    st.dictionaries(st.text("abcdef", min_size=1), st.floats(0, 1).map(lambda score: round(score, 3))),
    st.dictionaries(st.text("abcdef", min_size=1), st.floats(0, 9)),
)
def test_no_hit_is_lost_and_none_passes_a_clearly_better_one(
    scores: dict[str, float], used: dict[str, float]
) -> None:
    ranked = dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))
    found = order(ranked, used)
    assert sorted(found) == sorted(scores)
    assert all(
        scores[later] - scores[sooner] <= 0.01 + 1e-9
        for at, sooner in enumerate(found)
        for later in found[at:]
    )


def test_a_call_counts_half_after_two_weeks() -> None:
    use = ToolUse()
    use.note("local", "old", NOW)
    use.note("local", "old", NOW)
    use.note("local", "new", NOW + HALF_LIFE)
    assert use.of("local")["old"] == pytest.approx(use.of("local")["new"])
    use.note("local", "new", NOW + HALF_LIFE)
    assert use.of("local")["old"] < use.of("local")["new"]


def test_nobody_learns_what_others_use() -> None:
    use = ToolUse()
    use.note("key:1", "tool", NOW)
    assert list(use.of("key:1")) == ["tool"]
    assert use.of("key:2") == use.of("local") == {}


def test_endless_names_and_wrong_clocks_do_no_harm() -> None:
    use = ToolUse()
    for number in range(MOST + 10):
        use.note("local", f"tool{number}", NOW + number)
    assert len(use.all()) <= MOST
    assert f"tool{MOST + 9}" in use.of("local")
    use.note("local", "far", 1e15)
    use.note("local", "past", 0.0)
    assert use.of("local")["far"] > use.of("local")["past"]


def test_use_outlives_the_hub(tmp_path: Path) -> None:
    use = ToolUse()
    use.note("local", "tool", NOW)
    file = ListingsFile(tmp_path / "catalogue.db")
    file.keep_used(use.all())
    file.close()
    file = ListingsFile(tmp_path / "catalogue.db")
    assert ToolUse(file.used()).of("local") == use.of("local")
    file.close()
