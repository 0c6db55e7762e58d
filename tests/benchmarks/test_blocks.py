"""What a section is made of, as Markdown and as JSON."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from benchmarks.sections.blocks import Comparison, Row, Table, Text, as_blocks
from benchmarks.sections.figure import Better, Figure
from benchmarks.sections.section import read_sections, write_section

from tests.benchmarks.made_sections import BARS, TIMES, goals, ratio, section


def test_a_table_is_aligned() -> None:
    assert str(Table(("", "p50"), (("a longer name", "1"), ("b", "1,000")))).splitlines() == [
        "|               |   p50 |",
        "| ------------- | ----: |",
        "| a longer name |     1 |",
        "| b             | 1,000 |",
    ]


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        (Figure("calls", 21_702, goal=15_000, better=Better.MORE), ("21,702", "≥ 15,000", "met")),
        (Figure("calls", 14_000, goal=15_000, better=Better.MORE), ("14,000", "≥ 15,000", "missed")),
        (Figure("call", 2.43, " ×", 1, 2.2), ("2.4 ×", "≤ 2.2 ×", "missed")),
        (Figure("call", 2.2, " ×", 1, 2.2), ("2.2 ×", "≤ 2.2 ×", "met")),
        (Figure("search", 4.219, " ms", 2, 5, goal_digits=0), ("4.22 ms", "≤ 5 ms", "met")),
        (Figure("memory", 37, " MB"), ("37 MB", "–", "")),
    ],
)
def test_a_figure_is_shown_with_its_goal(figure: Figure, shown: tuple[str, str, str]) -> None:
    assert (figure.shown, figure.shown_goal, figure.verdict) == shown


def test_a_comparison_shows_how_many_times_ours_a_peer_is() -> None:
    first, hybrid, rows = str(TIMES).splitlines()[2:]
    cells = [cell.strip() for cell in first.split("|")[2:5]]
    assert cells == ["4.00 ms", "16.00 ms (4.0 ×)", "2.00 ms (0.5 ×)"]
    assert [cell.strip() for cell in hybrid.split("|")[2:5]] == ["8.00 ms", "–", "–"]
    assert [cell.strip() for cell in rows.split("|")[2:5]] == ["5,000", "–", "10,000"]


def test_the_ratios_of_a_comparison_are_ours_as_a_multiple_of_each_peer() -> None:
    assert {each.name: (each.value, each.better) for each in TIMES.ratios()} == {
        "20,000 × 384: top 10: against numpy": (0.25, Better.LESS),
        "20,000 × 384: top 10: against graph": (2.0, Better.LESS),
        "20,000 × 384: rows a second: against graph": (0.5, Better.MORE),
    }


def test_a_column_of_ours_without_a_figure_has_no_ratio() -> None:
    assert list(Comparison(("tabane", "numpy"), (Row("scan", (None, 4.0)),)).ratios()) == []


def test_ratios_of_a_section_are_those_with_their_unit() -> None:
    found = section("calls", goals(ratio("p50", 2.4, 2.2), Figure("memory", 37, " MB", goal=40)), TIMES)
    assert [each.name for each in found.ratios()][:2] == ["p50", "20,000 × 384: top 10: against numpy"]
    assert [each.name for each in found.goals()] == ["p50", "memory"]


def test_a_section_is_read_as_it_was_written(tmp_path: Path) -> None:
    wrote = section("calls", Text("Some words."), goals(ratio("p50", 2.4, 2.2)), TIMES, BARS)
    path = write_section(wrote, tmp_path / "figures")
    assert path.name == "calls.json"
    assert read_sections(tmp_path / "figures") == {"calls": wrote}
    assert [each.name for each in path.parent.iterdir()] == ["calls.json"]


def test_a_file_that_is_no_section_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "calls.json").write_text('{"name": "calls"}')
    with pytest.raises(msgspec.ValidationError, match="title"):
        read_sections(tmp_path)


def test_strings_are_texts() -> None:
    assert as_blocks(["words", TIMES]) == (Text("words"), TIMES)
