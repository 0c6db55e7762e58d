"""The section of docs/performance.md that these measurements write; pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.performance import machine, table

_OURS = "tabane"

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
  common ones come often; the answer is 10 records, of ours and of SQLite's the first in order of keys
  among all.
- SQLite's trigrams find no word of two characters: a question with one is a LIKE over every text.
  Chroma ranks by vectors alone, so it has no figure for words; its vectors were made two numbers long.
- An upsert of ours and of SQLite's is on disk (fsync) when it returns; tantivy alone commits and
  reloads for each record. Each record was searched for at once. Not found by that search: {unfound}.
- Rows a second are those acknowledged, in calls of 1,000 records (LanceDB 10,000, Chroma 5,000); “index
  complete” counts until nothing is left to be done behind them. Meanwhile, for ours, another writer
  puts one record after another into another collection of the same file.
- Anonymous memory is that of the whole process with Python, after all questions and before the upserts.
""".strip()


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the two steps of an engine printed, and its files in bytes by part."""

    filled: Mapping[str, Any]
    asked: Mapping[str, Any]
    sizes: Mapping[str, int]

    def p50(self, kind: str) -> float | None:
        found: Sequence[float] = self.asked[kind]
        return statistics.median(found) if found else None


Measured = Mapping[str, Measurement | None]


def page(measured: Measured, records: int, characters: float, seconds: float) -> str:
    present = {name: found for name, found in measured.items() if found is not None}
    ours = present.get(_OURS)
    versions = ", ".join(f"{name} {found.filled['version']}" for name, found in present.items())
    unfound = ", ".join(f"{name} {found.asked['unfound']}" for name, found in present.items())
    parts = ["## The store", f"{machine('python -m benchmarks.search')} {versions}."]
    if ours is not None:
        parts += ["### Against the goals", table(("", "measured", "goal", ""), _goals(ours))]
    parts += [
        "### Beside other engines",
        "Milliseconds at the median, and how many times ours that is:",
        table(("", *measured), _compared(measured)),
        "Filling, opening, memory, disk:",
        table(("", *measured), _totals(measured)),
    ]
    if ours is not None:
        parts += ["### What is on disk", table(("", "MB", "bytes a record"), _parts(ours, records))]
        parts += ["Milliseconds of ours:", table(("", "p50", "p95", "p99"), _spread(ours))]
    method = _METHOD.format(records=records, characters=characters, seconds=seconds, unfound=unfound)
    return "\n\n".join([*parts, "### How it was measured", method])


def _goals(ours: Measurement) -> list[tuple[str, str, str, str]]:
    rows = []
    for kind, most in _GOALS.items():
        found = ours.p50(kind) or 0.0
        rows.append((f"{_KINDS[kind]}, p50", f"{found:.2f} ms", f"≤ {most:.1f} ms", met(found <= most)))
    rate, waits = ours.filled["rows"], _quantile(ours.filled["waits"], 0.95)
    opened, memory = ours.asked["open"], ours.asked["anonymous"]
    rows += [
        ("rows a second, bulk", f"{rate:,.0f}", "≥ 8,000", met(rate >= 8000)),
        ("another writer meanwhile, p95", f"{waits:.1f} ms", "≤ 10 ms", met(waits <= 10)),
        ("opening", f"{opened:.0f} ms", "≤ 100 ms", met(opened <= 100)),
    ]
    if memory is not None:
        rows.append(("anonymous memory", f"{memory:.0f} MB", "≤ 90 MB", met(memory <= 90)))
    return rows


def _compared(measured: Measured) -> list[list[str]]:
    ours = measured.get(_OURS)
    rows = []
    for kind, words in _KINDS.items():
        base = ours.p50(kind) if ours is not None else None
        rows.append([words, *(_cell(found, kind, base) for found in measured.values())])
    return rows


def _cell(found: Measurement | None, kind: str, base: float | None) -> str:
    if found is None:
        return "not installed"
    value = found.p50(kind)
    if value is None:
        return "–"
    ratio = f" ({value / base:.1f} ×)" if base and value != base else ""
    return f"{value:.2f}{ratio}"


def _totals(measured: Measured) -> list[list[str]]:
    def row(words: str, value: Any) -> list[str]:
        return [words, *("–" if found is None else value(found) for found in measured.values())]

    return [
        row("rows a second, acknowledged", lambda found: f"{found.filled['rows']:,.0f}"),
        row("rows a second, index complete", lambda found: f"{found.filled['settled']:,.0f}"),
        row("opening, ms", lambda found: f"{found.asked['open']:.0f}"),
        row("importing before that, ms", lambda found: f"{found.asked['import']:.0f}"),
        row("anonymous memory, MB", lambda found: _memory(found.asked["anonymous"])),
        row("resident memory, MB", lambda found: _memory(found.asked["resident"])),
        row("on disk, MB", lambda found: f"{sum(found.sizes.values()) / 1e6:.0f}"),
    ]


def _memory(megabytes: float | None) -> str:
    return "–" if megabytes is None else f"{megabytes:.0f}"


def _parts(ours: Measurement, records: int) -> list[tuple[str, str, str]]:
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


def _spread(ours: Measurement) -> list[tuple[str, ...]]:
    rows = [(words, *_quantiles(ours.asked[kind])) for kind, words in _KINDS.items()]
    return [*rows, ("another writer while filling", *_quantiles(ours.filled["waits"]))]


def _quantiles(found: Sequence[float]) -> tuple[str, ...]:
    return tuple(f"{_quantile(found, share):.2f}" for share in (0.5, 0.95, 0.99))


def _quantile(found: Sequence[float], share: float) -> float:
    return sorted(found)[int(len(found) * share)]


def met(reached: bool) -> str:
    return "met" if reached else "missed"
