"""Ordinary pages read while pages of the worst kinds are being converted.

    python -m benchmarks.reader.other_reads [--write]

For each kind, the same ordinary pages are converted alone, then while three other sites send hostile pages
without a pause, in turns. Time is by the clock, from the request to the page, in one process of the hub's
kind.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from benchmarks.report import Goal, goals, machine, publish, spread, table

from tabane.errors import ReadError
from tabane.reader.conversion import PageConverter

ORDINARY = Path(__file__).parents[2] / "tests/reader/quality/pages"
SITES = 3
ROUNDS = 4
EACH = 3  # times that each ordinary page is read in a round
SETTLE = 0.3  # seconds after which the hostile pages are in work
GOAL = 2.0


def _attributes() -> bytes:
    names = b" ".join(b"a%d=x" % number for number in range(1_000_000))
    return b"<p>Seen.</p><div %s>Seen.</div>" % names


def _elements() -> bytes:
    return b"<p>Seen.</p>" + b"<i a=b></i>" * 1_000_000


def _styles() -> bytes:
    return b"<p>Seen.</p>" + b"<b style='color:red;font-size:12px' class='tab panel'>x</b>" * 200_000


def _hidden() -> bytes:
    return b"<p>Seen.</p>" + b"<article hidden>x</article>" * 40_000


def _table() -> bytes:
    return b"<p>Seen.</p><table>" + b"<tr>" + b"<td>x" * 500_000 + b"</table>"


def _text() -> bytes:
    return b"<p>Seen.</p>" + b"<p class=c>Some text <a href=/x>link</a> and more.</p>\n" * 350_000


KINDS: dict[str, Callable[[], bytes]] = {
    "a tag with 1,000,000 attributes": _attributes,
    "1,000,000 empty elements": _elements,
    "200,000 elements with styles": _styles,
    "40,000 hidden articles": _hidden,
    "a row of 500,000 cells": _table,
    "20 MB of paragraphs": _text,
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader.other_reads", description=__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    figures = {kind: asyncio.run(_measured(make())) for kind, make in KINDS.items()}
    rows: list[tuple[str, ...]] = []
    ratios: tuple[list[float], list[float]] = ([], [])
    for kind, (alone, beside) in figures.items():
        before, after = spread(alone), spread(beside)
        for found, one, other in zip(ratios, before, after, strict=False):
            found.append(other / one)
        cells = (f"{one * 1000:.1f} → {other * 1000:.1f}" for one, other in zip(before, after, strict=True))
        rows.append((kind, *cells, f"{after[0] / before[0]:.2f} ×"))
    judged = goals(
        (
            Goal("Other reads, worst kind, p50", max(ratios[0]), GOAL, " ×", 2),
            Goal("Other reads, worst kind, p95", max(ratios[1]), GOAL, " ×", 2),
        )
    )
    head = ("ms, alone → beside", "p50", "p95", "most", "ratio of p50")
    parts = [
        "## Ordinary pages beside hostile ones",
        machine("python -m benchmarks.reader.other_reads"),
        table(head, rows),
        judged,
        f"- {SITES} sites send hostile pages of one kind without a pause. The {len(_ordinary())} ordinary "
        f"pages are of {SITES + 1} other sites.",
    ]
    publish("other_reads", parts, write=options.write)


def _ordinary() -> list[bytes]:
    return [path.read_bytes() for path in sorted(ORDINARY.glob("*.html"))]


async def _measured(hostile: bytes) -> tuple[list[float], list[float]]:
    """Return the seconds of ordinary pages, alone and beside hostile ones."""
    converter = PageConverter(dict(os.environ))
    alone: list[float] = []
    beside: list[float] = []
    try:
        await _reads(converter)
        for _ in range(ROUNDS):
            alone += await _reads(converter)
            async with _attack(converter, hostile):
                beside += await _reads(converter)
    finally:
        await converter.close()
    return alone, beside


async def _reads(converter: PageConverter) -> list[float]:
    found = []
    for number, body in zip(range(EACH * len(_ordinary())), _ordinary() * EACH, strict=True):
        begun = time.perf_counter()
        await converter.page(body, f"https://site{number % (SITES + 1)}.test/{number}", "text/html")
        found.append(time.perf_counter() - begun)
    return found


@asynccontextmanager
async def _attack(converter: PageConverter, hostile: bytes) -> AsyncIterator[None]:
    """Let hostile pages of several sites be converted for as long as this is open."""
    tasks = [asyncio.create_task(_send(converter, hostile, site)) for site in range(SITES)]
    try:
        await asyncio.sleep(SETTLE)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _send(converter: PageConverter, hostile: bytes, site: int) -> None:
    for number in count():
        try:
            await converter.page(hostile, f"https://bad{site}.test/{number}", "text/html")
        except ReadError as error:
            print(f"hostile: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
