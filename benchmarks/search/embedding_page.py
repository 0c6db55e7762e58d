"""The section of docs/performance.md about embedding; pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.performance import machine, table
from benchmarks.search.page import met

_SHARE, _QUERY = 0.95, 15.0  # of bare onnxruntime; milliseconds

_METHOD = """
- The model is all-MiniLM-L6-v2 (22.7 million parameters, 384 components, 256 tokens), float32, in the
  embedding process with {threads} threads and batches of at most {budget:,} tokens. “Bare” is onnxruntime
  with the same graph, threads and batches in the measuring process: tokenize, sort by length, run, pool,
  and nothing else.
- Both in turns, {rounds} rounds. A second on the clock: the median of the rounds' ratios. A second of the
  processor: all rounds together, both processes counted; other work on the machine changes it less.
- Texts are pieces of this documentation: posts of 20 to 280 characters, passages of 600 to 1,200, and both
  mixed with all between. The largest difference of a component between both sides was {far:.0e}.
- A query has 8 words, and the time is that of the hub's end: there and back. During the bulk job the
  process never rests; queries run beside the batch that is under way.
- Memory is the most that the process ever had resident (VmHWM), in 10⁶ bytes: the model once loaded, and
  after a bulk of passages and posts. What it takes over the loaded model grows with the budget.
""".strip()


@dataclass(frozen=True, slots=True)
class Bulk:
    """Rounds over the same texts: seconds of each round, and CPU seconds of all; ``far`` as in _METHOD."""

    kind: str
    texts: int
    tokens: int
    ours: Sequence[float]
    bare: Sequence[float]
    ours_worked: float
    bare_worked: float
    far: float

    @property
    def share(self) -> float:
        """Of bare onnxruntime's throughput, on the clock."""
        return statistics.median(bare / ours for ours, bare in zip(self.ours, self.bare, strict=True))

    @property
    def worked_share(self) -> float:
        return self.bare_worked / self.ours_worked


@dataclass(frozen=True, slots=True)
class Memory:
    """With a budget of tokens: MB at most when loaded and after the bulk, and texts a second."""

    budget: int
    loaded: float
    most: float
    rate: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds: of the first start, of the next, of queries alone and during a bulk job."""

    first: float
    starts: Sequence[float]
    alone: Sequence[float]
    during: Sequence[float]
    bulks: Sequence[Bulk]
    memory: Sequence[Memory]
    threads: int
    budget: int


def page(found: Figures) -> str:
    method = _METHOD.format(
        threads=found.threads,
        budget=found.budget,
        rounds=len(found.bulks[0].ours),
        far=max(bulk.far for bulk in found.bulks),
    )
    return "\n\n".join(
        [
            "## Embedding",
            machine("python -m benchmarks.search.embedding"),
            table(("", "measured", "goal", ""), _goals(found)),
            "Texts, beside onnxruntime alone:",
            table(("", "tokens a text", "texts/s", "tokens/s", "of bare", "of bare, by CPU"), _bulks(found)),
            "Memory of the process by its budget of tokens a batch:",
            table(("tokens a batch", "loaded, MB", "at most, MB", "over it, MB", "texts/s"), _memory(found)),
            "Milliseconds:",
            table(("", "p50", "p95"), _spread(found)),
            "### How it was measured",
            method,
        ]
    )


def _goals(found: Figures) -> list[tuple[str, str, str, str]]:
    rows = [
        (
            f"throughput of bare onnxruntime's, {bulk.kind}",
            f"{bulk.share:.1%}",
            f"≥ {_SHARE:.0%}",
            met(bulk.share >= _SHARE),
        )
        for bulk in found.bulks
    ]
    for words, seconds in (
        ("a query of 8 words, p50", found.alone),
        ("the same during a bulk job", found.during),
    ):
        taken = statistics.median(seconds) * 1e3
        rows.append((words, f"{taken:.1f} ms", f"≤ {_QUERY:.0f} ms", met(taken <= _QUERY)))
    return rows


def _bulks(found: Figures) -> list[tuple[str, ...]]:
    rows = []
    for bulk in found.bulks:
        taken = statistics.median(bulk.ours)
        rows.append(
            (
                bulk.kind,
                f"{bulk.tokens / bulk.texts:.0f}",
                f"{bulk.texts / taken:.0f}",
                f"{bulk.tokens / taken:,.0f}",
                f"{bulk.share:.1%}",
                f"{bulk.worked_share:.1%}",
            )
        )
    return rows


def _memory(found: Figures) -> list[tuple[str, ...]]:
    return [
        (
            f"{each.budget:,}",
            f"{each.loaded:.0f}",
            f"{each.most:.0f}",
            f"{each.most - each.loaded:.0f}",
            f"{each.rate:.0f}",
        )
        for each in found.memory
    ]


def _spread(found: Figures) -> list[tuple[str, ...]]:
    rows = (
        ("the process starts and loads the model", found.starts),
        ("a query", found.alone),
        ("a query during a bulk job", found.during),
    )
    first = ("the very first start, which makes the graph", f"{found.first * 1e3:.0f}", "")
    return [first, *((words, *map(_milliseconds, _quantiles(seconds))) for words, seconds in rows)]


def _quantiles(seconds: Sequence[float]) -> tuple[float, float]:
    return statistics.median(seconds), sorted(seconds)[int(len(seconds) * 0.95)]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f}" if seconds < 0.1 else f"{seconds * 1e3:.0f}"
