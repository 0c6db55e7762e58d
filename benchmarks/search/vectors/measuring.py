"""One engine, in a process of its own: ``python -m benchmarks.search.vectors.measuring ENGINE STEP CORPUS``.

The step ``fill`` puts the corpus in; ``ask`` opens what that left behind and asks. Both print their figures
as JSON. Beside the clock stands the processor's time, which what else runs on the machine changes less.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import benchmarks.search.vectors.engines as engines
from benchmarks.search.engine_steps import Figures, memory, print_figures
from benchmarks.search.vectors.corpus import WARM, Corpus, Question

SECONDS = 2.0  # of one kind of question: slow engines are asked fewer
_FEWEST = 20
_SCANS = 7


async def fill(engine: engines.Engine, corpus: Corpus, place: Path) -> Figures:
    """Rows a second until the last is acknowledged, and until everything is as it will stay."""
    await engine.open(place, corpus)
    spent, worked, count = 0.0, time.process_time(), min(engine.most, len(corpus))
    try:
        for first in range(0, count, engine.batch):
            began = time.perf_counter()
            await engine.fill(first, min(first + engine.batch, count))
            spent += time.perf_counter() - began
    except NotImplementedError:
        return {}
    began = time.perf_counter()
    await engine.filled()
    settled = spent + time.perf_counter() - began
    worked = time.process_time() - worked
    await engine.close()
    return {"rows": count / spent, "settled": count / settled, "processor": count / worked}


async def ask(engine: engines.Engine, corpus: Corpus, place: Path) -> Figures:
    """Of each kind of question milliseconds and recall; opening, memory, scans."""
    began = time.perf_counter()
    await engine.open(place, corpus)
    figures: Figures = {"open": (time.perf_counter() - began) * 1e3}
    kinds: dict[str, object] = {}
    for kind in corpus.kinds:
        method = engine.hybrid if kind == "hybrid" else engine.nearest
        kinds[kind] = await _asked(method, corpus.questions(kind), corpus.answers(kind))
        if kind == "hybrid":
            figures |= memory()
    figures["kinds"] = kinds
    figures["scans"] = await _scans(engine, corpus)
    await engine.close()
    return figures


async def _asked(
    method: Callable[[Question], Awaitable[list[int]]], questions: list[Question], answers: list[set[int]]
) -> dict[str, object] | None:
    """Each question once; all differ. The first do not count for time, but for recall."""
    clock: list[float] = []
    worked: list[float] = []
    right = wanted = 0
    began = time.perf_counter()
    for number, question in enumerate(questions):
        before, at_work = time.perf_counter(), time.process_time()
        try:
            found = await method(question)
        except NotImplementedError:
            return None
        clock.append((time.perf_counter() - before) * 1e3)
        worked.append((time.process_time() - at_work) * 1e3)
        if answers:
            right += len(answers[number] & set(found))
            wanted += len(answers[number])
        if time.perf_counter() - began > SECONDS and number >= _FEWEST:
            break
    warm = min(WARM, len(clock) // 4)
    recall = right / wanted if wanted else None
    return {
        "clock": sorted(clock[warm:]),
        "processor": sorted(worked[warm:]),
        "recall": recall,
        "asked": len(clock),
    }


async def _scans(engine: engines.Engine, corpus: Corpus) -> Figures:
    """All similarities in one space and in all of them, several times: first block and last, milliseconds."""
    found: dict[str, object] = {}
    for kind in ("nearest", "average"):
        if kind in corpus.kinds:
            questions = corpus.questions(kind)[:_SCANS]
            try:
                spent = [await engine.scan(question) for question in questions]
            except NotImplementedError:
                return {}
            found[kind] = [[seconds * 1e3 for seconds in column] for column in zip(*spent, strict=True)]
    return found


def main(name: str, step: str, folder: Path) -> None:
    place = folder / engines.module(name)
    place.mkdir(exist_ok=True)
    work = {"fill": fill, "ask": ask}[step]
    print_figures(lambda: engines.engine(name), lambda engine: work(engine, Corpus.open(folder), place))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
