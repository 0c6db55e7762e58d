"""Measure the parts of the plan one after the other, and render the performance page: ``make bench``.

A part that fails keeps the section it had, and the others are run all the same; the exit status is 1 then.
``--full`` runs the long parts too, ``--only`` some of them. An interrupt ends the part that is running, with
the hubs it started.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType

from benchmarks.machine import BUSY, Load, load_now, wait_until_quiet
from benchmarks.part_runs import PREPARATION, Ended, preparation, prepared, run_part
from benchmarks.plan import LIMIT, PARTS, Need, Part, UnknownPart, chosen, needed
from benchmarks.sections.page import write_page

INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    try:
        parts = chosen(PARTS, options.only, full=options.full)
    except UnknownPart as error:
        say(str(error))
        return 2
    if options.list:
        print("\n".join(listed(parts)))
        return 0
    # A shell starts what is in the background with SIGINT ignored, and the parts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        ended = list(run_all(parts, options.wait, slower=options.slower))
    except KeyboardInterrupt:
        say("interrupted: the part that was running keeps its old section")
        return INTERRUPTED
    finally:
        write_page()
    for line in summary(ended):
        say(line)
    return int(any(one.problem for one in ended))


def run_all(
    parts: Sequence[Part],
    wait: float,
    variables: Mapping[str, str] | None = None,
    *,
    slower: float = 1.0,
    look: Callable[[], Load] = load_now,
) -> Iterator[Ended]:
    """Install what the parts need, make their data, run them in order, and yield how each ended.

    The minutes of the plan begin after that. ``variables`` are added to the environment of each part.
    ``wait`` is in seconds, for each part; ``slower`` multiplies their limits.
    """
    problems = dict(unprepared(parts))
    began = time.monotonic()
    for number, part in enumerate(parts, 1):
        if part.name in problems:
            say(f"[{number}/{len(parts)}] {part.name}: not run")
            yield Ended(part, 0.0, f"not run: {problems[part.name]}")
            continue
        load = wait_until_quiet(wait, look)
        say(f"[{number}/{len(parts)}] {part.name}, about {part.seconds} s; before it: {load}")
        given = {BUSY: f"{load.busy:.0f}", **(variables or {})}
        ended = run_part(part, given, limit=part.limit * slower)
        say(told(ended, time.monotonic() - began))
        yield ended


def unprepared(parts: Sequence[Part]) -> Iterator[tuple[str, str]]:
    """Install and make what the parts need. Yield the parts that lack some of it, and why."""
    missing: dict[Need, str] = {}
    for need in needed(parts):
        say(f"make {need.value}")
        if problem := prepared(need):
            say(problem)
            missing[need] = problem
    for part in parts:
        if lacking := [need for need in part.needs if need in missing]:
            yield part.name, missing[lacking[0]]
        elif part.makes_data:
            say(f"{part.name}: making its data, if it is not there")
            ended = run_part(preparation(part), {}, limit=PREPARATION)
            if ended.problem:
                say(ended.problem)
                yield part.name, ended.problem


def told(ended: Ended, elapsed: float) -> str:
    how = f"failed: {ended.problem}" if ended.problem else "done"
    return f"    {ended.part.name}: {how} after {ended.seconds:.0f} s ({elapsed / 60:.1f} min in all)"


def listed(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        yield f"{part.name:14} {part.seconds:4} s  {'full ' if part.full else '     '}{part.module}"
    yield f"{'together':14} {sum(part.seconds for part in parts):4} s  (limit of the short ones: {LIMIT} s)"


def summary(ended: Sequence[Ended]) -> Iterator[str]:
    """Yield what to say at the end: seconds of each part, and those that failed."""
    for one in ended:
        state = "failed" if one.problem else "late" if one.seconds > one.part.seconds else "done"
        yield f"{one.part.name:14} {one.seconds:5.0f} s of {one.part.seconds:4} s  {state}"
    total = sum(one.seconds for one in ended)
    failed = [one.part.name for one in ended if one.problem]
    yield f"{total / 60:.1f} minutes" + (f"; failed: {', '.join(failed)}" if failed else "")


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="run the long parts too")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PART", help="run this part; repeatable"
    )
    parser.add_argument("--list", action="store_true", help="list the parts, and run none")
    parser.add_argument(
        "--wait", type=float, default=30.0, metavar="SECONDS",
        help="wait at most so long before each part until the machine is quiet (30)",
    )  # fmt: skip
    parser.add_argument(
        "--slower", type=float, default=1.0, metavar="FACTOR",
        help="let parts take so many times longer before they are ended, on a slow or busy machine (1)",
    )  # fmt: skip
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
