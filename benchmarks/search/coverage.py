"""Search while only some texts have a vector: ``python -m benchmarks.search.coverage PATH [--queries N]``.

``PATH`` is what :mod:`benchmarks.search.quality` reads, the model the one that is found here. For each share
of texts with a vector, chosen at random or the newest ones, prints the mean nDCG@10 of words alone and of
each fusion.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import table
from benchmarks.search.hybrid import SPACE, opened
from benchmarks.search.quality import Corpus, scores

from tabane.engine.embedded.collection import StoredCollection
from tabane.engine.embedded.lexical.lexical_index import open_lexical
from tabane.engine.embedded.store import Store
from tabane.search.embedding.embedder import Embedder, NoModel
from tabane.search.embedding.model_families import family_of
from tabane.search.embedding.model_finder import ModelChoice
from tabane.search.engine import LexicalQuery, VectorQuery
from tabane.search.filters import EVERYTHING
from tabane.search.hybrid import Fusion, hybrid
from tabane.search.records import EmbeddingSpace, Record, Shape, TextField

SHARES = (0.01, 0.05, 0.2, 0.35, 0.5, 0.8, 1.0)
FUSIONS: tuple[Fusion, ...] = ("partial", "scaled", "rrf")
_BATCH = 500
_SEED = 1


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.coverage")
    parser.add_argument("path", type=Path)
    parser.add_argument("--model", default="auto")
    parser.add_argument("--queries", type=int, default=500)
    options = parser.parse_args(arguments)
    print(asyncio.run(_page(Corpus.read(options.path), options.model, options.queries)))


async def _page(corpus: Corpus, name: str, queries: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        model = await opened(ModelChoice(name), str(Path(folder) / "graphs"))
        if isinstance(model, NoModel):
            sys.exit(model.reason.render("en"))
        try:
            keys = list(corpus.texts)
            vectors = dict(zip(keys, await model.embed([corpus.texts[key] for key in keys]), strict=True))
            rows = []
            for kind in ("random", "newest"):
                order = keys[::-1]
                if kind == "random":
                    random.Random(_SEED).shuffle(order)
                for share in SHARES:
                    chosen = order[: int(share * len(order))]
                    with tempfile.TemporaryDirectory(dir=folder) as place:
                        some = {key: vectors[key] for key in chosen}
                        found = await _quality(corpus, model, some, queries, place)
                    rows.append([f"{share:.0%} {kind}", *(f"{each:.3f}" for each in found)])
        finally:
            await model.close()
    return table(["texts with a vector", "words", *FUSIONS], rows)


async def _quality(
    corpus: Corpus, model: Embedder, vectors: dict[str, bytes], queries: int, folder: str
) -> list[float]:
    """Return nDCG@10 of words alone and of each fusion."""
    store = await Store.open(folder, "coverage", lexical=open_lexical)
    try:
        shape = Shape("texts", (TextField("text"),), (), (EmbeddingSpace(SPACE, model.dimension),))
        collection = await store.collection(shape)
        records = [
            Record(key=key, texts={"text": text}, vectors={SPACE: vectors[key]} if key in vectors else {})
            for key, text in corpus.texts.items()
        ]
        for first in range(0, len(records), _BATCH):
            await collection.upsert(records[first : first + _BATCH])
        return await _asked(corpus, model, collection, queries)
    finally:
        await store.close()


async def _asked(corpus: Corpus, model: Embedder, collection: StoredCollection, queries: int) -> list[float]:
    asked = corpus.queries[:queries]
    meant = await model.embed([query.text for query in asked], "query")
    family = family_of(model.fingerprint)
    baseline = family.baseline if family else None
    sums = [0.0] * (1 + len(FUSIONS))
    for query, vector in zip(asked, meant, strict=True):
        words = LexicalQuery(query.text)
        threshold = baseline.threshold if baseline else None
        meaning = VectorQuery({SPACE: vector}, threshold=threshold)
        usual = baseline.usual if baseline else None
        found = [await hybrid(collection, words, None, EVERYTHING, 10)]
        found += [
            await hybrid(collection, words, meaning, EVERYTHING, 10, fusion=fusion, usual=usual)
            for fusion in FUSIONS
        ]
        for place, ranking in enumerate(found):
            sums[place] += scores([hit.key for hit in ranking.hits], query.right)[0]
    return [each / len(asked) for each in sums]


if __name__ == "__main__":
    os.nice(10)
    main(sys.argv[1:])
