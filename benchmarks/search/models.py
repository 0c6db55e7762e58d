"""Embedding models side by side: speed, memory, and what each finds by meaning alone.

``python -m benchmarks.search.models MODEL… [--passages FILE] [--tools FILE] [--write]``. ``--passages`` is
what :mod:`benchmarks.search.quality` reads: texts and questions, each with its right text. ``--tools`` has
``tools`` with name and description, and ``queries`` with ``gold``. The paraphrases are those of the tests.
What is not named is not measured. A model that is not on this machine is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.report import machine, publish, table
from benchmarks.search.hybrid import opened
from benchmarks.search.quality import Corpus, scores
from numpy.typing import NDArray

from tabane.errors import ModelError
from tabane.search.embedding.embedder import Embedder, NoModel
from tabane.search.embedding.model_finder import ModelChoice
from tabane.search.embedding.process import LocalEmbedder, cores

PARAPHRASES = Path(__file__).parents[2] / "tests" / "search" / "quality"
_QUERIES, _PASSAGES = 50, 200

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ToolQuestions:
    """Tools as texts by id, and questions with the ids of which one of each group is right."""

    texts: Mapping[str, str]
    queries: Sequence[tuple[str, Sequence[frozenset[str]]]]

    @classmethod
    def read(cls, path: Path) -> ToolQuestions:
        whole = json.loads(path.read_bytes())
        texts = {tool["id"]: f"{tool['name']}: {tool['description']}" for tool in whole["tools"]}
        queries = [
            (asked["query"], [frozenset(gold["ids"]) for gold in asked["gold"]]) for asked in whole["queries"]
        ]
        return cls(texts, queries)


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """What was measured of one model. Qualities are None where no set was given."""

    model: str
    dimension: int
    start: float
    query: float
    passages: float
    memory: float
    ndcg: float | None
    paraphrases: tuple[float, float]
    tools: tuple[float, float] | None


async def figures(
    model: Embedder, start: float, passages: Corpus | None, tools: ToolQuestions | None
) -> ModelFigures:
    paraphrases = _paraphrases()
    texts = list(paraphrases.texts.values())[:_PASSAGES]
    if passages is not None:
        texts = list(passages.texts.values())[:_PASSAGES]
    return ModelFigures(
        model.fingerprint.partition("#")[0],
        model.dimension,
        start,
        await _query_seconds(model),
        await _per_second(model, texts),
        _peak(model),
        await _ndcg(model, passages) if passages else None,
        await _hits(model, paraphrases),
        await _recall(model, tools) if tools else None,
    )


def _paraphrases() -> Corpus:
    """The questions of the tests that share no word with their answers."""
    whole = json.loads((PARAPHRASES / "corpus.json").read_bytes())
    return Corpus.of({**whole, "queries": json.loads((PARAPHRASES / "paraphrases.json").read_bytes())})


async def _query_seconds(model: Embedder) -> float:
    taken = []
    for number in range(_QUERIES + 5):
        begun = time.perf_counter()
        await model.embed([f"how do I restart the search server {number}"], "query")
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken[5:])


async def _per_second(model: Embedder, texts: Sequence[str]) -> float:
    begun = time.perf_counter()
    await model.embed(texts)
    return len(texts) / (time.perf_counter() - begun)


async def _rankings(model: Embedder, texts: Mapping[str, str], queries: Sequence[str]) -> list[list[str]]:
    """The keys of the ten nearest texts of each query."""
    keys = list(texts)
    held = _matrix(await model.embed(list(texts.values())))
    asked = _matrix(await model.embed(queries, "query"))
    return [[keys[place] for place in np.argsort(-row, kind="stable")[:10]] for row in asked @ held.T]


async def _ndcg(model: Embedder, corpus: Corpus) -> float:
    ranked = await _rankings(model, corpus.texts, [query.text for query in corpus.queries])
    each = [scores(found, query.right)[0] for found, query in zip(ranked, corpus.queries, strict=True)]
    return statistics.mean(each)


async def _hits(model: Embedder, corpus: Corpus) -> tuple[float, float]:
    ranked = await _rankings(model, corpus.texts, [query.text for query in corpus.queries])
    found = [
        tuple(bool(query.right.intersection(keys[:depth])) for depth in (1, 5))
        for keys, query in zip(ranked, corpus.queries, strict=True)
    ]
    first, five = (statistics.mean(column) for column in zip(*found, strict=True))
    return first, five


async def _recall(model: Embedder, tools: ToolQuestions) -> tuple[float, float]:
    ranked = await _rankings(model, tools.texts, [text for text, _ in tools.queries])
    found = [
        tuple(statistics.mean(not group.isdisjoint(keys[:depth]) for group in gold) for depth in (1, 5))
        for keys, (_, gold) in zip(ranked, tools.queries, strict=True)
    ]
    first, five = (statistics.mean(column) for column in zip(*found, strict=True))
    return first, five


def _matrix(vectors: Sequence[bytes]) -> Matrix:
    return np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1)


def _peak(model: Embedder) -> float:
    """MB of the process at most so far; 0 where the platform does not say, or a server runs the model."""
    status = Path(f"/proc/{model.pid}/status") if isinstance(model, LocalEmbedder) else Path()
    if not status.is_file():
        return 0.0
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024 / 1e6


async def measured(
    names: Sequence[str], passages: Corpus | None, tools: ToolQuestions | None
) -> list[ModelFigures]:
    found = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="tabane-bench-") as kept:
            try:
                first = await opened(ModelChoice(name), kept)  # it may have to make a graph
                if isinstance(first, NoModel):
                    print(f"{name}: {first.reason}", file=sys.stderr)
                    continue
                await first.close()
                begun = time.perf_counter()
                model = await opened(ModelChoice(name), kept)
            except ModelError as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            assert not isinstance(model, NoModel)
            try:
                found.append(await figures(model, time.perf_counter() - begun, passages, tools))
            finally:
                await model.close()
    return found


_COMMAND = "python -m benchmarks.search.models"

_METHOD = """
- Each model alone, in the embedding process with {threads} threads and batches of 1,024 tokens. A query has
  7 words (median of 50); a second counts passages of the set, or notes of the tests where no set was named.
  Memory is the most that the process had resident before the quality was measured.
