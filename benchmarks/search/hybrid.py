"""Words, meaning, and both: ``python -m benchmarks.search.hybrid PATH [--among PATH…] [--sizes N…]``.

``PATH`` is what :mod:`benchmarks.search.quality` reads. The texts of ``--among`` are put between its own, so
that the archive grows to each of ``--sizes`` while the questions stay the same. With ``--embedded 0.5``, half
of the texts have no vector yet. Asked are the collection itself and the model that is found here.

A line for each size and each way to search: nDCG@10, what is more than words alone, and more than meaning
alone, query by query. The intervals are the bootstrap's, 95 % of 10,000. The last line counts the queries
whose first ten are the same as if all 100 nearest were proven. The status is 1 if what ships is below words
by a whole interval.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from benchmarks.search.quality import Corpus, Query, scores
from msgspec import structs
from numpy.typing import NDArray

from tabane.engine.embedded.lexical.lexical_index import open_lexical
from tabane.engine.embedded.store import Store
from tabane.search.embedding.embedder import Embedder, NoModel
from tabane.search.embedding.model_families import CosineBaseline, family_of
from tabane.search.embedding.model_files import hub_place
from tabane.search.embedding.model_finder import ModelChoice, ModelFinder
from tabane.search.embedding.model_hub import ModelHub
from tabane.search.engine import (
    Collection,
    EngineHits,
    JoinedRecords,
    LexicalQuery,
    NearestRequest,
    VectorQuery,
)
from tabane.search.pipeline import hybrid
from tabane.search.records import EVERYTHING, EmbeddingSpace, Filter, Record, Shape, TextField

DEEPEST = 200
SPACE = "text"
_SAMPLES = 10_000
_BATCH = 500

Scores = Mapping[str, float]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rankings:
    """What both parts find for a query: key → score, best first.

    ``shipped`` is what hybrid search answers, ``proven`` what it answers where every one of the nearest is
    proven to be that. ``embedded`` are the right texts with a vector.
    """

    words: Scores
    meaning: Scores
    shipped: Sequence[str]
    proven: Sequence[str]
    embedded: frozenset[str]


class _Proving:
    """A collection that proves all of the nearest, whatever is asked for."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    async def nearest(self, query: VectorQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        return await self._collection.nearest(structs.replace(query, proven=None), where, limit, offset)

    async def together(
        self,
        work: Callable[[JoinedRecords], Coroutine[Any, Any, T]],
        *,
        long: bool = False,
        first: NearestRequest | None = None,
    ) -> T:
        return await work(cast(JoinedRecords, self))


Way = Callable[[Rankings], Sequence[str]]

WAYS: Mapping[str, Way] = {
    "words": lambda ranked: list(ranked.words),
    "meaning": lambda ranked: list(ranked.meaning),
    "both": lambda ranked: ranked.shipped,
}


def among(corpus: Corpus, others: Sequence[Corpus], size: int, seed: int = 5) -> Corpus:
    """Return the corpus with texts of others up to that number of texts, the same each time.

    Those of a smaller size are part of a larger one. Raises ValueError if there are too few texts.
    """
    fill = [
        (f"{place}/{key}", text) for place, other in enumerate(others) for key, text in other.texts.items()
    ]
    random.Random(seed).shuffle(fill)
    lacking = size - len(corpus.texts)
    if lacking > len(fill):
        raise ValueError(f"there are only {len(corpus.texts) + len(fill):,} texts")
    return replace(corpus, texts={**corpus.texts, **dict(fill[: max(lacking, 0)])})


async def opened(wanted: ModelChoice, kept: str) -> Embedder | NoModel:
    """The model, of what is on this machine: nothing is fetched."""
    place = replace(hub_place(os.environ), offline=True)
    found = await ModelFinder(ModelHub(place), kept).find(wanted)
    return found if isinstance(found, NoModel) else await found.open(os.environ)


async def rankings(
    corpus: Corpus, model: Embedder, folder: str, embedded: float = 1.0
) -> dict[str, Rankings]:
    """Return the rankings of each query by its name. ``embedded``: the share of texts that have a vector."""
    store = await Store.open(folder, "quality", lexical=open_lexical)
    try:
        collection = await store.collection(
            Shape("texts", (TextField("text"),), (), (EmbeddingSpace(SPACE, model.dimension),))
        )
        keys = list(corpus.texts)
        chance = random.Random(5)
        for first in range(0, len(keys), _BATCH):
            part = keys[first : first + _BATCH]
            vectors = await model.embed([corpus.texts[key] for key in part])
            await collection.upsert(
                [
                    Record(
                        key=key,
                        texts={"text": corpus.texts[key]},
                        vectors={SPACE: vector} if chance.random() < embedded else {},
                    )
                    for key, vector in zip(part, vectors, strict=True)
                ]
            )
        asked = await model.embed([query.text for query in corpus.queries], "query")
        family = family_of(model.fingerprint)
        baseline = None if family is None else family.baseline
        return {
            query.name: await _ranked(collection, query, vector, baseline)
            for query, vector in zip(corpus.queries, asked, strict=True)
        }
    finally:
        await store.close()


