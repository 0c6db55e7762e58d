"""The section of the performance page about embedding; pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.report import Goal, goals, machine, spread, table

_METHOD = """
- The model is all-MiniLM-L6-v2 (22.7 million parameters, 384 components, 256 tokens), float32, in the
  embedding process with {threads} threads and at most {budget:,} tokens at a time, in two batches. “Bare” is
  onnxruntime with the same graph and threads and one batch in the measuring process: tokenize, sort by
  length, run, pool, and nothing else.
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


def page(found: Figures) -> list[str]:
    method = _METHOD.format(
        threads=found.threads,
        budget=found.budget,
        rounds=len(found.bulks[0].ours),
        far=max(bulk.far for bulk in found.bulks),
    )
    return [
        "## Embedding",
        machine("python -m benchmarks.search.embedding"),
        goals(_goals(found)),
        "Texts, beside onnxruntime alone:",
        table(("", "tokens a text", "texts/s", "tokens/s", "of bare", "of bare, by CPU"), _bulks(found)),
        "Memory of the process by its budget of tokens a batch:",
        table(("tokens a batch", "loaded, MB", "at most, MB", "over it, MB", "texts/s"), _memory(found)),
        "Milliseconds:",
        table(("", "p50", "p95"), _times(found)),
        "### How it was measured",
        method,
    ]


def _goals(found: Figures) -> list[Goal]:
    shares = [
        Goal(f"throughput of bare onnxruntime's, {bulk.kind}", 100 * bulk.share, 95, "%", 1, True, 0)
        for bulk in found.bulks
    ]
    queries = {"a query of 8 words, p50": found.alone, "the same during a bulk job": found.during}
    times = {words: statistics.median(seconds) * 1e3 for words, seconds in queries.items()}
    return shares + [Goal(words, ms, 15, " ms", 1, limit_digits=0) for words, ms in times.items()]


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


def _times(found: Figures) -> list[tuple[str, ...]]:
    rows = (
        ("the process starts and loads the model", found.starts),
        ("a query", found.alone),
        ("a query during a bulk job", found.during),
    )
    first = ("the very first start, which makes the graph", f"{found.first * 1e3:.0f}", "")
    return [first, *((words, *map(_milliseconds, spread(seconds)[:2])) for words, seconds in rows)]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f}" if seconds < 0.1 else f"{seconds * 1e3:.0f}"