- Found by cosine alone, without words. nDCG@10: {passages}. Paraphrases: the questions in
  `tests/search/quality/paraphrases.json` (English; they share no word with their answers), the share with
  the right note first and among five. Tools: {tools}, the share of right tools first and among five, each
  as its name and description.
""".strip()


def page(found: Sequence[ModelFigures], passages: str, tools: str) -> list[str]:
    headers = (
        "model",
        "components",
        "start",
        "query",
        "passages/s",
        "memory",
        "nDCG@10",
        "paraphrases @1/@5",
    )
    rows = [
        (
            each.model,
            str(each.dimension),
            f"{each.start:.1f} s",
            f"{each.query * 1000:.1f} ms",
            f"{each.passages:.1f}",
            f"{each.memory:.0f} MB",
            _share(each.ndcg),
            _both(each.paraphrases),
            _both(each.tools),
        )
        for each in found
    ]
    method = _METHOD.format(threads=cores(), passages=passages, tools=tools)
    return ["## Embedding models", machine(_COMMAND), table((*headers, "tools @1/@5"), rows), method]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".removeprefix("0")


def _both(values: tuple[float, float] | None) -> str:
    return "–" if values is None else "/".join(f"{value:.2f}".removeprefix("0") for value in values)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.models")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--passages", type=Path)
    parser.add_argument("--tools", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    corpus = Corpus.read(options.passages) if options.passages else None
    tools = ToolQuestions.read(options.tools) if options.tools else None
    found = asyncio.run(measured(options.models, corpus, tools))
    names: list[Any] = [path.stem if path else "not measured" for path in (options.passages, options.tools)]
    publish("models", page(found, *names), write=options.write)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main(sys.argv[1:])
