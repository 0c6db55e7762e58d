"""The section of the performance page that these measurements write; pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.report import Goal, goals, machine, number, quantile, table
from benchmarks.search.engine_runs import (
    OURS,
    EngineRun,
    Runs,
    engine_row,
    engines_comparison,
    totals,
)
from benchmarks.search.vectors.corpus import COMBINATIONS, OF_SEVERAL, QUESTIONS
from benchmarks.search.vectors.measuring import SECONDS
from benchmarks.sections.blocks import Axis, Block, Comparison, Mark, Plot, Row, Series
from benchmarks.sections.figure import Better
from benchmarks.sections.plots import curves, row_bars

_KINDS = {
    "nearest": "top 10",
    "dates": "in 10 % of the dates",
    "user": "of a user with 1 %",
    "rare": "of a user in 10 % of the dates: 0.1 %",
    "hybrid": "hybrid: words and vectors",
    "average": "average of three spaces",
    "weighted": "weighted sum of three",
    "maximum": "maximum of three",
    "minimum": "minimum of three",
    "product": "product of three",
}
_TITLES = {
    "clustered": "{records:,} × {dimension}, clustered, in three spaces",
    "minilm": "{records:,} × {dimension}, MiniLM's vectors of real texts",
    "million": "{records:,} × {dimension}, clustered",
}
_GOALS: dict[str, dict[str, float]] = {
    "clustered": {"nearest": 2.3, "dates": 5, "user": 2, "hybrid": 5, "average": 9},
    "million": {"nearest": 20, "hybrid": 30},
}
_METHOD = """
- Clustered vectors lie around 2,000 centres, off the middle as those of real models do; a question is a
  vector with noise. Real ones are MiniLM's of paragraphs of docstrings, Python's and its packages'. Each
  record has a date, a user and (for ours) a text of `benchmarks/search/generator.py`, in no order of dates;
  of the million each text comes four times, in 60 characters.
- Recall is the share of the exact ten, worked out by numpy from all vectors, that was found: over {one}
  questions of a kind, {several} of several spaces. An engine that takes more than {seconds:.0f} s for a kind
  is asked fewer.
- Each engine fills a folder in a process of its own and is opened and asked in another; ours is the async
  collection, on an event loop. Milliseconds are medians, after the first questions, which find the files
  in no page of the process yet; “processor” is the time all threads of the process worked.
- numpy holds no truth and writes nothing durable: it is what the arithmetic alone takes. It maps its array
  of float32, and uses two threads.
- Hybrid fuses 100 hits by words and 100 by vectors, asked one after the other.
- A scan gives the similarity and key of every record as Python values; the first block is 20,000 records.
- Ingest is in calls of 1,000 records, each acknowledged when it is on disk (fsync), with a text (which
  ours analyses and indexes meanwhile) and vectors in all spaces; without texts, 50,000 records in one.
- Anonymous memory is that of the whole process with Python and the index of words, after the questions in
  one space. Mapped files are given back when the system wants the memory.
