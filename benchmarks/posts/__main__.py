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

from benchmarks.performance import publish
from benchmarks.posts.house import House
from benchmarks.posts.model import served
from benchmarks.posts.page import Import, Measured, page
from benchmarks.posts.sources import DIMENSION, MODEL, USERS, Sources, made

ROOT = Path(__file__).parents[2]
STARTS = 5


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.posts")
    parser.add_argument("--posts", type=int, default=220_000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    print("posts: making what is imported, where it is not there", file=sys.stderr)
    sources = made(options.posts)
    cache = sources.folder.parent
    with tempfile.TemporaryDirectory(prefix="bench-", dir=cache) as one:
        folder = options.keep or Path(one)
        folder.mkdir(exist_ok=True)
        with served(sources, folder / "model.port") as url:
            found = measured(House(folder, MODEL, url), sources)
    publish("posts", page(found, options.posts, USERS, DIMENSION), write=options.write)


def measured(house: House, sources: Sources) -> Measured:
    """All figures of one archive; it is left stopped."""
    there = house.is_filled
    house.start()
    try:
        brought = None if there else _imported(house, sources)
        house.stop()
        print("posts: starting", file=sys.stderr)
        starts = []
        for last in range(STARTS):
            starts.append(house.start())
            if last < STARTS - 1:
                house.stop()
        idle = house.memory()
        print("posts: asking", file=sys.stderr)
        command = [sys.executable, "-m", "benchmarks.posts.asking", house.url, str(sources.folder)]
        command.append(str(house.pid))
        asked = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        return Measured(brought, starts, idle, json.loads(asked), house.memory(), house.disk)
    finally:
        house.stop()


def _imported(house: House, sources: Sources) -> Import:
    """The archive filled, as the command line does it."""
    print("posts: importing", file=sys.stderr)
    before, began = house.cpu, time.perf_counter()
    report = json.loads(house.tabane("posts", "import", *sources.arguments(), "--json"))
    seconds = time.perf_counter() - began
    found = Import(report["new"], seconds, house.cpu - before, house.memory())
    print(f"posts: {found}", file=sys.stderr)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
