"""How well documents are found: ``python -m benchmarks.documents.quality PATH [--model M] [--queries N]``.

``PATH`` is what :mod:`benchmarks.search.quality` reads. Each text is put as a document and each query asked
of a hub, as a client does it; beside it stands what the engine alone finds by words.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.documents.asking import client_of, filled, good
from benchmarks.posts.archive_hub import ArchiveHub
from benchmarks.report import table
from benchmarks.search import quality
from benchmarks.search.quality import DEPTH, Corpus, Quality, Query

_MODES = ("lexical", "hybrid", "vector")
_TOGETHER = 100  # documents of one put_documents
_UNDER = "texts/"  # what the names of the documents begin with


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.documents.quality")
    parser.add_argument("path", type=Path)
    parser.add_argument("--model", default="none")
    parser.add_argument("--queries", type=int)
    options = parser.parse_args(arguments)
    corpus = Corpus.read(options.path)
    queries = corpus.queries[: options.queries]
    alone, _ = quality.measured(Corpus(corpus.texts, queries), words=True)
    found = {"the engine alone, by words": alone} | measured(corpus, queries, options.model)
    print(f"{len(corpus.texts):,} texts, {len(queries):,} queries, model {options.model}")
    rows = [(name, f"{q.ndcg:.4f}", f"{q.recall:.4f}", f"{q.mrr:.4f}") for name, q in found.items()]
    print(table(("", "nDCG@10", "recall@10", "MRR"), rows))


def measured(corpus: Corpus, queries: Sequence[Query], model: str) -> dict[str, Quality]:
    """The quality of documents by mode; by words alone where there is no model."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        hub = ArchiveHub(Path(folder), model, "")
        hub.start()
        try:
            asyncio.run(filled(hub, _batches(corpus.texts)))
            modes = _MODES[:1] if model == "none" else _MODES
            found = {mode: asyncio.run(_answers(hub, queries, mode)) for mode in modes}
        finally:
            hub.stop()
    return {f"search_documents, {mode}": Quality.of(each, queries) for mode, each in found.items()}


def _batches(texts: Mapping[str, str]) -> Iterator[list[dict[str, Any]]]:
    documents = ({"filepath": _UNDER + key, "text": text} for key, text in texts.items())
    while batch := list(islice(documents, _TOGETHER)):
        yield batch


async def _answers(hub: ArchiveHub, queries: Sequence[Query], mode: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    async with client_of(hub) as client:
        for query in queries:
            asked = {"query": query.text, "top_k": DEPTH, "mode": mode, "include_documents": False}
            answer = await good(client, "search_documents", asked)
            found[query.name] = [each["filepath"].removeprefix(_UNDER) for each in answer["results"]]
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
