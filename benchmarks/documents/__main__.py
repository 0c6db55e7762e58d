"""The document store in running hubs: ``python -m benchmarks.documents [--documents 15300] [--write]``.

What is put is made at the first run and kept in the user's cache; hubs and their stores are new each time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.documents.asking import TOGETHER, filled, put, searched
from benchmarks.documents.model import NAME, served
from benchmarks.documents.page import Adding, Measured, page
from benchmarks.documents.sources import Sources, made
from benchmarks.performance import publish
from benchmarks.posts.house import House

from tabane.search.embedding.model_files import minilm
from tabane.search.embedding.model_finder import MINILM

DOCUMENTS, FILES = 15_300, 10_000
_PUTS, _EMBEDDED = 1_000, 120


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.documents")
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    _say("making what is put, where it is not there")
    sources = made(options.documents, options.files)
    publish("documents", page(measured(sources)), write=options.write)


def measured(sources: Sources) -> Measured:
    """All figures; every hub is stopped."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=sources.folder.parent) as folder:
        found = Measured()
        _without_model(House(_made(folder, "none"), "none", ""), sources, found)
        if minilm() is not None:
            _with_minilm(House(_made(folder, "minilm"), MINILM, ""), sources, found)
        with served() as url:
            _searched(House(_made(folder, "search"), NAME, url), sources, found)
    return found


def _without_model(house: House, sources: Sources, found: Measured) -> None:
    """Files added twice, and documents put one by one."""
    house.start()
    try:
        found.idle = house.memory()
        _say("adding files")
        found.added = _added(house, sources)
        found.again = _added(house, sources)
        _say("putting")
        found.puts = asyncio.run(put(house, sources, _PUTS))
    finally:
        house.stop()


def _added(house: House, sources: Sources) -> Adding:
    before, began = house.cpu, time.perf_counter()
    report = json.loads(house.tabane("docs", "add", str(sources.files), "--relative", "--json"))
    seconds = time.perf_counter() - began
    return Adding(seconds, house.cpu - before, report["new"], report["unchanged"])


def _with_minilm(house: House, sources: Sources, found: Measured) -> None:
    _say("putting with MiniLM")
    house.start()
    try:
        found.embedded = asyncio.run(put(house, sources, _EMBEDDED))
        found.with_model = house.memory()
    finally:
        house.stop()


def _searched(house: House, sources: Sources, found: Measured) -> None:
    house.start()
    try:
        _say("filling")
        found.filled = asyncio.run(filled(house, sources.batches(TOGETHER)))
        found.full = house.memory()
        _say("searching")
        found.searches = asyncio.run(searched(house, sources, found.filled["documents"]))
        found.asked, found.disk = house.memory(), house.disk
    finally:
        house.stop()


def _made(folder: str, name: str) -> Path:
    made = Path(folder) / name
    made.mkdir()
    return made


def _say(what: str) -> None:
    print(f"documents: {time.strftime('%H:%M:%S')} {what}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
