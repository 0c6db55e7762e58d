"""docs/development/performance.md as it is rendered from the figures."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.plan import Chapter, Part
from benchmarks.sections.figure import Better, Figure
from benchmarks.sections.losses import anchor, losses
from benchmarks.sections.page import PAGE, by_chapter, page, pictures, write_page
from benchmarks.sections.section import FIGURES, read_sections, write_section

from tests.benchmarks.made_sections import BARS, TIMES, goals, ratio, section

PARTS = (
    Part("calls", Chapter.GATEWAY, "benchmarks.calls", headlines=("p50",)),
    Part("vectors", Chapter.SEARCH, "benchmarks.vectors"),
)
SECTIONS = {
    "mine": section("mine"),
    "vectors": section("vectors", TIMES, title="Search by vectors"),
    "calls": section("calls", goals(ratio("p50", 2.4, 2.2), ratio("p95", 3.0, 4.0)), BARS),
}


def test_the_committed_page_is_rendered_from_the_committed_figures() -> None:
    sections = read_sections(FIGURES)
    assert PAGE.read_text("utf-8") == page(sections), "run: python -m benchmarks.sections.page"
    drawn = pictures(sections.values())
    kept = {f"plots/{path.name}": path.read_text("utf-8") for path in (PAGE.parent / "plots").glob("*.svg")}
    assert kept == drawn, "run: python -m benchmarks.sections.page"


def test_the_page_begins_with_a_summary_the_contents_and_the_losses() -> None:
    headings = re.findall(r"^## (.+)$", page(SECTIONS, PARTS), re.MULTILINE)
    assert headings == ["Summary", "Contents", "Where we lose", "Calls", "Search by vectors", "Mine"]


def test_the_summary_has_the_headlines_and_counts_all_goals() -> None:
    summary = page(SECTIONS, PARTS).partition("## Summary")[2].partition("## Contents")[0]
    assert "1 of 2 goals are met" in summary
    assert "[Calls](#calls): p50" in summary
    assert "p95" not in summary


def test_the_contents_list_every_section_under_its_chapter() -> None:
    contents = page(SECTIONS, PARTS).partition("## Contents\n\n")[2].partition("\n\n##")[0]
    assert contents.splitlines() == [
        "- [Where we lose](#where-we-lose)",
        "- Gateway",
        "  - [Calls](#calls), 2026-11-27",
        "- Store and search",
        "  - [Search by vectors](#search-by-vectors), 2026-11-27",
        "- Others",
        "  - [Mine](#mine), 2026-11-27",
    ]


def test_a_section_that_the_plan_does_not_have_is_not_lost() -> None:
    assert by_chapter(SECTIONS, PARTS)["Others"] == [SECTIONS["mine"]]


def test_every_link_of_the_contents_has_its_heading() -> None:
    text = PAGE.read_text("utf-8")
    headings = {anchor(title) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= headings


def test_an_anchor_is_that_of_github() -> None:
    assert anchor("Before and after: 0.3.0 and 0.4.0") == "before-and-after-030-and-040"
    assert anchor("The audit log, 1,000,000 entries") == "the-audit-log-1000000-entries"


def test_losses_are_missed_goals_and_better_peers_the_best_of_a_row() -> None:
    found = losses(by_chapter(SECTIONS, PARTS)["Gateway"] + [SECTIONS["vectors"]])
    assert [(loss.what, loss.ours, loss.other, loss.who, round(loss.factor, 2)) for loss in found] == [
        ("p50", "2.40 ×", "≤ 2.20 ×", "the goal", 1.09),
        ("20,000 × 384: top 10", "4.00 ms", "2.00 ms", "graph, recall 0.9000", 2.0),
        ("20,000 × 384: rows a second", "5,000", "10,000", "graph", 2.0),
    ]


def test_a_peer_that_is_hardly_better_is_no_loss() -> None:
    close = TIMES.rows[0].__class__("top 10", (1.03, 1.0))
    assert losses([section("close", TIMES.__class__(("tabane", "numpy"), (close,)))]) == []


def test_a_goal_for_more_is_lost_by_less() -> None:
    missed = Figure("rows", 4000, goal=8000, better=Better.MORE)
    (loss,) = losses([section("ingest", goals(missed))])
    assert loss.factor == 2.0


def test_writing_draws_the_plots_and_deletes_those_of_no_section(tmp_path: Path) -> None:
    write_section(SECTIONS["calls"], tmp_path / "figures")
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "old.svg").write_text("<svg/>")
    write_page(tmp_path / "figures", tmp_path / "page.md")
    assert [path.name for path in (tmp_path / "plots").iterdir()] == ["calls.svg"]
    assert f"![{BARS.about}](plots/calls.svg)" in (tmp_path / "page.md").read_text("utf-8")
