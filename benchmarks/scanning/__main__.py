"""``python -m benchmarks.scanning [--write]``: recall, false positives, and the time for a definition."""

from __future__ import annotations

import argparse
import statistics

from benchmarks.report import machine, publish, table
from benchmarks.scanning.quality import (
    ATTACKS,
    HELD_OUT,
    HONEST,
    REAL,
    Found,
    by_kind,
    cases,
    interval,
    milliseconds,
)

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
    results = {path: by_kind(path) for path in _GOALS}
    rows = [[*_row(_WHAT[path], found[""]), _GOALS[path]] for path, found in results.items()]
    kinds = [_row(kind, found) for kind, found in results[ATTACKS].items() if kind]
    return [
        "## Scanner of definitions",
        machine("python -m benchmarks.scanning"),
        "All of these attacks were written by the author of the rules, so they measure the author: on sets "
        "of others, less is found. The held-out ones were written after the first rules. A definition counts "
        "as found if the scanner reports anything about it; only severe findings hold it back. The intervals "
        "are those of Wilson, with 95 % confidence.",
        table(["collection", "definitions", "found", "interval", "severe", "interval", "goal"], rows),
        table(
            ["attacks used in development", "definitions", "found", "interval", "severe", "interval"], kinds
        ),
        table(
            ["CPU time for a definition of a published server", "ms", "goal"],
            [
                ["mean", f"{statistics.mean(times):.2f}", "≤ 1"],
                ["median", f"{statistics.median(times):.2f}", ""],
                ["99th percentile", f"{times[int(len(times) * 0.99)]:.2f}", ""],
            ],
        ),
    ]


def _row(what: str, found: Found) -> list[str]:
    cells = [what, f"{found.total:,}"]
    for count in (found.found, found.severe):
        low, high = interval(count, found.total)
        cells += [f"{count / found.total:.1%}", f"{low:.0%} – {high:.0%}"]
    return cells


if __name__ == "__main__":
    main()
