"""Measure, print the tables, and with ``--write`` put them into docs/performance.md."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gateway.calling import Calls, calls, calls_on_one_core
from benchmarks.gateway.counting import sizes
from benchmarks.gateway.figures import BIG, Figures
from benchmarks.gateway.other_gateways import OTHERS, other_figures, other_gateways
from benchmarks.gateway.page import calls_page, page, tokens_table
from benchmarks.gateway.starting import starts
from benchmarks.gateway.tokens import Counter, o200k
from benchmarks.gateway.ways import three_ways
from benchmarks.gateway.weighing import big_list, crowd, weight_daemon, weight_standalone
from benchmarks.report import publish

CROWDS = (50, 200)


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    count = _counter(options.o200k)
    if options.tokens:
        with tempfile.TemporaryDirectory(prefix="tabane-benchmark-") as folder:
            print(tokens_table(asyncio.run(sizes(Path(folder), count))))
        return
    if options.only_calls:
        with tempfile.TemporaryDirectory(prefix="tabane-benchmark-") as folder:
            calls_only = asyncio.run(_calls(Path(folder), options.rounds, options.calls, others=False))
        publish("gateway", calls_page(*calls_only, _command(options)), write=options.write)
        return
    with tempfile.TemporaryDirectory(prefix="tabane-benchmark-") as folder:
        figures = asyncio.run(_measure(Path(folder), options.rounds, options.calls, count))
    publish("gateway", page(figures, _command(options)), write=options.write)


async def _measure(folder: Path, rounds: int, count: int, tokens: Counter) -> Figures:
    before = os.getloadavg()[0]
    _say("starting")
    started = await starts(_new(folder / "starts"), max(3, rounds // 2))
    _say("calling")
    called, one_core = await _calls(_new(folder / "calls"), rounds, count, others=True)
    _say("memory")
    standalone = await weight_standalone(_new(folder / "standalone"))
    daemon = await weight_daemon(_new(folder / "daemon"))
    _say("many servers, many tools")
    crowds = [await crowd(folder, servers) for servers in CROWDS]
    big = await big_list(folder, BIG)
    _say("tokens")
    counted = await sizes(_new(folder / "tokens"), tokens)
    _say("other gateways")
    others = await other_figures(_new(folder / "others"), tokens)
    return Figures(
        starts=started,
        calls=called,
        one_core=one_core,
        standalone=standalone,
        daemon=daemon,
        crowds=crowds,
        big_list_ms=big,
        sizes=counted,
        others=others,
        load=(before, os.getloadavg()[0]),
    )


async def _calls(folder: Path, rounds: int, count: int, *, others: bool) -> tuple[list[Calls], list[Calls]]:
    """Calls with the scheduler as it is, and on one core."""
    async with (
        three_ways(_new(folder / "ours")) as ways,
        other_gateways(folder / "others", OTHERS if others else ()) as running,
    ):
        called = await calls(ways, rounds, count, others=running)
        return called, await calls_on_one_core(ways, rounds, count)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    parser.add_argument("--tokens", action="store_true", help="count tokens only, and print their table")
    parser.add_argument("--only-calls", action="store_true", help="measure calls through our own hubs only")
    parser.add_argument("--rounds", type=int, default=12, help="rounds of calls, in turns (12)")
    parser.add_argument("--calls", type=int, default=200, help="calls one after the other in a round (200)")
    parser.add_argument(
        "--o200k", type=Path, metavar="FILE",
        help="count tokens exactly: dist/ranks/o200k_base.js of js-tiktoken (npm); needs tiktoken (PyPI)",
    )  # fmt: skip
    return parser.parse_args(arguments)


def _counter(ranks: Path | None) -> Counter:
    if ranks is None:
        return Counter()
    try:
        return Counter(o200k(ranks))
    except (ImportError, OSError, ValueError) as error:
        _say(f"tokens are estimated as bytes/4: {error}")
        return Counter()


def _command(options: argparse.Namespace) -> str:
    given = ["--rounds", options.rounds, "--calls", options.calls]
    # The file's place says nothing to others.
    given += ["--o200k", options.o200k.name] if options.o200k else []
    given += ["--only-calls"] if options.only_calls else []
    return shlex.join(["python", "-m", "benchmarks.gateway", *map(str, given)])


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _say(what: str) -> None:
    print(f"… {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
