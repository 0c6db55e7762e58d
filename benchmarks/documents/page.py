"""The section of the performance page about documents; pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks.report import Goal, goals, latencies, machine, megabytes, table

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


def page(found: Measured) -> list[str]:
    filled = found.filled
    counts = {"files": found.added.new, "documents": filled["documents"], "chunks": filled["chunks"]}
    return [
        "## Documents",
        machine("python -m benchmarks.documents"),
        "### Against the goals",
        goals(_goals(found)),
        "### Putting, one after the other",
        latencies(_PUTS, found.puts),
        *(("With MiniLM:", latencies(_PUTS, found.embedded)) if found.embedded else ()),
        "### Searching, one after the other",
        latencies(_SEARCHES, found.searches),
        "### Many at once, memory, disk",
        table(("", ""), _totals(found)),
        "### How it was measured",
        _METHOD.format(**counts),
    ]


def _goals(found: Measured) -> list[Goal]:
    put = statistics.median(found.puts["new"]["ms"])
    search = statistics.median(found.searches["hybrid"]["ms"])
    over, again = f"search over {found.filled['chunks']:,} chunks, hybrid", found.again
    return [
        Goal(_PUTS["new"], put, 5, " ms", 1, limit_digits=0),
        Goal(over, search, 8, " ms", 1, limit_digits=0),
        Goal(f"{again.unchanged:,} unchanged files again", again.seconds, 10, " s", 1, limit_digits=0),
    ]


def _totals(found: Measured) -> list[tuple[str, str]]:
    filled = found.filled
    return [
        ("put_documents, by 8, vectors at once", _rate(filled["documents"], filled)),
        ("the same in chunks", _rate(filled["chunks"], filled)),
        (f"adding {found.added.new:,} new files", _took(found.added)),
        (f"adding {found.again.unchanged:,} unchanged files again", _took(found.again)),
        ("memory of a hub, idle, resident (without files)", megabytes(found.idle)),
        ("after all documents were put", megabytes(found.full)),
        ("after all questions", megabytes(found.asked)),
        ("on disk", f"{found.disk:,.0f} MB"),
    ]


def _rate(count: int, filled: Figures) -> str:
    return f"{count / filled['seconds']:,.0f} a second; CPU {filled['cpu'] / count * 1e3:.2f} ms each"


def _took(adding: Adding) -> str:
    return f"{adding.seconds:.1f} s; CPU {adding.cpu:.1f} s"
