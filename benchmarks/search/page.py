"""The section of the performance page that these measurements write; pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.report import Goal, goals, machine, quantile, table
from benchmarks.search.engine_runs import OURS, EngineRun, Runs, engine_row, engines_comparison, totals
from benchmarks.sections.blocks import Block
from benchmarks.sections.plots import row_bars

# What is asked, by kind, in words.
_KINDS = {
    "ja": "top 10, Japanese",
    "en": "top 10, English",
    "ja dates": "the same in 10 % of the dates, Japanese",
    "en dates": "the same in 10 % of the dates, English",
    "ja user": "the same of a user with 1 %, Japanese",
    "en user": "the same of a user with 1 %, English",
    "substring ja 2": "exact substring, 2 characters, Japanese",
    "substring en 2": "exact substring, 2 characters, English",
    "substring ja 3": "exact substring, 3 to 8 characters, Japanese",
    "substring en 3": "exact substring, 3 to 8 characters, English",
    "upsert": "one upsert",
}
_GOALS = {
    "ja": 0.8, "en": 0.4, "ja dates": 1.2, "en dates": 1.2, "ja user": 1.2, "en user": 1.2,
    "substring ja 2": 5.0, "substring en 2": 5.0, "substring ja 3": 5.0, "substring en 3": 5.0, "upsert": 3.0,
}  # fmt: skip
_SPACES = {
    "t": "words and bigrams",
    "u": "likely words",
    "w": "words of the dictionary",
    "s": "pairs for substrings",
}

_METHOD = """
- {records:,} records of {characters:.0f} characters on average, half Japanese, half English, from a
  seed: word frequencies after Zipf and Mandelbrot, each record with a date, a user and a language
  (`benchmarks/search/generator.py`).
- Each engine fills a folder in a process of its own, and is opened and asked in another; ours is the
  async collection, on an event loop. The page cache is warm. Milliseconds are medians over 100 to 400
  questions that all differ, after 10 that do not count; an engine that takes more than {seconds:.0f} s
  is asked fewer.
- Questions are one to three words that stand in some record. Substrings are pieces of records, so that
  common ones come often; the answer is 10 records, the first in order of keys among all.
- An upsert of ours is on disk (fsync) when it returns; tantivy alone commits and reloads for each
  record. Each record was searched for at once. Not found by that search: {unfound}.
- Rows a second are those acknowledged, in calls of 1,000 records; “index complete” counts until nothing
  is left to be done behind them. Meanwhile, for ours, another writer puts one record after another into
  another collection of the same file.
- Anonymous memory is that of the whole process with Python, after all questions and before the upserts.
""".strip()


def page(runs: Runs, records: int, characters: float, seconds: float) -> list[Block | str]:
    ours = runs.get(OURS)
    versions = ", ".join(f"{name} {run.filled['version']}" for name, run in runs.items())
    unfound = ", ".join(f"{name} {run.asked['unfound']}" for name, run in runs.items())
    parts: list[Block | str] = ["## The store", f"{machine('python -m benchmarks.search')} {versions}."]
    if ours is not None:
        parts += ["### Against the goals", goals(_goals(ours))]
    resident = engine_row(
        "resident memory, MB", runs, lambda run: run.asked["resident"], digits=0, with_ratios=False
    )
    times = engines_comparison(
        "", runs, [engine_row(words, runs, partial(_p50, kind), unit=" ms") for kind, words in _KINDS.items()]
    )
    filling = engines_comparison("", runs, [*totals(runs), resident])
    parts += [
        "### Beside tantivy alone",
        "Milliseconds at the median, and how many times ours that is:",
        times,
        row_bars(
            "store-search", "One search in the store", "ms, median", times, times.rows, logarithmic=True
        ),
        "Filling, opening, memory, disk:",
        filling,
        row_bars(
            "store-ingest", "Filling the store", "rows a second", filling, filling.rows[:2], logarithmic=True
        ),
    ]
    if ours is not None:
        parts += ["### What is on disk", table(("", "MB", "bytes a record"), _parts(ours, records))]
        parts += ["Milliseconds of ours:", table(("", "p50", "p95", "p99"), _spread(ours))]
    method = _METHOD.format(records=records, characters=characters, seconds=seconds, unfound=unfound)
    return [*parts, "### How it was measured", method]


def _p50(kind: str, run: EngineRun) -> float | None:
    found: Sequence[float] = run.asked[kind]
    return statistics.median(found) if found else None


def _goals(ours: EngineRun) -> Iterator[Goal]:
    for kind, most in _GOALS.items():
        yield Goal(f"{_KINDS[kind]}, p50", _p50(kind, ours) or 0.0, most, " ms", 2, limit_digits=1)
    yield Goal("rows a second, bulk", ours.filled["rows"], 12_000, least=True)
    waits = quantile(ours.filled["waits"], 0.95)
    yield Goal("another writer meanwhile, p95", waits, 10, " ms", 1, limit_digits=0)
    yield Goal("opening", ours.asked["open"], 100, " ms")
    if (memory := ours.asked["anonymous"]) is not None:
        yield Goal("anonymous memory", memory, 90, " MB")


def _parts(ours: EngineRun, records: int) -> list[tuple[str, str, str]]:
    sized = sorted(ours.sizes.items(), key=lambda item: -item[1])
    sized.append(("together", sum(ours.sizes.values())))
    return [(_part(name), f"{size / 1e6:.1f}", f"{size / records:.0f}") for name, size in sized]


def _part(name: str) -> str:
    """``index/s_text`` in words."""
    if not name.startswith("index/"):
        return name
    space, _, text = name.removeprefix("index/").partition("_")
    if space in _SPACES and text:
        return f"index: {_SPACES[space]} of {text}"
    return f"index: field {text or space}"


def _spread(ours: EngineRun) -> list[tuple[str, ...]]:
    rows = [(words, *_quantiles(ours.asked[kind])) for kind, words in _KINDS.items()]
    return [*rows, ("another writer while filling", *_quantiles(ours.filled["waits"]))]


def _quantiles(values: Sequence[float]) -> tuple[str, ...]:
    return tuple(f"{quantile(values, share):.2f}" for share in (0.5, 0.95, 0.99))