- The whole run took {minutes:.0f} minutes.
""".strip()


@dataclass(frozen=True, slots=True)
class Part:
    """One corpus, what was measured over it, and filling without texts where that was."""

    name: str
    records: int
    dimension: int
    spaces: int
    runs: Runs
    bare: Mapping[str, Any] | None

    @property
    def title(self) -> str:
        return _TITLES[self.name].format(records=self.records, dimension=self.dimension)


def page(parts: Sequence[Part], title: str, command: str, seconds: float) -> list[Block | str]:
    versions = {name: run.asked["version"] for part in parts for name, run in part.runs.items()}
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    text: list[Block | str] = [title, f"{machine(command)} {listed}."]
    reached = [goal for part in parts for goal in _goals(part)]
    text += ["### Against the goals", goals(reached)] if reached else []
    for part in parts:
        text += _section(part)
    method = _METHOD.format(one=QUESTIONS, several=OF_SEVERAL, seconds=SECONDS, minutes=seconds / 60)
    return [*text, "### How it was measured", method]


def _spent(kind: str, run: EngineRun, measure: str = "clock") -> float | None:
    found = run.asked["kinds"].get(kind)
    return statistics.median(found[measure]) if found else None


def _recall(kind: str, run: EngineRun) -> float | None:
    found = run.asked["kinds"].get(kind)
    recall: float | None = found["recall"] if found else None
    return recall


def _scan(kind: str, place: int, run: EngineRun) -> float | None:
    """Milliseconds to the first block (place 0), or to the last."""
    found = run.asked["scans"].get(kind)
    return statistics.median(found[place]) if found else None


def _goals(part: Part) -> Iterator[Goal]:
    ours = part.runs.get(OURS)
    if ours is None or part.name not in _GOALS:
        return
    size = f"{part.records:,} × {part.dimension}"
    for kind, most in _GOALS[part.name].items():
        spent = _spent(kind, ours) or 0.0
        yield Goal(f"{size}: {_KINDS[kind]}, p50", spent, most, " ms", 2, limit_digits=1)
    recall = _recall("nearest", ours) or 0.0
    yield Goal(f"{size}: recall@10", recall, 0.999, "", 4, least=True, limit_digits=3)
    if part.name == "clustered":
        yield from _other_goals(part, ours)


def _other_goals(part: Part, ours: EngineRun) -> Iterator[Goal]:
    for kind, spaces in (("nearest", "one space"), ("average", "three spaces")):
        for place, (words, most) in enumerate((("first block", 60), ("all", 400))):
            if (spent := _scan(kind, place, ours)) is not None:
                yield Goal(f"all similarities, {spaces}: {words}", spent, most, " ms")
    if part.bare is not None:
        yield Goal("rows a second, vectors given", part.bare["rows"], 6000, least=True)
    if (memory := ours.asked["anonymous"]) is not None:
        yield Goal("anonymous memory", memory, 150, " MB")


def _section(part: Part) -> list[Block | str]:
    text: list[Block | str] = [f"### {part.title}"]
    runs, ours = part.runs, part.runs.get(OURS)
    if ours is not None:
        text += ["Milliseconds of ours:", table(("", "p50", "p95", "processor", "recall@10"), _spread(ours))]
    kinds = [kind for kind in _KINDS if any(_spent(kind, run) for run in runs.values())]
    times = engines_comparison(part.title, runs, (_times(kind, runs) for kind in kinds))
    recalled = [row for row in times.rows if any(share is not None for share in row.recalls)]
    filling = engines_comparison(part.title, runs, [*totals(runs), *_more_totals(part)])
    return [
        *text,
        "Milliseconds at the median, and how many times ours that is:",
        times,
        "Recall@10:",
        table(
            ("", *times.columns), ([row.name, *(number(it, ".4f") for it in row.recalls)] for row in recalled)
        ),
        *_recall_plots(part, times),
        "Filling, opening, memory, disk:",
        filling,
        row_bars(
            f"{part.name}-ingest",
            f"Filling {part.records:,} × {part.dimension}",
            "rows a second",
            filling,
            filling.rows[:2],
            logarithmic=True,
        ),
    ]


def _times(kind: str, runs: Runs) -> Row:
    return engine_row(_KINDS[kind], runs, partial(_spent, kind), unit=" ms", recall=partial(_recall, kind))


def _recall_plots(part: Part, times: Comparison) -> Iterator[Plot]:
    """Yield time against recall, without a filter and with one, and the time of all kinds of search."""
    for kind, words in (("nearest", "Top 10 of all"), ("dates", "Top 10 in 10 % of the dates")):
        row = next((row for row in times.rows if row.name == _KINDS[kind]), None)
        if row is not None:
            yield curves(
                f"{part.name}-{kind}",
                f"{words}, {part.records:,} × {part.dimension}",
                Axis("recall@10"),
                Axis("ms, median", logarithmic=True),
                [
                    Series(name, (share,), (value,), is_ours=name == OURS)
                    for name, value, share in zip(times.columns, row.values, row.recalls, strict=True)
                    if value is not None and share is not None
                ],
                mark=Mark.POINTS,
            )
    several = [row for row in times.rows if row.name in map(_KINDS.get, ("nearest", "hybrid", *COMBINATIONS))]
    if len(several) > 1:
        title = f"One space, hybrid, several spaces, {part.records:,} × {part.dimension}"
        yield row_bars(f"{part.name}-kinds", title, "ms, median", times, several, logarithmic=True)


def _spread(ours: EngineRun) -> list[tuple[str, ...]]:
    return [
        (
            words,
            f"{spent:.2f}",
            f"{quantile(ours.asked['kinds'][kind]['clock'], 0.95):.2f}",
            number(_spent(kind, ours, "processor"), ".2f"),
            number(_recall(kind, ours), ".4f"),
        )
        for kind, words in _KINDS.items()
        if (spent := _spent(kind, ours)) is not None
    ]


def _more_totals(part: Part) -> Iterator[Row]:
    total = partial(engine_row, runs=part.runs, digits=0, with_ratios=False)
    yield total(
        "rows for each second of the processor",
        value=lambda run: run.filled.get("processor"),
        better=Better.MORE,
    )
    yield total("mapped files in memory, MB", value=lambda run: run.asked["mapped"])
    spaces = {"all similarities": "nearest"} | ({"of three spaces": "average"} if part.spaces > 1 else {})
    for words, kind in spaces.items():
        for place, end in enumerate(("first", "all")):
            yield total(f"{words}: {end}, ms", value=partial(_scan, kind, place))
