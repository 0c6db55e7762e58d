"""Words, meaning, and both: ``python -m benchmarks.search.hybrid PATH [--model M] [--queries N]``.

``PATH`` is what :mod:`benchmarks.search.quality` reads. Asked are the collection itself and the model that is
found here; fusions are worked out from the same two rankings, and the one that ships is asked as it is. Each
is compared with the better of its two parts, query by query: the interval is the bootstrap's, 95 % of 10,000.
The last line counts the queries whose first ten are the same as if all 100 nearest were proven. Each is also
compared with words alone in this way: if what ships is below words by the whole interval, the status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from benchmarks.search.quality import Corpus, Query, scores
from msgspec import structs
from numpy.typing import NDArray

from tabane.engine.embedded.lexical.lexical_index import open_lexical
from tabane.engine.embedded.store import Store
from tabane.search.embedding.embedder import BYTES, Embedder, NoModel
from tabane.search.embedding.model_families import cosine_weight, family_of
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
from tabane.search.fusion import CosineWeight, Scale, convex, reciprocal_ranks
from tabane.search.pipeline import hybrid
from tabane.search.records import EVERYTHING, EmbeddingSpace, Filter, Record, Shape, TextField

DEEPEST = 200
SPACE = "text"
_SHIPPED = "as shipped"
_SAMPLES = 10_000
_BATCH = 500

Scores = Mapping[str, float]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rankings:
    """What both parts find for a query: key → score, best first.

    ``cosines`` are those of all that either found, ``ceiling`` is that of the words. ``shipped`` is what
    hybrid search answers, ``proven`` what it answers where every one of the nearest is proven to be that.
    """

    words: Scores
    meaning: Scores
    cosines: Scores
    ceiling: float
    shipped: Sequence[str]
    proven: Sequence[str]

    def cut(self, depth: int) -> Rankings:
        """The same, had nobody looked deeper."""
        words, meaning = (dict(list(each.items())[:depth]) for each in (self.words, self.meaning))
        cosines = {key: self.cosines[key] for key in {**meaning, **words}}
        return replace(self, words=words, meaning=meaning, cosines=cosines)


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


def ways(usual: float | None) -> dict[str, Way]:
    """Fusions by name. ``usual`` is the cosine that counts as nothing, where it was measured."""
    found: dict[str, Way] = {
        "words": lambda ranked: list(ranked.words),
        "meaning": lambda ranked: list(ranked.meaning),
        _SHIPPED: lambda ranked: ranked.shipped,
    }
    found |= {f"RRF k=60, depth {depth}": _by_ranks(60, depth) for depth in (10, 20, 50, 100, DEEPEST)}
    found |= {f"RRF k={k}, depth 100": _by_ranks(k, 100) for k in (10, 30)}
    for covered in (0.3, 0.4, 0.5, 0.6):
        for uncovered in (0.5, 0.7, 0.8, 0.9):
            known = CosineWeight(covered, uncovered)
            found[f"scaled, weight {covered} to {uncovered}"] = _by_coverage(known, Scale(usual, 1.0))
    for weight in (0.5, 0.6, 0.7, 0.8):
        found[f"convex {weight}, min-max of each"] = _plain(weight)
        for low in dict.fromkeys((None, -1.0, usual)):
            name = "their worst" if low is None else f"{low:g}"
            found[f"convex {weight}, cosines {name} to best"] = scaled(weight, Scale(low))
            found[f"convex {weight}, cosines {name} to 1, words to ceiling"] = scaled(weight, Scale(low, 1.0))
    return found


def _by_ranks(k: int, depth: int) -> Way:
    def fused(ranked: Rankings) -> list[str]:
        cut = ranked.cut(depth)
        return [key for key, _ in reciprocal_ranks([list(cut.meaning), list(cut.words)], k)]

    return fused


def _plain(weight: float) -> Way:
    def fused(ranked: Rankings) -> list[str]:
        cut = ranked.cut(100)
        return [key for key, _ in convex([cut.meaning, cut.words], [weight, 1 - weight])]

    return fused


def _by_coverage(weight: CosineWeight, scale: Scale) -> Way:
    def fused(ranked: Rankings) -> list[str]:
        best = max(ranked.words.values(), default=0.0)
        return list(scaled(weight.at(best / ranked.ceiling if ranked.ceiling else 0.0), scale)(ranked))

    return fused


def scaled(weight: float, scale: Scale) -> Way:
    """Convex over all that either found, with all their cosines on that scale, and BM25 from nothing.

    Where the scale says what the most is, BM25 has its ceiling for that.
    """

    def fused(ranked: Rankings) -> list[str]:
        cut = ranked.cut(100)
        words = Scale(0.0, None if scale.most is None else ranked.ceiling)
        fusion = convex([cut.cosines, cut.words], [weight, 1 - weight], [scale, words])
        return [key for key, _ in fusion]

    return fused


async def opened(wanted: ModelChoice, kept: str) -> Embedder | NoModel:
    """The model, of what is on this machine: nothing is fetched."""
    place = replace(hub_place(os.environ), offline=True)
    found = await ModelFinder(ModelHub(place), kept).find(wanted)
    return found if isinstance(found, NoModel) else await found.open(os.environ)


async def rankings(corpus: Corpus, model: Embedder, folder: str) -> dict[str, Rankings]:
    """What is found for each query, by its name."""
    store = await Store.open(folder, "quality", lexical=open_lexical)
    try:
        collection = await store.collection(
            Shape("texts", (TextField("text"),), (), (EmbeddingSpace(SPACE, model.dimension),))
        )
        keys = list(corpus.texts)
        for first in range(0, len(keys), _BATCH):
            part = keys[first : first + _BATCH]
            vectors = await model.embed([corpus.texts[key] for key in part])
            await collection.upsert(
                [
                    Record(key=key, texts={"text": corpus.texts[key]}, vectors={SPACE: vector})
                    for key, vector in zip(part, vectors, strict=True)
                ]
            )
        asked = await model.embed([query.text for query in corpus.queries], "query")
        family = family_of(model.fingerprint)
        usual = family.baseline.usual if family and family.baseline else None
        return {
            query.name: await _ranked(
                collection, query, vector, usual, cosine_weight([model.fingerprint], query.text)
            )
            for query, vector in zip(corpus.queries, asked, strict=True)
        }
    finally:
        await store.close()


async def _ranked(
    collection: Collection, query: Query, vector: bytes, usual: float | None, weight: CosineWeight
) -> Rankings:
    words, meaning = LexicalQuery(query.text), VectorQuery({SPACE: vector})
    lexical = await collection.search(words, EVERYTHING, DEEPEST)
    nearest = await collection.nearest(meaning, EVERYTHING, DEEPEST)
    keys = list(dict.fromkeys(hit.key for hit in (*nearest.hits, *lexical.hits)))
    cosines = await collection.similarities(meaning, keys)
    shipped = await hybrid(collection, words, meaning, EVERYTHING, 10, usual=usual, weight=weight)
    proving = cast(Collection, _Proving(collection))
    proven = await hybrid(proving, words, meaning, EVERYTHING, 10, usual=usual, weight=weight)
    return Rankings(
        {hit.key: hit.score for hit in lexical.hits},
        {hit.key: hit.score for hit in nearest.hits},
        {key: cosine for key, cosine in zip(keys, cosines, strict=True) if cosine is not None},
        lexical.ceiling,
        [hit.key for hit in shipped.hits],
        [hit.key for hit in proven.hits],
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


async def measured(path: Path, wanted: ModelChoice, most: int, seed: int) -> tuple[str, bool]:
    """Return what to print, and whether what ships is no worse than words."""
    corpus = Corpus.read(path)
    if len(corpus.queries) > most:
        corpus = replace(corpus, queries=tuple(random.Random(seed).sample(corpus.queries, most)))
    with tempfile.TemporaryDirectory(prefix="tabane-bench-") as folder:
        model = await opened(wanted, folder)
        if isinstance(model, NoModel):
            return str(model.reason), False
        try:
            found = await rankings(corpus, model, folder)
        finally:
            await model.close()
    family = family_of(model.fingerprint)
    usual = family.baseline.usual if family and family.baseline else None
    return _told(corpus, found, f"{model.fingerprint}, {model.dimension * BYTES} bytes", ways(usual))


def _told(
    corpus: Corpus, found: Mapping[str, Rankings], model: str, ways: Mapping[str, Way]
) -> tuple[str, bool]:
    by_way = {name: judged(found, corpus.queries, way) for name, way in ways.items()}
    best = max((by_way["words"], by_way["meaning"]), key=np.mean)
    lines = [f"{len(corpus.texts):,} texts, {len(corpus.queries)} queries, {model}"]
    for name, each in by_way.items():
        low, high = interval(each, best)
        lowest, highest = interval(each, by_way["words"])
        first, five = (_hits(found, corpus.queries, ways[name], depth) for depth in (1, 5))
        lines.append(
            f"{name:54} {each.mean():.4f}  {each.mean() - best.mean():+.4f} {low:+.4f} to {high:+.4f}"
            f"  against words {(each - by_way['words']).mean():+.4f} {lowest:+.4f} to {highest:+.4f}"
            f"  hit@1 {first:.2f}  @5 {five:.2f}"
        )
    same = sum(each.shipped == each.proven for each in found.values())
    lines.append(f"the same first ten as with all of the nearest proven: {same} of {len(found)}")
    _, highest = interval(by_way[_SHIPPED], by_way["words"])
    if highest < 0:
        lines.append("what ships is below words on this set")
    return "\n".join(lines), highest >= 0


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.hybrid")
    parser.add_argument("path", type=Path)
    parser.add_argument("--model", default="auto")
    parser.add_argument("--quantisation", default="none", choices=("none", "int8"))
    parser.add_argument("--queries", type=int, default=600, help="at most so many, chosen by --seed")
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args(arguments)
    wanted = ModelChoice(options.model, quantisation=options.quantisation)
    told, passed = asyncio.run(measured(options.path, wanted, options.queries, options.seed))
    print(told)
    if not passed:
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