async def _ranked(
    collection: Collection, query: Query, vector: bytes, baseline: CosineBaseline | None
) -> Rankings:
    right = sorted(query.right)
    near = await collection.similarities(VectorQuery({SPACE: vector}), right)
    usual, noise = (baseline.usual, baseline.threshold) if baseline else (None, None)
    words, meaning = LexicalQuery(query.text), VectorQuery({SPACE: vector}, threshold=noise)
    lexical = await collection.search(words, EVERYTHING, DEEPEST)
    nearest = await collection.nearest(meaning, EVERYTHING, DEEPEST)
    shipped = await hybrid(collection, words, meaning, EVERYTHING, 10, usual=usual)
    proven = await hybrid(cast(Collection, _Proving(collection)), words, meaning, EVERYTHING, 10, usual=usual)
    return Rankings(
        {hit.key: hit.score for hit in lexical.hits},
        {hit.key: hit.score for hit in nearest.hits},
        [hit.key for hit in shipped.hits],
        [hit.key for hit in proven.hits],
        frozenset(key for key, cosine in zip(right, near, strict=True) if cosine is not None),
    )


def judged(found: Mapping[str, Rankings], queries: Sequence[Query], way: Way) -> NDArray[np.float64]:
    """nDCG@10 of each query."""
    return np.array([scores(way(found[query.name]), query.right)[0] for query in queries])


def _hits(found: Mapping[str, Rankings], queries: Sequence[Query], way: Way, depth: int) -> float:
    """Return the share of queries with a right text among the first ones."""
    met = (bool(set(way(found[query.name])[:depth]) & query.right) for query in queries)
    return sum(met) / len(queries)


def interval(better: NDArray[np.float64], than: NDArray[np.float64]) -> tuple[float, float]:
    """Between what the mean difference lies in 95 of 100 samples of the queries, the same each time."""
    differences = better - than
    chance = np.random.default_rng(1)
    means = [
        differences[chance.integers(0, len(differences), len(differences))].mean() for _ in range(_SAMPLES)
    ]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


async def measured(
    corpus: Corpus, others: Sequence[Corpus], sizes: Sequence[int], wanted: ModelChoice, embedded: float
) -> AsyncIterator[tuple[str, bool]]:
    """Yield the report of each size, and whether what ships is not below words."""
    with tempfile.TemporaryDirectory(prefix="tabane-bench-") as folder:
        model = await opened(wanted, folder)
        if isinstance(model, NoModel):
            yield str(model.reason), False
            return
        try:
            for size in sizes or [len(corpus.texts)]:
                grown = among(corpus, others, size)
                found = await rankings(grown, model, f"{folder}/{size}", embedded)
                yield told(grown, found, model.fingerprint)
        finally:
            await model.close()


def told(corpus: Corpus, found: Mapping[str, Rankings], model: str) -> tuple[str, bool]:
    by_way = {name: judged(found, corpus.queries, way) for name, way in WAYS.items()}
    lines = [f"{len(corpus.texts):,} texts, {len(corpus.queries)} queries, {model}"]
    for name, each in by_way.items():
        more = []
        for other in ("words", "meaning"):
            low, high = interval(each, by_way[other])
            more.append(f"- {other} {(each - by_way[other]).mean():+.4f} ({low:+.4f} to {high:+.4f})")
        first, five = (_hits(found, corpus.queries, WAYS[name], depth) for depth in (1, 5))
        lines.append(f"{name:8} {each.mean():.4f}  hit@1 {first:.2f}  @5 {five:.2f}  {'  '.join(more)}")
    same = sum(each.shipped == each.proven for each in found.values())
    lines.append(f"the same first ten as with all of the nearest proven: {same} of {len(found)}")
    _, highest = interval(by_way["both"], by_way["words"])
    if highest < 0:
        lines.append("what ships is below words on this set")
    return "\n".join(lines), highest >= 0


async def _print(options: argparse.Namespace) -> bool:
    """Print the report of each size; return whether what ships is never below words."""
    corpus = Corpus.read(options.path)
    if len(corpus.queries) > options.queries:
        chosen = random.Random(options.seed).sample(corpus.queries, options.queries)
        corpus = replace(corpus, queries=tuple(chosen))
    others = [Corpus.read(path) for path in options.among]
    wanted = ModelChoice(options.model, quantisation=options.quantisation)
    passed = True
    async for report, good in measured(corpus, others, options.sizes, wanted, options.embedded):
        print(report, flush=True)
        passed &= good
    return passed


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.hybrid")
    parser.add_argument("path", type=Path)
    parser.add_argument("--among", type=Path, nargs="*", default=[], help="texts to grow the archive with")
    parser.add_argument("--sizes", type=int, nargs="*", default=[], help="numbers of texts: 1451 30000")
    parser.add_argument("--embedded", type=float, default=1.0, help="share of texts with a vector, 0 to 1")
    parser.add_argument("--model", default="auto")
    parser.add_argument("--quantisation", default="none", choices=("none", "int8"))
    parser.add_argument("--queries", type=int, default=600, help="at most so many, chosen by --seed")
    parser.add_argument("--seed", type=int, default=5)
    if not asyncio.run(_print(parser.parse_args(arguments))):
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
