"""Start, memory, queries and texts a second of the default model.

``python -m benchmarks.search.universal_encoder --texts FILE``. Texts are pieces of the file's ``docs`` (JSON,
gzipped: paragraphs of JaQuAD), as long as posts (60 characters) and as passages (360).
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.search.embedding import _peak, _queries

from tabane.search.embedding.model_files import HubPlace
from tabane.search.embedding.model_finder import FoundModel, ModelChoice, ModelFinder
from tabane.search.embedding.model_hub import ModelHub
from tabane.search.embedding.process import LocalEmbedder, ModelProcess
from tabane.search.embedding.universal_encoder import MODEL

_KINDS = {"posts": (60, 2000), "passages": (360, 400)}


def texts_of(docs: Sequence[str], length: int, most: int) -> list[str]:
    """Pieces of ``length`` characters."""
    whole = "".join(docs)
    return [whole[start : start + length] for start in range(0, min(len(whole), most * length), length)]


async def _opened(found: FoundModel) -> tuple[LocalEmbedder, ModelProcess, float]:
    assert found.spec is not None
    begun = time.perf_counter()
    process = ModelProcess(found.spec, os.environ)
    embedder = await LocalEmbedder.open(found.recipe, process)
    await embedder.embed(["a"], "query")
    return embedder, process, time.perf_counter() - begun


async def measure(docs: Sequence[str], threads: int) -> None:
    """Print the rows of a table."""
    with tempfile.TemporaryDirectory(prefix="tabane-bench-") as kept:
        finder = ModelFinder(ModelHub(HubPlace(kept, offline=True)), kept)
        begun = time.perf_counter()
        found = await finder.find(ModelChoice(MODEL, threads=threads))
        assert isinstance(found, FoundModel)
        rows = [("found, ms", f"{(time.perf_counter() - begun) * 1000:.1f}")]
        for name in ("first start, s", "next start, s"):
            embedder, process, seconds = await _opened(found)
            rows.append((name, f"{seconds:.2f}"))
            rows.append((f"memory after the {name.partition(',')[0]}, MB", f"{_peak(process):.0f}"))
            await asyncio.sleep(2)  # it writes what it keeps
            if name.startswith("first"):
                await embedder.close()
        rows.append(("query, median ms", f"{statistics.median(await _queries(embedder)) * 1000:.1f}"))
        for kind, (length, most) in _KINDS.items():
            texts = texts_of(docs, length, most)
            begun = time.perf_counter()
            await embedder.embed(texts)
            rows.append((f"{kind} a second", f"{len(texts) / (time.perf_counter() - begun):.0f}"))
        rows.append(("memory at most, MB", f"{_peak(process):.0f}"))
        await embedder.close()
    print(f"| {MODEL}, {threads or 'all'} threads | |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value} |")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.universal_encoder")
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    docs = json.loads(gzip.decompress(options.texts.read_bytes()))["docs"]
    asyncio.run(measure(docs, options.threads))


if __name__ == "__main__":
    main()
