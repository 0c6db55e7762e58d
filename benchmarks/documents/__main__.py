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
from benchmarks.documents.page import Adding, Measured, page
from benchmarks.documents.sources import Sources, made
from benchmarks.embedding_server import MadeVectors, embedding_server
from benchmarks.posts.archive_hub import ArchiveHub
from benchmarks.report import publish

from tabane.search.embedding.model_packages import MINILM, PACKAGES, read_packed_model

DOCUMENTS, FILES = 15_300, 10_000
_PUTS, _EMBEDDED = 1_000, 120


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.documents")
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--prepare", action="store_true", help="make the documents, and measure nothing")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    _say("making what is put, where it is not there")
    sources = made(options.documents, options.files)
    if options.prepare:
        return
    publish("documents", page(measured(sources)), write=options.write)


def measured(sources: Sources) -> Measured:
    """All figures; every hub is stopped."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=sources.folder.parent) as folder:
        found = Measured()
        _without_model(ArchiveHub(_made(folder, "none"), "none", ""), sources, found)
        if read_packed_model(PACKAGES[MINILM]) is not None:
            _with_minilm(ArchiveHub(_made(folder, "minilm"), MINILM, ""), sources, found)
        with embedding_server(MadeVectors().vector) as url:
            _searched(ArchiveHub(_made(folder, "search"), "bench-384", url), sources, found)
    return found


def _without_model(hub: ArchiveHub, sources: Sources, found: Measured) -> None:
    """Files added twice, and documents put one by one."""
    hub.start()
    try:
        found.idle = hub.memory()
        _say("adding files")
        found.added = _added(hub, sources)
        found.again = _added(hub, sources)
        _say("putting")
        found.puts = asyncio.run(put(hub, sources, _PUTS))
    finally:
        hub.stop()


def _added(hub: ArchiveHub, sources: Sources) -> Adding:
    before, began = hub.cpu, time.perf_counter()
    report = json.loads(hub.tabane("docs", "add", str(sources.files), "--relative", "--json"))
    seconds = time.perf_counter() - began
    return Adding(seconds, hub.cpu - before, report["new"], report["unchanged"])


def _with_minilm(hub: ArchiveHub, sources: Sources, found: Measured) -> None:
    _say("putting with MiniLM")
    hub.start()
    try:
        found.embedded = asyncio.run(put(hub, sources, _EMBEDDED))
        found.with_model = hub.memory()
    finally:
        hub.stop()


def _searched(hub: ArchiveHub, sources: Sources, found: Measured) -> None:
    hub.start()
    try:
        _say("filling")
        found.filled = asyncio.run(filled(hub, sources.batches(TOGETHER)))
        found.full = hub.memory()
        _say("searching")
        found.searches = asyncio.run(searched(hub, sources, found.filled["documents"]))
        found.asked, found.disk = hub.memory(), hub.disk
    finally:
        hub.stop()


def _made(folder: str, name: str) -> Path:
    made = Path(folder) / name
    made.mkdir()
    return made


def _say(what: str) -> None:
    print(f"documents: {time.strftime('%H:%M:%S')} {what}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
