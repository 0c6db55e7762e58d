"""Engines that are compared, and the sections about them."""

from __future__ import annotations

from typing import Any

from benchmarks.search import page as store_page
from benchmarks.search.engine_runs import (
    EngineRun,
    engine_row,
    engines_comparison,
)
from benchmarks.search.vectors import page as vectors_page
from benchmarks.sections.blocks import Comparison, Plot, as_blocks
from benchmarks.sections.losses import losses
from benchmarks.tools import first_search

from tests.benchmarks.made_sections import section

_FILLED = {"rows": 5000.0, "settled": 4000.0, "waits": [1.0, 2.0], "version": "1.0", "processor": 3000.0}
_ASKED: dict[str, Any] = {
    "open": 30.0, "import": 100.0, "anonymous": 70.0, "resident": 200.0, "mapped": 90.0, "version": "1.0",
    "unfound": 0, "scans": {},
}  # fmt: skip


def asked_of_vectors(ms: float, recall: float) -> EngineRun:
    kinds = {
        kind: {"clock": [ms], "processor": [ms], "recall": recall, "asked": 1}
        for kind in ("nearest", "dates")
    }
    return EngineRun(_FILLED, {**_ASKED, "kinds": {**kinds, "hybrid": None}}, {"database": 10**6})


def test_ours_is_the_first_column_wherever_it_ran() -> None:
    runs = {"numpy": asked_of_vectors(3.0, 1.0), "tabane": asked_of_vectors(4.0, 1.0)}
    found = engines_comparison("", runs, [engine_row("opening", runs, lambda run: run.asked["open"])])
    assert found.columns == ("tabane", "numpy")
    alone = {"numpy": runs["numpy"]}
    (row,) = engines_comparison("", alone, [engine_row("opening", alone, lambda run: 1.0)]).rows
    assert row.values == (None, 1.0)


def test_the_section_of_vectors_has_recall_plots_and_losses() -> None:
    runs = {"tabane": asked_of_vectors(4.0, 1.0), "graph": asked_of_vectors(1.0, 0.95)}
    parts = [vectors_page.Part("clustered", 200_000, 768, 1, runs, None)]
    _, *blocks = as_blocks(vectors_page.page(parts, "## Vectors", "python -m x", 60.0))
    found = section("vectors", *blocks)
    assert [plot.name for plot in found.plots()] == [
        "clustered-nearest",
        "clustered-dates",
        "clustered-ingest",
    ]
    (nearest, *_) = found.plots()
    assert [(each.name, each.x, each.y, each.is_ours) for each in nearest.series] == [
        ("tabane", (1.0,), (4.0,), True),
        ("graph", (0.95,), (1.0,), False),
    ]
    lost = [(loss.what, loss.who, loss.factor) for loss in losses([found]) if loss.who != "the goal"]
    assert lost == [
        ("200,000 × 768, clustered, in three spaces: top 10", "graph, recall 0.9500", 4.0),
        ("200,000 × 768, clustered, in three spaces: in 10 % of the dates", "graph, recall 0.9500", 4.0),
    ]


def test_the_section_of_the_store_compares_times_and_filling() -> None:
    kinds = [*store_page._KINDS]

    def run(ms: float) -> EngineRun:
        return EngineRun(_FILLED, {**_ASKED, **{kind: [ms] for kind in kinds}}, {"database": 10**6})

    runs = {"tabane": run(0.5), "tantivy alone": run(0.25)}
    _, *blocks = as_blocks(store_page.page(runs, 1000, 120.0, 3.0))
    times, filling = (block for block in blocks if isinstance(block, Comparison))
    assert {row.values for row in times.rows} == {(0.5, 0.25)}
    assert filling.rows[0].values == (5000.0, 5000.0)
    assert [block.name for block in blocks if isinstance(block, Plot)] == ["store-search", "store-ingest"]


def test_the_goal_of_the_first_search_is_that_after_a_restart() -> None:
    found = [first_search.Searches("new home", (6000.0, 9.0, 9.0), 40.0)]
    found.append(first_search.Searches(first_search.AGAIN, (250.0, 9.0, 9.0), 40.0))
    _, *blocks = as_blocks(first_search.page(found, 10_000, 20))
    (goal,) = section("first_search", *blocks).goals()
    assert (goal.value, goal.verdict) == (250.0, "met")
