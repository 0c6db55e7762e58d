"""Recall of tool search on a set: asked of a hub that has the tools of the set and its own."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tabane.cli.bench.temporary_hub import BenchModel, TemporaryFolder, TemporaryHub
from tabane.cli.bench.tokens import PromptTokens
from tabane.cli.bench.tool_set import SetQuery, ToolSet
from tabane.cli.bench.tool_site import ToolSite

CUTS = (1, 5, 10)
SAMPLE = 200
"""Queries whose answers, as an assistant gets them, are counted in tokens; of a larger set every n-th."""

MOST_MISSES = 20
"""Queries without any right tool that a result names."""


@dataclass(frozen=True, slots=True)
class RecallFigures:
    """Recall by cut, and tokens of a search: of the query and the answer with the default limit.

    ``ms`` is the median time of a search. ``missed`` are queries without a right tool in the first ten.
    """

    name: str
    tools: int
    queries: int
    recall: Mapping[int, float]
    tokens: float
    ms: float
    missed: Sequence[str] = field(default_factory=tuple)

    def as_object(self) -> dict[str, Any]:
        recall = {str(cut): round(value, 4) for cut, value in self.recall.items()}
        return {
            "set": self.name,
            "tools": self.tools,
            "queries": self.queries,
            "recall": recall,
            "tokens_per_search": round(self.tokens, 1),
            "median_ms": round(self.ms, 2),
            "missed": list(self.missed),
        }


def measure(given: ToolSet, model: BenchModel, count: PromptTokens) -> RecallFigures:
    """Measure a set with a hub of its own."""
    with (
        TemporaryFolder() as folder,
        ToolSite(given.servers) as site,
        TemporaryHub(folder, site.definitions, model) as hub,
    ):
        ids = {alias: given.ids.get(place, "") for place, alias in hub.aliases().items()}
        hub.settle([query.text for query in given.queries])
        return _measured(given, hub, ids, count)


def _measured(
    given: ToolSet, hub: TemporaryHub, ids: Mapping[str, str], count: PromptTokens
) -> RecallFigures:
    scores: list[list[float]] = []
    times: list[float] = []
    missed: list[str] = []
    for query in given.queries:
        began = time.perf_counter()
        found = [ids.get(name, "") for name in _search(hub, query)]
        times.append((time.perf_counter() - began) * 1e3)
        scores.append([query.recall(found, cut) for cut in CUTS])
        if not scores[-1][-1] and len(missed) < MOST_MISSES:
            missed.append(query.text)
    means = (statistics.fmean(column) for column in zip(*scores, strict=True))
    return RecallFigures(
        name=given.name,
        tools=len(given.ids),
        queries=len(given.queries),
        recall=dict(zip(CUTS, means, strict=True)),
        tokens=_tokens(given, hub, count),
        ms=statistics.median(times),
        missed=missed,
    )


def _search(hub: TemporaryHub, query: SetQuery) -> list[str]:
    found = hub.call("search_tools", {"query": query.text, "limit": max(CUTS)})
    return [row["name"] for row in found["results"]]


def _tokens(given: ToolSet, hub: TemporaryHub, count: PromptTokens) -> float:
    assistant = hub.assistant("--mode", "search")
    step = -(-len(given.queries) // SAMPLE)
    sizes = []
    for query in given.queries[::step]:
        arguments = {"query": query.text}
        answer = assistant.call("search_tools", arguments).text
        sizes.append(count({"name": "search_tools", "arguments": arguments}) + count(answer))
    return statistics.fmean(sizes)
