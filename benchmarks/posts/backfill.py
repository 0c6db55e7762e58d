"""An archive that is embedded in the background: ``python -m benchmarks.posts.backfill [--posts 200000]``.

The posts are imported into a new hub as the command line does it, with the default model or the one that
``--model`` names. One client asks all the time meanwhile. ``--write`` replaces the section of
the performance page.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from benchmarks.posts.archive_hub import ArchiveHub
from benchmarks.posts.asking import Client, connected
from benchmarks.posts.realistic import Posts
from benchmarks.report import Goal, goals, machine, publish, spread, table

STEPS = (1_000, 10_000, 50_000, 100_000)
_PAUSE = 0.1  # seconds between two questions
_LOOK = 1.0  # seconds between two looks at the job and the processes
_QUESTIONS = 5_000
_METHOD = """
- {posts:,} posts, half Japanese, half English, of the lengths that posts have (median 40 and 110 characters),
  of the sentences of the sample archive and of the documentation, no two the same
  (`benchmarks/posts/realistic.py`). They have no vectors: the hub makes them with {model}.
- Seconds are from the start of `tabane posts import`. The newest thousand count as found by meaning when
  `search_similar` with mode content finds the oldest of them by its text; the same for the other numbers.
- One client asks `search_similar` without a mode, a tenth of a second after each answer, always another text
  that no vector is known of.
- CPU and memory are those of the hub's process and of the embedding process; memory is the most seen.
""".strip()


@dataclass(slots=True)
class Run:
    """The figures of a run: seconds by number of posts, milliseconds of searches, CPU seconds, MB."""

    imported: float = 0.0
    found: dict[int, float] = field(default_factory=dict)
    during_import: list[float] = field(default_factory=list)
    during_fill: list[float] = field(default_factory=list)
    afterwards: list[float] = field(default_factory=list)
    cpu: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.posts.backfill")
    parser.add_argument("--posts", type=int, default=200_000)
    parser.add_argument("--model", default="auto")
    parser.add_argument("--url", default="", help="of an embedding server that has the model")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="backfill-") as folder:
        file = Path(folder) / "twilog.csv"
        print("backfill: making posts", file=sys.stderr)
        texts = list(Posts().write(file, options.posts))
        hub = ArchiveHub(Path(folder) / "hub", options.model, options.url)
        hub.start()
        try:
            run = asyncio.run(_measured(hub, file, texts))
            disk = hub.disk
        finally:
            hub.stop()
    publish("backfill", _page(run, texts, options.model, disk), write=options.write)


async def _measured(hub: ArchiveHub, file: Path, texts: Sequence[str]) -> Run:
    run = Run()
    began = time.perf_counter()
    importing = asyncio.create_task(_imported(hub, file, run, began))
    async with connected(hub.socket) as one, connected(hub.socket, hub.token) as other:
        asking = asyncio.create_task(_asked(Client(one), run))
        await _followed(Client(other), hub, run, texts, began)
        await importing
        await asyncio.sleep(5)  # after the fill
        asking.cancel()
        await asyncio.wait({asking})
        if not asking.cancelled() and (error := asking.exception()):
            raise error
    return run


async def _imported(hub: ArchiveHub, file: Path, run: Run, began: float) -> None:
    await asyncio.to_thread(hub.tabane, "posts", "import", str(file), "--json")
    run.imported = time.perf_counter() - began


async def _asked(client: Client, run: Run) -> None:
    questions = Posts(seed=1)
    for number in range(10**9):
        question = questions.text(number)[:60]
        began = time.perf_counter()
        await client.ask("search_similar", {"query": question, "top_k": 10})
        took = (time.perf_counter() - began) * 1e3
        phase = run.during_fill if run.imported else run.during_import
        (run.afterwards if 0 in run.found else phase).append(took)
        await asyncio.sleep(_PAUSE)


async def _followed(client: Client, hub: ArchiveHub, run: Run, texts: Sequence[str], began: float) -> None:
    """Look until everything is embedded; the number 0 stands for that."""
    steps = [step for step in STEPS if step < len(texts)] + [len(texts)]
    while steps:
        await asyncio.sleep(_LOOK)
        _weighed(hub, run)
        if not run.imported:
            continue
        while steps and await _found(client, texts[len(texts) - steps[0]]):
            step = steps.pop(0)
            run.found[step] = time.perf_counter() - began
            print(f"backfill: {step:,} after {run.found[step]:.1f} s", file=sys.stderr)
        jobs = (await client.ask("list_jobs", {}))["results"]
        ended = [job for job in jobs if job["operation"] == "embed" and job["status"] != "running"]
        if steps and any(job["done"] >= len(texts) for job in ended):
            sys.exit(f"backfill: embedded, but not found: the newest {steps}")
    run.found[0] = time.perf_counter() - began


async def _found(client: Client, text: str) -> bool:
    """Return whether a post is found by its vector."""
    text = html.unescape(text)  # as an import does
    asked = {"query": text, "mode": "content", "top_k": 3}
    try:
        rows = await client.ask("search_similar", asked)
    except RuntimeError:  # there is no vector at all
        return False
    return any(row["post"]["content"] == text for row in rows)


def _weighed(hub: ArchiveHub, run: Run) -> None:
    main_process = psutil.Process(hub.pid)
    processes = {"hub": main_process}
    for child in main_process.children():
        if "tabane.search.embedding.worker" in child.cmdline():
            processes["embedding process"] = child
    for name, process in processes.items():
        times = process.cpu_times()
        run.cpu[name] = times.user + times.system
        run.memory[name] = max(run.memory.get(name, 0.0), process.memory_info().rss / 1e6)


def _page(run: Run, texts: Sequence[str], model: str, disk: float) -> list[str]:
    everything = run.found[len(texts)]
    rows: Mapping[str, Sequence[float]] = {
        "during the import": run.during_import,
        "while posts are embedded": run.during_fill,
        "afterwards": run.afterwards,
    }
    meanwhile = run.during_import + run.during_fill
    return [
        "## Background embedding of posts",
        machine(f"python -m benchmarks.posts.backfill --posts {len(texts)}"),
        _METHOD.format(posts=len(texts), model="the default model" if model == "auto" else model),
        goals([
            Goal("minutes until all posts are found by meaning", everything / 60, 20, " min", 1),
            Goal("search meanwhile, p95", spread(meanwhile)[1], 50, " ms", 1, limit_digits=0),
        ]),
        table(
            ["found by meaning", "seconds"],
            [[f"the newest {step:,}" if step < len(texts) else "all", f"{seconds:,.1f}"]
             for step, seconds in run.found.items() if step],
        ),
        table(
            ["search, ms", "p50", "p95", "most", "questions"],
            [[name, *(f"{each:.1f}" for each in spread(values)), str(len(values))]
             for name, values in rows.items() if values],
        ),
        table(
            ["process", "CPU, s", "memory, MB"],
            [[name, f"{run.cpu[name]:,.0f}", f"{run.memory[name]:,.0f}"] for name in run.cpu],
        ),
        f"The import took {run.imported:,.1f} s. {len(texts) / everything:,.0f} posts a second were embedded "
        f"from its start. The home has {disk:,.0f} MB on disk.",
    ]  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
