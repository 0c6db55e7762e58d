"""Measure ratios in short runs, and compare them with those that are committed: ``make bench-check``.

The exit status is 1 if a ratio is more than 1.3 times worse, also in a second run of its part, or if a part
failed. Times are never compared: they are those of another machine. Nothing of the repository is changed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.__main__ import run_all, say
from benchmarks.comparing import Compared, better_of, compared, comparison_table
from benchmarks.part_runs import BUILD
from benchmarks.plan import PARTS, Part, UnknownPart, checked
from benchmarks.sections.section import FIGURES, FOLDER, read_sections

RUN = BUILD / "bench-check"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="check this part")
    parser.add_argument("--wait", type=float, default=30.0, metavar="SECONDS")
    parser.add_argument("--slower", type=float, default=1.0, metavar="FACTOR")
    options = parser.parse_args(arguments)
    parts = checked(PARTS)
    names = {part.name for part in parts}
    if unknown := [name for name in options.only if name not in names]:
        say(
            str(UnknownPart(f"no ratios are checked of: {', '.join(unknown)}. There are: {', '.join(names)}"))
        )
        return 2
    parts = [part for part in parts if not options.only or part.name in options.only]
    found, failed = run(parts, RUN / "first", options.wait, options.slower)
    if worse := {one.section for one in found if one.is_worse}:
        say(f"measuring a second time: {', '.join(sorted(worse))}")
        again, more = run(
            [part for part in parts if part.name in worse], RUN / "second", options.wait, options.slower
        )
        found, failed = better_of(found, again), failed + more
    print(comparison_table(found))
    worse_now = [one for one in found if one.is_worse]
    say(
        f"{len(worse_now)} of {sum(one.now is not None for one in found)} ratios are worse, "
        f"{failed} parts failed"
    )
    return int(bool(worse_now or failed))


def run(parts: Sequence[Part], folder: Path, wait: float, slower: float) -> tuple[list[Compared], int]:
    """Run parts into a new folder. Return their ratios beside the committed ones, and how many failed."""
    shutil.rmtree(folder, ignore_errors=True)
    ended = list(run_all(parts, wait, {FOLDER: str(folder)}, slower=slower))
    return compared(read_sections(FIGURES), read_sections(folder)), sum(bool(one.problem) for one in ended)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
