"""The section of docs/performance.md about documents; pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks.performance import machine, table

Figures = Mapping[str, Any]

_PUTS = {
    "new": "put_document, 2 KB, new",
    "same": "the same again, unchanged",
    "edited": "the same with a word more",
    "found": "put_document, and a search that sees it",
    "deleted": "delete_document",
}
_SEARCHES = {
    "hybrid": "hybrid",
    "vector": "vector",
    "lexical": "lexical",
    "filtered": "hybrid, a filter on metadata that means 10 %",
    "twenty": "hybrid, 20 documents",
    "texts": "hybrid, with the whole texts",
    "get_document": "get_document, 10,000 characters",
}
_PUT, _SEARCH, _AGAIN = 5.0, 8.0, 10.0

_METHOD = """
- Each hub is `tabane start` with a folder of its own; the client is another process, with the library
  `websockets`, on the same cores. Milliseconds are from before a request is written until its answer is read
  as JSON. The first of a kind do not count.
- Texts are Markdown of made words with the frequencies of real ones, half Japanese, half English
  (`benchmarks/documents/sources.py`). A document of 2 KB has five headings; all have metadata: a number, a
  name, two tags.
- Putting is into a hub without a model that has {files:,} files already, one document after the other: when
  the answer comes, the document is on the disk, and any search finds it. “With MiniLM” is into a hub with
  that model and no files.
- Searches are over {documents:,} documents of about 10 KB, {chunks:,} chunks with vectors of 384 numbers.
  What embeds is a server on loopback that makes vectors around 2,000 centres: no model is in any figure.
  Each question is another, of one to three words; its vector is in the hub's cache.
- Files are added with `tabane docs add` until the command ends; unchanged ones are told by size and time.
- “CPU” is what the hub used for one request, in milliseconds, with what it does behind the answer: that,
  unlike the rest, is the same beside other work.
""".strip()


class Adding(NamedTuple):
    """Files added: seconds, the hub's seconds of CPU, and how many were new or unchanged."""

    seconds: float
    cpu: float
    new: int
    unchanged: int


@dataclass(slots=True)
class Measured:
    """Memory is resident and its own, in MB; ``embedded`` is empty where MiniLM is not installed."""

    added: Adding = field(init=False)
    again: Adding = field(init=False)
    idle: tuple[float, float] = (0, 0)
    puts: Mapping[str, Figures] = field(default_factory=dict)
    embedded: Mapping[str, Figures] = field(default_factory=dict)
    with_model: tuple[float, float] = (0, 0)
    filled: Figures = field(default_factory=dict)
    full: tuple[float, float] = (0, 0)
    searches: Mapping[str, Figures] = field(default_factory=dict)
    asked: tuple[float, float] = (0, 0)
    disk: float = 0.0


def page(found: Measured) -> str:
    filled = found.filled
    counts = {"files": found.added.new, "documents": filled["documents"], "chunks": filled["chunks"]}
    return "\n\n".join([
        "## Documents",
        machine("python -m benchmarks.documents"),
        "### Against the goals",
        table(("", "measured", "goal", ""), _against(found)),
        "### Putting, one after the other",
        table(("ms", "p50", "p95", "most", "CPU"), _lines(_PUTS, found.puts)),
        *_with_minilm(found),
        "### Searching, one after the other",
        table(("ms", "p50", "p95", "most", "CPU"), _lines(_SEARCHES, found.searches)),
        "### Many at once, memory, disk",
        table(("", ""), _weight(found)),
        "### How it was measured",
        _METHOD.format(**counts),
    ])  # fmt: skip


def _with_minilm(found: Measured) -> Sequence[str]:
    if not found.embedded:
        return ()
    return ("With MiniLM:", table(("ms", "p50", "p95", "most", "CPU"), _lines(_PUTS, found.embedded)))


def _against(found: Measured) -> list[tuple[str, ...]]:
    return [
        _most(_PUTS["new"], statistics.median(found.puts["new"]["ms"]), _PUT, "ms"),
        _most(
            f"search over {found.filled['chunks']:,} chunks, hybrid",
            statistics.median(found.searches["hybrid"]["ms"]),
            _SEARCH,
            "ms",
        ),
        _most(f"{found.again.unchanged:,} unchanged files again", found.again.seconds, _AGAIN, "s"),
    ]


def _most(name: str, measured: float, goal: float, unit: str) -> tuple[str, ...]:
    return name, f"{measured:.1f} {unit}", f"≤ {goal:g} {unit}", "met" if measured <= goal else "missed"


def _lines(names: Mapping[str, str], figures: Mapping[str, Figures]) -> list[tuple[str, ...]]:
    return [
        (name, *(f"{each:.2f}" for each in _spread(figures[kind]["ms"])), f"{figures[kind]['cpu']:.2f}")
        for kind, name in names.items()
    ]


def _spread(ms: Sequence[float]) -> tuple[float, float, float]:
    """In the middle, at 95 in 100, and the most."""
    return statistics.median(ms), ms[min(len(ms) - 1, len(ms) * 95 // 100)], ms[-1]


def _weight(found: Measured) -> list[tuple[str, str]]:
    filled = found.filled
    return [
        ("put_documents, by 8, vectors at once", _rate(filled["documents"], filled)),
        ("the same in chunks", _rate(filled["chunks"], filled)),
        (f"adding {found.added.new:,} new files", _took(found.added)),
        (f"adding {found.again.unchanged:,} unchanged files again", _took(found.again)),
        ("memory of a hub, idle, resident (without files)", _memory(found.idle)),
        ("after all documents were put", _memory(found.full)),
        ("after all questions", _memory(found.asked)),
        ("on disk", f"{found.disk:,.0f} MB"),
    ]


def _rate(count: int, filled: Figures) -> str:
    return f"{count / filled['seconds']:,.0f} a second; CPU {filled['cpu'] / count * 1e3:.2f} ms each"


def _took(adding: Adding) -> str:
    return f"{adding.seconds:.1f} s; CPU {adding.cpu:.1f} s"


def _memory(found: tuple[float, float]) -> str:
    return f"{found[0]:,.0f} MB ({found[1]:,.0f})"
