"""The post archive in a running hub: ``python -m benchmarks.posts [--posts 220000] [--write]``.

The posts are made at the first run and kept in the user's cache; the archive is imported anew each time.
``--keep FOLDER`` imports into a folder that stays, and asks what is there already where it is one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.embedding_server import embedding_server
from benchmarks.hub import free_port
from benchmarks.posts.archive_hub import ArchiveHub
from benchmarks.posts.page import Import, Measured, page
from benchmarks.posts.sources import DIMENSION, MODEL, USERS, Sources, made
from benchmarks.report import publish

ROOT = Path(__file__).parents[2]
STARTS = 5


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.posts")
    parser.add_argument("--posts", type=int, default=220_000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--prepare", action="store_true", help="make the posts, and measure nothing")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    print("posts: making what is imported, where it is not there", file=sys.stderr)
    sources = made(options.posts)
    if options.prepare:
        return
    cache = sources.folder.parent
    with tempfile.TemporaryDirectory(prefix="bench-", dir=cache) as one:
        folder = options.keep or Path(one)
        folder.mkdir(exist_ok=True)
        # An archive knows its model by the URL, so one that is kept needs its port again.
        place = folder / "model.port"
        port = int(place.read_text()) if place.exists() else free_port()
        place.write_text(str(port))
        vectors = sources.vectors()
        other = next(iter(vectors.values()))  # of any text that is no question
        with embedding_server(lambda text: vectors.get(text, other).tolist(), port) as url:
            found = measured(ArchiveHub(folder, MODEL, url), sources)
    publish("posts", page(found, options.posts, USERS, DIMENSION), write=options.write)


def measured(hub: ArchiveHub, sources: Sources) -> Measured:
    """All figures of one archive; it is left stopped."""
    there = hub.is_filled
    hub.start()
    try:
        brought = None if there else _imported(hub, sources)
        hub.stop()
        print("posts: starting", file=sys.stderr)
        starts = []
        for last in range(STARTS):
            starts.append(hub.start_until_ready())
            if last < STARTS - 1:
                hub.stop()
        idle = hub.memory()
        print("posts: asking", file=sys.stderr)
        command = [sys.executable, "-m", "benchmarks.posts.asking", hub.socket, str(sources.folder)]
        command.append(str(hub.pid))
        asked = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        return Measured(brought, starts, idle, json.loads(asked), hub.memory(), hub.disk)
    finally:
        hub.stop()


def _imported(hub: ArchiveHub, sources: Sources) -> Import:
    """The archive filled, as the command line does it."""
    print("posts: importing", file=sys.stderr)
    before, began = hub.cpu, time.perf_counter()
    report = json.loads(hub.tabane("posts", "import", *sources.arguments(), "--json"))
    seconds = time.perf_counter() - began
    found = Import(report["new"], seconds, hub.cpu - before, hub.memory())
    print(f"posts: {found}", file=sys.stderr)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
