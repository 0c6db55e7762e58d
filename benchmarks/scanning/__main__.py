"""``python -m benchmarks.scanning [--write]``: recall, false positives, and the time for a definition."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from benchmarks.report import machine, publish, table
from benchmarks.scanning.quality import ATTACKS, HELD_OUT, HONEST, REAL, cases, milliseconds, share

_GOALS = {HELD_OUT: "≥ 90 %", ATTACKS: "≥ 90 %", REAL: "≤ 1 %", HONEST: "≤ 5 %"}
_WHAT = {
    HELD_OUT: "attacks, held out",
    ATTACKS: "attacks, used in development",
    REAL: "definitions of published servers",
    HONEST: "honest definitions that look like attacks",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scanning", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the section of the performance page")
    options = parser.parse_args()
    publish("scanning", _parts(), write=options.write)


def _parts() -> list[str]:
    times = sorted(milliseconds(cases(REAL)))
    rows = [_row(path) for path in _GOALS]
    return [
        "## Scanner of definitions",
        machine("python -m benchmarks.scanning"),
        "The held-out attacks were written after the rules, by their author, from published descriptions of "
        "attacks. The rules were not changed to find more of them. A definition counts as found if the "
        "scanner reports anything about it.",
        table(["collection", "definitions", "found", "goal"], rows),
        table(
            ["CPU time for a definition of a published server", "ms", "goal"],
            [
                ["mean", f"{statistics.mean(times):.2f}", "≤ 1"],
                ["median", f"{statistics.median(times):.2f}", ""],
                ["99th percentile", f"{times[int(len(times) * 0.99)]:.2f}", ""],
            ],
        ),
    ]


def _row(path: Path) -> list[str]:
    return [_WHAT[path], f"{len(cases(path)):,}", f"{share(path):.1%}", _GOALS[path]]


if __name__ == "__main__":
    main()
