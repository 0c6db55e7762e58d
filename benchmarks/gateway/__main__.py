"""Measure, print the tables, and with ``--write`` put them into the performance page."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gateway.calling import Calls, calls, calls_on_one_core
from benchmarks.gateway.counting import sizes
from benchmarks.gateway.figures import BIG, Figures, core_goals, start_goal
from benchmarks.gateway.other_gateways import other_figures, other_gateways
from benchmarks.gateway.page import page, ratios_page, tokens_table
from benchmarks.gateway.starting import libraries_cpu, starts
from benchmarks.gateway.tokens import Counter, o200k
from benchmarks.gateway.ways import STANDALONE, three_ways
from benchmarks.gateway.weighing import big_list, crowd, weight_daemon, weight_standalone
from benchmarks.report import Goal, publish

CROWDS = (50, 200)
STARTS = 7


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    count = _counter(options.o200k)
    if options.tokens:
        with tempfile.TemporaryDirectory(prefix="tabane-benchmark-") as folder:
            print(tokens_table(asyncio.run(sizes(Path(folder), count))))
        return
    if options.ratios:
        with tempfile.TemporaryDirectory(prefix="tabane-benchmark-") as folder:
            found = asyncio.run(_ratios(Path(folder), options.rounds, options.calls))
        publish("gateway", ratios_page(found, _command(options)), write=options.write)
        return
    with tempfile.TemporaryDirectory(prefix="tabane-benchmark-") as folder:
        figures = asyncio.run(_measure(Path(folder), options.rounds, options.calls, count))
    publish("gateway", page(figures, _command(options)), write=options.write)


async def _measure(folder: Path, rounds: int, count: int, tokens: Counter) -> Figures:
    _say("starting")
    started = await starts(_new(folder / "starts"), max(3, rounds // 2))
    _say("calling")
    called, one_core = await _calls(_new(folder / "calls"), rounds, count)
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
        libraries_cpu=await libraries_cpu(STARTS),
        others=others,
    )


async def _calls(folder: Path, rounds: int, count: int) -> tuple[list[Calls], list[Calls]]:
    """Calls with the scheduler as it is, beside other gateways, and on one core."""
    async with three_ways(_new(folder / "ours")) as ways:
        async with other_gateways(folder / "others") as others:
            called = await calls(ways, rounds, count, others=others)
        return called, await calls_on_one_core(ways, rounds, count)


async def _ratios(folder: Path, rounds: int, count: int) -> list[Goal]:
    """Measure what ``make bench-check`` compares: ratios that are alike from run to run."""
    started = await starts(_new(folder / "starts"), STARTS)
    libraries = await libraries_cpu(STARTS)
    async with three_ways(_new(folder / "calls")) as ways:
        one_core = await calls_on_one_core(ways, rounds, count)
    return [*core_goals(one_core), start_goal(started[STANDALONE], libraries)]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the performance page")
    parser.add_argument("--tokens", action="store_true", help="count tokens only, and print their table")
    parser.add_argument("--ratios", action="store_true", help="measure the ratios of our own hubs only")
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
    given += ["--ratios"] if options.ratios else []
    return shlex.join(["python", "-m", "benchmarks.gateway", *map(str, given)])


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _say(what: str) -> None:
    print(f"… {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
