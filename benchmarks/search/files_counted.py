"""Source files, openings and checks of one request: python -m benchmarks.search.files_counted [--by-name]

A hub in this process answers a search of documents, the reading of a page, the storing of a document and an
import of posts, each after the same request was answered before. Every source file of the package ``tabane``
with a function that ran counts, in any thread of the hub; so does each opening of a collection, and each
check of what a caller passes to one. The numbers do not depend on the load of the machine.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.report import table
from tests.harness.running_hub import RunningHub, SocketClient, running_hub
from tests.posts.importing.archives import Told, row, write_csv
from tests.reader.site import Site, running

import tabane
from tabane.operations import Caller, Face
from tabane.posts.table import ImportPosts

COMMAND = "python -m benchmarks.search.files_counted"
PACKAGE = str(Path(tabane.__file__).parent)

OPENINGS = {"Stores.collection"}
SHAPES = {"Shape.__post_init__", "Shape.holds_same"}
"""Functions that check a shape, or compare two."""

CHECKED_IN = ("engine/input_checks.py", "engine/vector_request.py", "search/records.py")
CHECKS = {
    "checked_records", "checked_exchange", "checked_attachment", "checked_keys", "checked_filter",
    "checked_request", "check_count", "check_page", "check_order", "check_kind", "read_cursor",
}  # fmt: skip
"""Functions that check an argument of a request to an engine, in the files named above."""

CALLER = Caller("local", Face.RPC, "benchmark")
PAGE = "<html><title>Tea</title><body><article><h1>Tea</h1>" + "<p>Green tea from Uji.</p>" * 20
TEXT = "# Tea\n\nGreen tea is steamed.\n\n## Water\n\nIt is brewed at 70 °C.\n"


class RequestTrace:
    """Records which functions of the package run in all threads that start after it was made."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.calls: Counter[str] = Counter()
        self._frames: set[FrameType] = set()
        self._on = False
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def start(self) -> None:
        self.files, self.calls, self._on = set(), Counter(), True

    def stop(self) -> None:
        self._on = False
        self._frames.clear()

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if self._on and event == "call" and code.co_filename.startswith(PACKAGE):
            file = code.co_filename[len(PACKAGE) + 1 :]
            self.files.add(file)
            if frame not in self._frames:  # otherwise it is a later step of a coroutine
                self._frames.add(frame)
                self.calls[f"{file}:{code.co_qualname}"] += 1

    def of(self, names: set[str], files: Sequence[str] = ()) -> Counter[str]:
        """Return the calls of functions with these names, in these files or in any."""
        return Counter(
            {
                call: count
                for call, count in self.calls.items()
                if call.partition(":")[2] in names and (not files or call.partition(":")[0] in files)
            }
        )


def floors(room: str) -> int:
    """Return the number of modules in the longest chain of imports within a room, late imports included."""
    paths = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
        for path in Path(PACKAGE, room).rglob("*.py")
    }

    @cache
    def imported(name: str) -> frozenset[str]:
        found = set[str]()
        for node in ast.walk(ast.parse(paths[name].read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tabane."):
                module = node.module.removeprefix("tabane.")
                found |= {module, *(f"{module}.{each.name}" for each in node.names)}
        return frozenset(found & paths.keys() - {name})

    @cache
    def depth(name: str) -> int:
        return 1 + max(map(depth, imported(name)), default=0)

    return max(map(depth, paths))


async def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--by-name", action="store_true", help="print the files, openings and checks")
    options = parser.parse_args(arguments)
    trace, rows = RequestTrace(), []
    with tempfile.TemporaryDirectory(prefix="tabane-benchmark-") as folder, running() as site:
        site.put("/tea", PAGE)
        async with running_hub(Path(folder, "home"), {}, reader_allow=site.allowed, model="auto") as here:
            client = await here.connect("2025-11-25")
            for what, request in _requests(here, client, site, Path(folder)).items():
                await request()
                await request()
                await here.hub.embedding.idle()
                await asyncio.sleep(0.5)  # what is left to do
                trace.start()
                await request()
                trace.stop()
                counts = [trace.of(OPENINGS), trace.of(SHAPES), trace.of(CHECKS, CHECKED_IN)]
                rows.append([what, len(trace.files), *(each.total() for each in counts)])
                if options.by_name:
                    print("\n".join([f"\n{what}", *sorted(trace.files), *map(str, counts)]))
    sys.setprofile(None)
    head = ["request", "files", "openings", "checks of shapes", "checks of arguments"]
    print(table(head, [list(map(str, each)) for each in rows]))
    print(f"\nfloors of the engine: {floors('engine')}")


def _requests(
    here: RunningHub, client: SocketClient, site: Site, folder: Path
) -> dict[str, Callable[[], Awaitable[object]]]:
    numbers = iter(range(1, 100, 2))
    texts = (f"{TEXT}\nIt was cup {number}.\n" for number in range(1, 10))

    async def put() -> object:
        return await client.through("put_document", filepath="tea.md", text=next(texts))

    async def read() -> object:
        return await client.through("read_url_content", url=site.url("/tea"), refresh=True)

    async def imported() -> object:
        number = next(numbers)
        file = write_csv(folder / f"{number}.csv", [row(number, f"post {number}"), row(number + 1, "a cat")])
        return await here.hub.posts.import_posts(CALLER, ImportPosts(files=[file]), Told())

    return {
        "put_document": put,
        "search_documents": lambda: client.through("search_documents", query="green tea"),
        "a page read": read,
        "import_posts": imported,
    }


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
