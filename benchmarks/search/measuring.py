"""One engine, measured in a process of its own: ``python -m benchmarks.search.measuring ENGINE STEP FOLDER``.

``FOLDER`` holds ``entries.jsonl`` and ``questions.json``. The step ``fill`` puts all records in; ``ask``
opens what that left behind and asks. Both print their figures as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import benchmarks.search.engines as engines
from benchmarks.search.engine_steps import Figures, memory, print_figures
from benchmarks.search.generator import Asked, Entry

_WARM = 10  # questions before those that count
SECONDS = 3.0  # of one kind of question: slow engines are asked fewer
_FEWEST = 20
_UPSERTS = 300

_Given = TypeVar("_Given")
_Method = Callable[[Asked], Awaitable[list[str]]]


def store_corpus(folder: Path, entries: Sequence[Entry], questions: dict[str, list[Asked]]) -> None:
    """Write down what all engines are given."""
    with (folder / "entries.jsonl").open("w", encoding="utf-8") as file:
        for entry in entries:
            file.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
    asked = {kind: [asdict(each) for each in several] for kind, several in questions.items()}
    (folder / "questions.json").write_text(json.dumps(asked), encoding="utf-8")


def _entries(folder: Path) -> Iterator[Entry]:
    with (folder / "entries.jsonl").open(encoding="utf-8") as file:
        for line in file:
            yield Entry(**json.loads(line))


def _questions(folder: Path) -> dict[str, list[Asked]]:
    written = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    return {
        kind: [Asked(**{**each, "words": tuple(each["words"])}) for each in several]
        for kind, several in written.items()
    }


async def fill(engine: engines.Engine, folder: Path, place: Path) -> Figures:
    """Rows a second until the last is acknowledged, and until everything is as it will stay."""
    await engine.open(place)
    count, spent = 0, 0.0
    entries = _entries(folder)
    while batch := await asyncio.to_thread(lambda: list(itertools.islice(entries, engine.batch))):
        spent += await _timed(engine.fill, batch)
        count += len(batch)
    began = time.perf_counter()
    await engine.filled()
    settled = spent + time.perf_counter() - began
    await engine.close()
    waits = [wait * 1e3 for wait in getattr(engine, "waits", ())]
    return {"rows": count / spent, "settled": count / settled, "waits": sorted(waits)}


async def ask(engine: engines.Engine, folder: Path, place: Path) -> Figures:
    """Milliseconds of every question, by kind; of opening; of upserts; and memory after the questions."""
    questions = _questions(folder)
    opening = await _timed(engine.open, place)
    figures: Figures = {"open": opening * 1e3}
    for kind, several in questions.items():
        method = engine.contains if kind.startswith("substring") else engine.search
        try:
            figures[kind] = await _latencies(method, several)
        except NotImplementedError:
            figures[kind] = []
    figures |= memory()
    figures["upsert"], figures["unfound"] = await _upserts(engine)
    await engine.close()
    return figures


async def _latencies(
    method: Callable[[Asked], Awaitable[list[str]]], several: Sequence[Asked]
) -> list[float]:
    """Each question once; all differ, so that no answer is a remembered one."""
    for asked in several[:_WARM]:
        await method(asked)
    found: list[float] = []
    for asked in several[_WARM:]:
        found.append(await _timed(method, asked) * 1e3)
        if sum(found) > SECONDS * 1e3 and len(found) >= _FEWEST:
            break
    return sorted(found)


async def _upserts(engine: engines.Engine) -> tuple[list[float], int]:
    """One new record after another; and how many of them the very next search did not find."""
    found: list[float] = []
    unfound = 0
    for number in range(_UPSERTS):
        word = f"fresh{number:04}x"
        entry = Entry(f"fresh{number}", f"{word} 新しい記録、番号は{number}", "ja", 1_790_000_000, "user00")
        found.append(await _timed(engine.upsert, entry) * 1e3)
        with contextlib.suppress(NotImplementedError):
            unfound += entry.key not in await engine.search(Asked(words=(word,)))
        if sum(found) > SECONDS * 1e3 and len(found) >= _FEWEST:
            break
    return sorted(found), unfound


async def _timed(work: Callable[[_Given], Awaitable[object]], given: _Given) -> float:
    began = time.perf_counter()
    await work(given)
    return time.perf_counter() - began


def main(name: str, step: str, folder: Path) -> None:
    place = folder / engines.MODULES[name]
    place.mkdir(exist_ok=True)
    work = {"fill": fill, "ask": ask}[step]
    print_figures(lambda: engines.engine(name), lambda engine: work(engine, folder, place))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
