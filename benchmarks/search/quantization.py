"""Quality of a model in int8 against float32: ``python -m benchmarks.search.quantization MODEL [options]``.

``--tools`` and ``--passages`` name sets as in :mod:`benchmarks.search.models`; ``--docstrings COUNT`` makes
one of the packages of this environment: the first paragraph of a docstring has to find the rest. Found by
cosine alone. Printed for each set: nDCG@10 and its difference to float32 for queries and texts in int8, and
for one side in int8 only, as if vectors of a home were mixed. The interval is the bootstrap's, of 2,000.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from benchmarks.search.hybrid import opened
from benchmarks.search.models import Matrix, ToolQuestions
from benchmarks.search.quality import Corpus, Query, scores
from numpy.typing import NDArray

from tabane.search.embedding.embedder import Embedder, NoModel
from tabane.search.embedding.model_files import Quantization
from tabane.search.embedding.model_finder import ModelChoice
from tabane.search.embedding.model_packages import model_id

PRECISIONS: tuple[Quantization, ...] = ("none", "int8")
_RESAMPLES = 2_000
_EACH = 6  # docstrings of a file at most, so that no package is most of the set
_FEWEST, _MOST = 5, 25  # words of a query


def of_tools(path: Path) -> Corpus:
    """The tools and questions of a set. All tools of all groups are right."""
    whole = ToolQuestions.read(path)
    queries = [
        Query(str(place), text, frozenset[str]().union(*gold))
        for place, (text, gold) in enumerate(whole.queries)
    ]
    return Corpus(whole.texts, tuple(queries))


def of_docstrings(count: int) -> Corpus:
    texts: dict[str, str] = {}
    queries: dict[str, Query] = {}
    for first, rest in _docstrings(Path(np.__file__).parents[1]):
        if first not in queries and len(texts) < count:
            key = str(len(texts))
            texts[key], queries[first] = rest, Query(key, first, frozenset([key]))
    return Corpus(texts, tuple(queries.values()))


def _docstrings(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*.py"), key=lambda path: path.name):
        try:
            tree = ast.parse(path.read_text("utf-8"))
        except (SyntaxError, ValueError):
            continue
        own = 0
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) or own == _EACH:
                continue
            first, _, rest = (ast.get_docstring(node) or "").partition("\n\n")
            if first.isascii() and _FEWEST <= len(first.split()) <= _MOST and len(rest) > 150:
                own += 1
                yield " ".join(first.split()), " ".join(rest.split())[:1_200]


async def compare(name: str, corpus: Corpus, models: dict[Quantization, Embedder]) -> None:
    texts = {each: _matrix(await model.embed(list(corpus.texts.values()))) for each, model in models.items()}
    asked = [query.text for query in corpus.queries]
    queries = {each: _matrix(await model.embed(asked, "query")) for each, model in models.items()}
    print(f"{name}: {len(corpus.texts):,} texts, {len(asked):,} queries; cosine of the texts ", end="")
    print(f"{float((texts['none'] * texts['int8']).sum(axis=1).mean()):.4f}")
    print("| queries | texts | nDCG@10 | difference | 95 % |\n|---|---|---|---|---|")
    usual = _gains(corpus, queries["none"], texts["none"])
    for of_queries in PRECISIONS:
        for of_texts in PRECISIONS:
            found = _gains(corpus, queries[of_queries], texts[of_texts])
            low, high = _interval(found - usual)
            row = f"{of_queries} | {of_texts} | {found.mean():.4f} | {(found - usual).mean():+.4f}"
            print(f"| {row} | {low:+.4f} to {high:+.4f} |", flush=True)


def _gains(corpus: Corpus, queries: Matrix, texts: Matrix) -> NDArray[np.float64]:
    keys = list(corpus.texts)
    ranked = np.argsort(-(queries @ texts.T), axis=1, kind="stable")[:, :10]
    return np.array(
        [
            scores([keys[place] for place in row], query.right)[0]
            for row, query in zip(ranked, corpus.queries, strict=True)
        ]
    )


def _interval(differences: NDArray[np.float64]) -> tuple[float, float]:
    dice = np.random.default_rng(1)
    means = [dice.choice(differences, len(differences)).mean() for _ in range(_RESAMPLES)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def _matrix(vectors: Sequence[bytes]) -> Matrix:
    return np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1)


async def measure(model: str, sets: dict[str, Corpus]) -> None:
    with tempfile.TemporaryDirectory(prefix="tabane-bench-") as kept:
        models: dict[Quantization, Embedder] = {}
        try:
            for each in PRECISIONS:
                found = await opened(ModelChoice(model_id(model), quantisation=each), kept)
                if isinstance(found, NoModel):
                    raise SystemExit(found.reason.render("en"))
                models[each] = found
            for name, corpus in sets.items():
                await compare(name, corpus, models)
        finally:
            for embedder in models.values():
                await embedder.close()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.quantization")
    parser.add_argument("model")
    parser.add_argument("--tools", type=Path, action="append", default=[])
    parser.add_argument("--passages", type=Path, action="append", default=[])
    parser.add_argument("--docstrings", type=int, default=0, metavar="COUNT")
    options = parser.parse_args(arguments)
    sets = {path.stem: of_tools(path) for path in options.tools}
    sets |= {path.stem: Corpus.read(path) for path in options.passages}
    if options.docstrings:
        sets["docstrings"] = of_docstrings(options.docstrings)
    asyncio.run(measure(options.model, sets))


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main(sys.argv[1:])
