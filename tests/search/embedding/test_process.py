"""The embedding process: a real one, killed where it hurts."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil
import pytest

from tabane.errors import ModelError, ModelMissing, ModelUnavailable
from tabane.search.embedding.model_files import Recipe
from tabane.search.embedding.process import PROGRAM, LocalEmbedder, ModelProcess
from tabane.search.embedding.process_requests import EmbeddingRequest, ModelSpec
from tabane.workers.frames import ANSWER, answer_head, request
from tests.harness.patience import LONG
from tests.search.embedding import tiny

RECIPE = Recipe("tiny/model", query="the ", topic="cat ")
LIMIT = LONG
SILENCE = 20.0
"""Seconds that the test waits; a process that starts must say something within them."""


def _spec(folder: Path, **more: Any) -> ModelSpec:
    if not (folder / "config.json").exists():
        tiny.make(folder)
    return ModelSpec(
        "weights", str(folder), "model.safetensors", max_tokens=16, kept=str(folder / "kept"), **more
    )


@asynccontextmanager
async def open_embedder(spec: ModelSpec, **more: Any) -> AsyncIterator[tuple[LocalEmbedder, ModelProcess]]:
    process = ModelProcess(spec, os.environ, **more)
    embedder = LocalEmbedder(RECIPE, process, await process.dimension())
    try:
        yield embedder, process
    finally:
        await embedder.close()


def _texts(count: int) -> list[str]:
    return [
        " ".join(tiny.WORDS[(number * 7 + word) % 15] for word in range(number % 12))
        for number in range(count)
    ]


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - it may be about another process
        await asyncio.sleep(0.002)


@pytest.mark.heavy("a real embedding model")
@pytest.mark.parametrize("threads", [1, 2])  # with several, two batches run at the same time
async def test_texts_come_back_as_vectors_in_their_order(tmp_path: Path, threads: int) -> None:
    async with open_embedder(_spec(tmp_path, budget=64, threads=threads)) as (embedder, _):
        texts = _texts(700)
        found = tiny.floats(await embedder.embed(texts))
        assert found.shape == (700, 24)
        assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 1e-6
        alone = tiny.floats([(await embedder.embed([texts[place]]))[0] for place in (3, 200, 699)])
        assert np.abs(found[[3, 200, 699]] - alone).max() < 2e-6
        assert await embedder.embed([]) == []


async def test_each_kind_has_its_prefix(tmp_path: Path) -> None:
    async with open_embedder(_spec(tmp_path)) as (embedder, _):
        plain = await embedder.embed(["the dog", "cat dog", "dog"])
        assert await embedder.embed(["dog"], "query") == pytest.approx([plain[0]])
        topic = tiny.floats(await embedder.embed(["dog"], "topic"))
        assert np.abs(topic - tiny.floats(plain[1:2])).max() < 2e-6


@pytest.mark.heavy("a real embedding model")
async def test_a_killed_process_is_started_again_and_nothing_is_lost(tmp_path: Path) -> None:
    async with open_embedder(_spec(tmp_path, budget=64)) as (embedder, process):
        texts = _texts(4000)
        expected = tiny.floats(await embedder.embed(texts))
        seen = set[int]()
        while len(seen) < 3:
            bulk = asyncio.create_task(embedder.embed(texts))
            query = asyncio.create_task(embedder.embed(["dog"], "query"))
            await _until(lambda bulk=bulk: process.busy or bulk.done())  # type: ignore[misc]
            if not bulk.done():  # which it is if this test came to its turn too late
                assert process.pid is not None
                seen.add(process.pid)
                os.kill(process.pid, signal.SIGKILL)
            assert np.abs(tiny.floats(await bulk) - expected).max() < 2e-6
            assert len(await query) == 1


@pytest.mark.heavy("a real embedding model")
async def test_texts_that_kill_the_process_each_time_are_given_up_and_others_are_not(tmp_path: Path) -> None:
    async with open_embedder(_spec(tmp_path, budget=16)) as (embedder, process):
        begun: list[int] = []

        async def killer() -> None:
            while True:
                await _until(lambda: process.pid is not None and process.pid not in begun and process.busy)
                assert process.pid is not None
                begun.append(process.pid)
                os.kill(process.pid, signal.SIGKILL)

        killing = asyncio.create_task(killer())
        with pytest.raises(ModelError, match="crashed 3 times on these texts"):
            await process.ask(_texts(30_000))
        killing.cancel()
        assert len(begun) == 3
        assert len(await embedder.embed(["dog"])) == 1


async def test_a_process_that_says_nothing_any_more_is_killed(tmp_path: Path) -> None:
    async with open_embedder(_spec(tmp_path), silence=SILENCE) as (embedder, process):
        pid = process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        assert len(await embedder.embed(["dog"])) == 1
        assert process.pid != pid
        assert not psutil.pid_exists(pid)


async def test_queries_do_not_wait_for_bulk(tmp_path: Path) -> None:
    async with open_embedder(_spec(tmp_path, budget=64)) as (embedder, _):
        bulk = asyncio.create_task(embedder.embed(_texts(30_000)))
        for _ in range(5):
            assert len(await embedder.embed(["dog"], "query")) == 1
        assert not bulk.done()
        bulk.cancel()


async def test_an_idle_process_ends_and_is_back_when_it_is_needed(tmp_path: Path) -> None:
    async with open_embedder(_spec(tmp_path, idle=0.2)) as (embedder, process):
        first = process.pid
        await _until(lambda: process.pid is None)
        assert len(await embedder.embed(["dog"])) == 1
        assert process.pid not in (None, first)


async def test_closing_ends_the_process_and_what_waits_for_it(tmp_path: Path) -> None:
    process = ModelProcess(_spec(tmp_path, budget=16), os.environ)
    embedder = LocalEmbedder(RECIPE, process, await process.dimension())
    pid = process.pid
    bulk = asyncio.create_task(embedder.embed(_texts(60_000)))
    await _until(lambda: process.busy)
    await embedder.close()
    await embedder.close()
    with pytest.raises(ModelUnavailable):
        await bulk
    with pytest.raises(ModelUnavailable):
        await embedder.embed(["dog"])
    assert pid is not None
    assert not psutil.pid_exists(pid)


_HOLDER = """
import asyncio, os, sys
from tabane.search.embedding.process_requests import ModelSpec
from tabane.search.embedding.process import ModelProcess

