"""What a model's cosine is worth: ``python -m benchmarks.search.strangers PATH PATH… [--model M]``.

``PATH``: collections about different things, as :mod:`benchmarks.search.quality` reads them. The questions of
each are compared with the texts of each: of its own, without those that answer it, and of the others, which
have nothing to do with it. :class:`tabane.search.embedding.model_families.CosineBaseline` takes ``usual``
from the first (median) and ``threshold`` from the second (99th percentile), over all pairs of collections.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.search.hybrid import opened
from benchmarks.search.quality import Corpus
from numpy.typing import NDArray

from tabane.search.embedding.embedder import Embedder, NoModel
from tabane.search.embedding.model_finder import ModelChoice

_QUANTILES = (0.5, 0.95, 0.99, 0.999)

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Embedded:
    """A collection as vectors. ``right``: questions × texts, whether one answers the other."""

    name: str
    questions: Matrix
    texts: Matrix
    right: NDArray[np.bool_]


async def embedded(path: Path, model: Embedder, most: int) -> Embedded:
    """At most so many questions and texts, the same each time; of each question the answers are there."""
    corpus, dice = Corpus.read(path), random.Random(1)
    queries = dice.sample(corpus.queries, min(most, len(corpus.queries)))
    answers = {key for query in queries for key in query.right if key in corpus.texts}
    others = sorted(corpus.texts.keys() - answers)
    keys = [*sorted(answers), *dice.sample(others, min(len(others), max(most - len(answers), 0)))]
    right = np.array([[key in query.right for key in keys] for query in queries])
    questions = await model.embed([query.text for query in queries], "query")
    texts = await model.embed([corpus.texts[key] for key in keys])
    return Embedded(path.stem, _matrix(questions), _matrix(texts), right)


def told(collections: Sequence[Embedded]) -> str:
    """A line for each pair of collections, then what a threshold would cost."""
    lines, strange, usual = [], [], []
    for asked in collections:
        for held in collections:
            cosines = asked.questions @ held.texts.T
            own = asked is held
            each = cosines[~asked.right] if own else cosines.ravel()
            (usual if own else strange).append(each)
            found = " ".join(f"{value:.3f}" for value in np.quantile(each, _QUANTILES))
            lines.append(f"{asked.name} × {held.name}: {found}")
    middle = float(np.median([np.median(each) for each in usual]))
    threshold = float(np.median([np.quantile(each, 0.99) for each in strange]))
    lines.append(f"usual {middle:.3f}, threshold {threshold:.3f} (medians over the pairs)")
    for each in collections:
        best = np.where(each.right, each.questions @ each.texts.T, -1.0).max(axis=1)
        lines.append(f"{each.name}: {(best < threshold).mean():.1%} of the questions have no answer above it")
    return "\n".join([f"quantiles {', '.join(map(str, _QUANTILES))}", *lines])


def _matrix(vectors: Sequence[bytes]) -> Matrix:
    return np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1)


async def measured(paths: Sequence[Path], wanted: ModelChoice, most: int) -> str:
    with tempfile.TemporaryDirectory(prefix="tabane-bench-") as kept:
        model = await opened(wanted, kept)
        if isinstance(model, NoModel):
            return str(model.reason)
        try:
            found = [await embedded(path, model, most) for path in paths]
        finally:
            await model.close()
    return f"{model.fingerprint}\n{told(found)}"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.strangers")
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--model", default="auto")
    parser.add_argument("--most", type=int, default=500)
    options = parser.parse_args(arguments)
    if len(options.paths) < 2:
        parser.error("two collections or more are needed, about different things")
    print(asyncio.run(measured(options.paths, ModelChoice(options.model), options.most)))


if __name__ == "__main__":
    main(sys.argv[1:])
