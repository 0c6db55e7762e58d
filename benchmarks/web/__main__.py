"""The web page: python -m benchmarks.web [--write] puts it into the performance page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.report import Goal, goals, machine, megabytes, publish, table
from benchmarks.sections.blocks import Block
from benchmarks.web import feed, first_view, large_home, typing
from benchmarks.web.first_view import PageFigures
from benchmarks.web.typing import TypingFigures


def main(arguments: list[str]) -> None:
    """Measure. ``--home FOLDER``: a large home that is there (see :mod:`benchmarks.web.large_home`)."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--home", type=Path)
    parser.add_argument("--prepare", action="store_true", help="make the large home, and measure nothing")
    options = parser.parse_args(arguments)
    if options.prepare:
        large_home.kept()
        return
    found = first_view.measure()
    keys = found and typing.figures(home=options.home)
    if found is None or keys is None:
        print("no browser is installed (chromium), so the page is not measured", file=sys.stderr)
        return
    publish("web", page(found, keys), write=options.write)


def page(found: PageFigures, keys: TypingFigures) -> list[Block | str]:
    """Return the parts of the section."""
    followed = feed.rows()
    resident = {step: memory[0] for step, memory in found.memory.items()}
    grown = resident["after the first page"] - resident["after a request over HTTP"]
    largest = max(found.median("bytes", path) for path in found.pages)
    reached = [
        Goal("first view of the largest page, transferred", largest / 1000, 90, " KB", limit_digits=0),
        Goal("first view, until interactive", found.median("ready"), 300, " ms"),
        Goal("content that moves in the first view (CLS)", found.median("shift"), 0.1, "", 3, limit_digits=1),
        Goal("memory of the hub by the first page", grown, 12, " MB", 1, limit_digits=0),
        *feed.reached(followed),
        *typing.reached(keys),
    ]
    ready = sorted(view.ready for view in found.views)
    views = [
        ("until interactive", f"{found.median('ready'):.0f} ms ({ready[0]:.0f} to {ready[-1]:.0f})"),
        ("largest paint", f"{found.median('paint'):.0f} ms"),
        ("main thread blocked (TBT)", f"{found.median('blocked'):.0f} ms"),
        ("requests", f"{found.median('requests'):.0f}"),
        ("bytes", f"{found.median('bytes'):,.0f}"),
    ]
    pages = [
        (path, f"{found.median('bytes', path) / 1000:.0f}", f"{found.median('ready', path):.0f} ms")
        for path in found.pages
    ]
    return [
        "## The web page",
        machine("python -m benchmarks.web"),
        goals(reached),
        f"The home page in {len(found.views)} new browsers with an empty cache, headless Chromium on this "
        "machine:",
        table(("", "median"), views),
        f"Every page in {first_view.OTHERS} such browsers, medians:",
        table(("page", "KB", "interactive"), pages),
        "Memory of the hub with four servers and 115 tools, and what of it is no page of a mapped file:",
        table(("", "MB"), ((step, megabytes(memory)) for step, memory in found.memory.items())),
        f"Open pages that follow the hub, while an assistant calls a tool {feed.RATE} times a second:",
        table(feed.HEADS, (row.texts for row in followed)),
        *typing.blocks(keys),
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
