"""The section of docs/performance.md that these measurements write; pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.performance import machine, table
from benchmarks.search.page import met
from benchmarks.search.vectors.corpus import COMBINATIONS, OF_SEVERAL, ONE, QUESTIONS
from benchmarks.search.vectors.measuring import SECONDS

_OURS = "tabane"
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
    "clustered": {"nearest": 5, "dates": 5, "user": 2, "hybrid": 7, "average": 20},
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
- numpy and faiss hold no truth and write nothing durable: they are what the arithmetic alone takes. numpy
  maps its array of float32, and uses two threads; faiss has one. faiss binary compares the 1,000 nearest by
  codes; Chroma and qdrant-edge (int8) look along graphs, and were filled with 20,000 records at most
  because they take minutes for more. LanceDB compares all, without an index.
- Hybrid is reciprocal rank fusion of 100 hits by words and 100 by vectors, asked at the same time.
- A scan gives the similarity and key of every record as Python values; the first block is 20,000 records.
- Ingest is in calls of 1,000 records, each acknowledged when it is on disk (fsync), with a text (which
  ours analyses and indexes meanwhile) and vectors in all spaces; without texts, 50,000 records in one.
- Anonymous memory is that of the whole process with Python and the index of words, after the questions in
  one space. Mapped files are given back when the system wants the memory.
- The whole run took {minutes:.0f} minutes.
""".strip()


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the two steps of an engine printed, and its files in bytes by part."""

    filled: Mapping[str, Any]
    asked: Mapping[str, Any]
    sizes: Mapping[str, int]

    def spent(self, kind: str, measure: str = "clock") -> float | None:
        found = self.asked["kinds"].get(kind)
        return statistics.median(found[measure]) if found else None

    def late(self, kind: str) -> float:
        found: Sequence[float] = self.asked["kinds"][kind]["clock"]
        return found[int(len(found) * 0.95)]

    def recall(self, kind: str) -> float | None:
        found = self.asked["kinds"].get(kind)
        recall: float | None = found["recall"] if found else None
        return recall

    def scan(self, kind: str) -> tuple[float, float] | None:
        """Milliseconds to the first block and to the last."""
        found = self.asked["scans"].get(kind)
        return (statistics.median(found[0]), statistics.median(found[1])) if found else None


@dataclass(frozen=True, slots=True)
class Part:
    """One corpus, what was measured over it, and filling without texts where that was."""

    name: str
    records: int
    dimension: int
    spaces: int
    measured: Mapping[str, Measurement | None]
    bare: Mapping[str, Any] | None

    @property
    def title(self) -> str:
        return _TITLES[self.name].format(records=self.records, dimension=self.dimension)


def page(parts: Sequence[Part], seconds: float) -> str:
    versions = {
        name: found.asked["version"] for part in parts for name, found in part.measured.items() if found
    }
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    text = ["## Search by vectors", f"{machine('python -m benchmarks.search.vectors')} {listed}."]
    rows = [row for part in parts for row in _goals(part)]
    text += ["### Against the goals", table(("", "measured", "goal", ""), rows)] if rows else []
    for part in parts:
        text += _section(part)
    method = _METHOD.format(one=QUESTIONS, several=OF_SEVERAL, seconds=SECONDS, minutes=seconds / 60)
    return "\n\n".join([*text, "### How it was measured", method])


def _goals(part: Part) -> list[tuple[str, str, str, str]]:
    ours = part.measured.get(_OURS)
    if ours is None or part.name not in _GOALS:
        return []
    size = f"{part.records:,} × {part.dimension}"
    rows = []
    for kind, most in _GOALS[part.name].items():
        spent = ours.spent(kind) or 0.0
        rows.append((f"{size}: {_KINDS[kind]}, p50", f"{spent:.2f} ms", f"≤ {most} ms", met(spent <= most)))
    recall = ours.recall("nearest") or 0.0
    rows.append((f"{size}: recall@10", f"{recall:.4f}", "≥ 0.999", met(recall >= 0.999)))
    return rows + (_others(part, ours) if part.name == "clustered" else [])


def _others(part: Part, ours: Measurement) -> list[tuple[str, str, str, str]]:
    rows = []
    for kind, spaces in (("nearest", "one space"), ("average", "three spaces")):
        if (scan := ours.scan(kind)) is not None:
            for words, spent, most in (("first block", scan[0], 60), ("all", scan[1], 400)):
                name = f"all similarities, {spaces}: {words}"
                rows.append((name, f"{spent:.0f} ms", f"≤ {most} ms", met(spent <= most)))
    if part.bare is not None:
        rate = part.bare["rows"]
        rows.append(("rows a second, vectors given", f"{rate:,.0f}", "≥ 6,000", met(rate >= 6000)))
    if (memory := ours.asked["anonymous"]) is not None:
        rows.append(("anonymous memory", f"{memory:.0f} MB", "≤ 150 MB", met(memory <= 150)))
    return rows


def _section(part: Part) -> list[str]:
    text = [f"### {part.title}"]
    ours = part.measured.get(_OURS)
    if ours is not None:
        text += ["Milliseconds of ours:", table(("", "p50", "p95", "processor", "recall@10"), _spread(ours))]
    kinds = [kind for kind in _KINDS if any(f and f.spent(kind) for f in part.measured.values())]
    base = ours.spent if ours is not None else lambda _: None
    return [
        *text,
        "Milliseconds at the median, and how many times ours that is:",
        table(("", *part.measured), [[_KINDS[kind], *_cells(part, kind, base(kind))] for kind in kinds]),
        "Recall@10:",
        table(
            ("", *part.measured),
            [[_KINDS[kind], *_recalls(part, kind)] for kind in (*ONE, *COMBINATIONS) if kind in kinds],
        ),
        "Filling, opening, memory, disk:",
        table(("", *part.measured), _totals(part)),
    ]


def _spread(ours: Measurement) -> list[tuple[str, ...]]:
    rows = []
    for kind, words in _KINDS.items():
        if (spent := ours.spent(kind)) is not None:
            recall = ours.recall(kind)
            rows.append(
                (
                    words,
                    f"{spent:.2f}",
                    f"{ours.late(kind):.2f}",
                    f"{ours.spent(kind, 'processor'):.2f}",
                    "–" if recall is None else f"{recall:.4f}",
                )
            )
    return rows


def _cells(part: Part, kind: str, base: float | None) -> list[str]:
    return [_cell(found, kind, base) for found in part.measured.values()]


def _cell(found: Measurement | None, kind: str, base: float | None) -> str:
    if found is None:
        return "not installed"
    value = found.spent(kind)
    if value is None:
        return "–"
    ratio = f" ({value / base:.1f} ×)" if base and value != base else ""
    return f"{value:.2f}{ratio}"


def _recalls(part: Part, kind: str) -> list[str]:
    found = (each.recall(kind) if each else None for each in part.measured.values())
    return ["–" if recall is None else f"{recall:.4f}" for recall in found]


def _totals(part: Part) -> list[list[str]]:
    def row(words: str, value: Callable[[Measurement], float | None], form: str = "{:,.0f}") -> list[str]:
        found = (None if each is None else value(each) for each in part.measured.values())
        return [words, *("–" if number is None else form.format(number) for number in found)]

    def scan(kind: str, place: int) -> Callable[[Measurement], float | None]:
        return lambda found: None if (spent := found.scan(kind)) is None else spent[place]

    rows = [
        row("rows a second, acknowledged", lambda found: found.filled.get("rows")),
        row("rows a second, index complete", lambda found: found.filled.get("settled")),
        row("rows for each second of the processor", lambda found: found.filled.get("processor")),
        row("opening, ms", lambda found: found.asked["open"]),
        row("importing before that, ms", lambda found: found.asked["import"]),
        row("anonymous memory, MB", lambda found: found.asked["anonymous"]),
        row("mapped files in memory, MB", lambda found: found.asked["mapped"]),
        row("on disk, MB", lambda found: sum(found.sizes.values()) / 1e6 or None),
        row("all similarities: first, ms", scan("nearest", 0)),
        row("all similarities: all, ms", scan("nearest", 1)),
    ]
    if part.spaces > 1:
        rows += [
            row("of three spaces: first, ms", scan("average", 0)),
            row("of three spaces: all, ms", scan("average", 1)),
        ]
    return rows