async def run():
    folder = sys.argv[1]
    spec = ModelSpec("weights", folder, "model.safetensors", kept=folder + "/kept", budget=16)
    process = ModelProcess(spec, os.environ)
    await process.dimension()
    asking = asyncio.create_task(process.ask(["the cat sat"] * 200_000))
    while not process.busy:
        await asyncio.sleep(0.01)
    print(process.pid, flush=True)
    await asking

asyncio.run(run())
"""


async def test_the_process_does_not_outlive_a_hub_that_was_killed(tmp_path: Path) -> None:
    tiny.make(tmp_path)
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _HOLDER, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdout is not None
    pid = int(await holder.stdout.readline())
    assert psutil.pid_exists(pid)
    holder.kill()
    await holder.wait()
    await _until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_the_process_ends_if_its_requests_end_in_the_middle_of_one(tmp_path: Path) -> None:
    opening = msgspec.msgpack.encode(_spec(tmp_path))
    body = msgspec.msgpack.encode(EmbeddingRequest(["the cat sat"] * 1000))
    with subprocess.Popen(
        PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request(len(opening)) + opening)
        process.stdin.flush()
        ready, greeting = (
            process.stdout.read(answer_head(process.stdout.read(ANSWER.size)).length) for _ in range(2)
        )
        assert (ready, msgspec.msgpack.decode(greeting)) == (b"", 24)
        process.stdin.write(request(len(body), number=1) + body[: len(body) // 2])
        process.stdin.close()
        assert process.wait(LIMIT) == 0


async def test_a_model_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="not a safetensors file"):
        await ModelProcess(spec, os.environ).dimension()


async def test_a_package_that_is_missing_is_named(tmp_path: Path) -> None:
    tiny.make(tmp_path)
    spec = ModelSpec("sentence-transformers", str(tmp_path))
    try:
        import sentence_transformers  # noqa: F401
    except ImportError:
        with pytest.raises(ModelMissing, match=r"torch|sentence_transformers"):
            await ModelProcess(spec, os.environ).dimension()


def test_the_hub_imports_nothing_of_what_runs_models() -> None:
    code = "import sys, tabane.search.embedding.model_finder; print(*sys.modules)"
    loaded = os.popen(f"{sys.executable} -c '{code}'").read().split()
    assert "tabane.search.embedding.process" in loaded
    assert not {"numpy", "onnx", "onnxruntime", "tokenizers", "aiohttp"} & set(loaded)


@pytest.mark.heavy("a real embedding model")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_memory_is_bounded_by_the_budget_not_by_the_texts(tmp_path: Path) -> None:
    def peak(pid: int | None) -> int:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    async with open_embedder(_spec(tmp_path, budget=512, threads=2)) as (embedder, process):
        await embedder.embed(_texts(512))
        before = peak(process.pid)
        await embedder.embed(["the cat sat " * 5] * 20_000)
        assert peak(process.pid) - before < 30_000  # kB; 20,000 texts at once would want 300,000


async def test_an_interrupt_of_the_terminal_is_left_to_the_hub(tmp_path: Path) -> None:
    async with open_embedder(_spec(tmp_path)) as (embedder, process):
        pid = process.pid
        assert pid is not None
        os.kill(pid, signal.SIGINT)
        assert len(await embedder.embed(["dog"])) == 1
        assert process.pid == pid


_BULK = """
import asyncio, os, sqlite3, sys
from tabane.search.embedding.embedder import CachedEmbedder
from tabane.search.embedding.process_requests import ModelSpec
from tabane.search.embedding.process import LocalEmbedder
from tabane.search.embedding.process import ModelProcess
from tabane.search.embedding.model_files import Recipe

class Kept:
    def __init__(self, path):
        self.file = sqlite3.connect(path, isolation_level=None)
        self.file.execute("CREATE TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY, vector BLOB)")
        self.room = int(sys.argv[2]) or sys.maxsize

    async def get(self, keys):
        found = [self.file.execute("SELECT vector FROM kept WHERE key = ?", [key]).fetchone() for key in keys]
        return [row and row[0] for row in found]

    async def put(self, vectors):
        if self.room == 0:
            await asyncio.Event().wait()  # to be killed
        self.room -= 1
        self.file.execute("BEGIN")
        self.file.executemany("INSERT INTO kept VALUES (?, ?)", vectors)  # a key twice is an error
        self.file.execute("COMMIT")
        print(len(vectors), flush=True)

async def run():
    folder = sys.argv[1]
    spec = ModelSpec("weights", folder, "model.safetensors", max_tokens=16, kept=folder + "/kept", budget=64)
    process = ModelProcess(spec, os.environ)
    embedder = LocalEmbedder(Recipe("tiny/model"), process, await process.dimension())
    texts = [f"{number} cat" for number in range(6000)]
    found = await CachedEmbedder(embedder, Kept(folder + "/vectors.db")).embed(texts)
    print("whole", len(found), len(set(map(len, found))), flush=True)
    await embedder.close()

asyncio.run(run())
"""


@pytest.mark.heavy("a real embedding model")
async def test_bulk_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    tiny.make(tmp_path)

    async def run(parts: int) -> list[str]:
        bulk = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _BULK, str(tmp_path), str(parts), stdout=asyncio.subprocess.PIPE
        )
        assert bulk.stdout is not None
        said = [(await bulk.stdout.readline()).decode() for _ in range(parts)]
        if parts:
            bulk.kill()
        said += (await bulk.stdout.read()).decode().splitlines()
        await bulk.wait()
        return said

    counts = [int(line) for _ in range(3) for line in await asyncio.wait_for(run(5), LIMIT)]
    *rest, whole = await asyncio.wait_for(run(0), LIMIT)
    assert whole == "whole 6000 1"
    assert sum(counts) + sum(map(int, rest)) <= 6000  # one part a death may be kept that was not told
    assert len(rest) <= 94 - len(counts)
