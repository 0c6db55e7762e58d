"""A tier of the suite, with a second try of what fails: `python -m tests.landing TIER [ARGUMENTS]`.

At most three failed tests run once more, alone. What passes then is an entry of `tests/unsteady.toml`. It is
written there in a working copy, and printed in CI, where the clone is thrown away. An entry is open until it
says what the cause was and what fixed it. Five open entries fail every run.

ARGUMENTS go to pytest. Exit status 0: all passed, perhaps in a second try. 1: a failure, or too many open
entries. Others are those of pytest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.coverage import RECORD, Coverage, find_changes, heavy_files, read_references, select_tests
from tests.plugins.prices import HEAVY, read_prices
from tests.plugins.tiers import ROOT, TIERS, is_system

MOST_TRIED_AGAIN = 3
MOST_OPEN = 4
BUDGET = 240.0
"""Seconds of CPU for the heavy tests that a change concerns."""
EXAMPLES = {"ordinary": 40, "landing": 100, "everything": 400}
"""Of Hypothesis, for each cheap property: see tests/conftest.py."""


@dataclass(frozen=True)
class Entry:
    """A test that failed and passed when it ran once more. ``traceback`` is a hash without what varies."""

    test: str
    date: str
    commit: str
    traceback: str
    cause: str = ""
    fix: str = ""

    @property
    def is_open(self) -> bool:
        return not (self.cause and self.fix)

    def as_toml(self) -> str:
        members = ("test", "date", "commit", "traceback", "cause", "fix")
        lines = [f"{name} = {json.dumps(getattr(self, name), ensure_ascii=False)}" for name in members]
        return "\n".join(["[[entry]]", *lines, ""])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.landing")
    parser.add_argument("tier", choices=[*TIERS, "chosen"], help="chosen: what ARGUMENTS name, in one try")
    parser.add_argument(
        "--root", type=Path, default=ROOT, help="where another suite is, for tests of this file"
    )
    options, others = parser.parse_known_args(arguments)
    suite = Suite(options.root)
    if options.tier == "chosen":
        return suite.run([*parallel(), *others])
    if problem := overdue(suite.entries()):
        print(problem, file=sys.stderr)
        return 1
    os.environ.setdefault("TABANE_EXAMPLES", str(EXAMPLES[options.tier]))
    with tempfile.TemporaryDirectory(prefix="tabane-landing-") as folder:
        failures, also = Path(folder) / "failures.json", Path(folder) / "also.txt"
        also.write_text("\n".join(concerned() if options.tier == "landing" else ()), encoding="utf-8")
        tier = ["--tier", options.tier, "--also", str(also)]
        status = suite.run([*parallel(), *tier, *others], failures)
        if status != pytest.ExitCode.TESTS_FAILED or not failures.exists():
            return status
        return suite.second_try(json.loads(failures.read_text(encoding="utf-8")))


def concerned() -> Sequence[str]:
    """Return the files whose heavy tests a landing runs, and print what it has no room for."""
    files, tests = read_prices()
    heavy = heavy_files(ROOT)
    prices = {name: price if is_system(name) else 0.0 for name, price in files.items()}
    for test, price in tests.items():
        file = test.partition("::")[0]
        if price >= HEAVY and not is_system(file):
            prices[file] = prices.get(file, 0.0) + price
    if not RECORD.exists():
        return list(heavy)
    record = Coverage.parse(RECORD.read_text(encoding="utf-8"))
    changes = find_changes(ROOT, record.commit)
    chosen = select_tests(changes, record, heavy, read_references(ROOT), prices, BUDGET)
    cost = sum(prices.get(name, 0.0) for name in chosen.run)
    print(f"{len(chosen.run)} files of heavy tests meet the change: {cost:.0f} s of CPU.", chosen.everything)
    if chosen.left_out:
        print(
            f"{len(chosen.left_out)} more would cost too much; make everything runs them:", *chosen.left_out
        )
    return chosen.run


def parallel() -> list[str]:
    """Return the options for all cores, and one worker more: tests wait as often as they compute."""
    return ["-n", str((os.cpu_count() or 1) + 1), "--dist", "loadfile", "--no-loadscope-reorder"]


class Suite:
    """The tests below a folder, and their ledger."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ledger = root / "tests" / "unsteady.toml"

    def run(self, arguments: Sequence[str], failures: Path | None = None) -> int:
        """Run pytest in a process of its own, and return its exit status. Write failed tests to the file."""
        ours = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(self._root)]
        if failures is not None:
            failures.unlink(missing_ok=True)
            ours += ["--failures", str(failures)]
        command = [sys.executable, "-m", "pytest", *ours, *arguments]
        return subprocess.run(command, cwd=self._root, check=False).returncode

    def second_try(self, failed: Mapping[str, str]) -> int:
        """Run each failed test alone. Return 0, with an entry for each, if all of them pass."""
        if not 0 < len(failed) <= MOST_TRIED_AGAIN:
            print(f"{len(failed)} failed. At most {MOST_TRIED_AGAIN} are tried once more.", file=sys.stderr)
            return 1
        entries = []
        for test, traceback in failed.items():
            print(f"\n== once more, alone: {test}", flush=True)
            if self.run(["--tier", "everything", test]):
                print(f"failed twice: {test}", file=sys.stderr)
                return 1
            entries.append(entry_for(test, traceback))
        for entry, traceback in zip(entries, failed.values(), strict=True):
            print(
                f"\n== passed in the second try: {entry.test}\n{traceback}\n\n{entry.as_toml()}", flush=True
            )
        return self._kept(entries)

    def _kept(self, entries: Sequence[Entry]) -> int:
        if os.environ.get("CI") == "true":
            print(
                "Put this into tests/unsteady.toml. It is not written here: CI throws its clone away.",
                flush=True,
            )
            return 0
        with self._ledger.open("a", encoding="utf-8") as file:
            file.writelines(f"\n{entry.as_toml()}" for entry in entries)
        problem = overdue(self.entries())
        print(problem or "Written to tests/unsteady.toml: find the cause.", flush=True)
        return 1 if problem else 0

    def entries(self) -> list[Entry]:
        """Return what the ledger has."""
        text = self._ledger.read_text(encoding="utf-8") if self._ledger.exists() else ""
        return [Entry(**row) for row in tomllib.loads(text).get("entry", [])]


def entry_for(test: str, traceback: str) -> Entry:
    done = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    return Entry(
        test=test,
        date=datetime.now(UTC).date().isoformat(),
        commit=done.stdout.strip(),
        traceback=digest(traceback),
    )


def digest(traceback: str) -> str:
    """Return a hash of a traceback that is the same for another process, port, time and folder."""
    constant = re.sub(r"0x[0-9a-f]+|/tmp/\S+|\d+", "#", traceback)
    return hashlib.sha256(constant.encode()).hexdigest()[:16]


def overdue(entries: Sequence[Entry]) -> str:
    """Return why no run can pass now; "" if it can."""
    tests = [entry.test for entry in entries if entry.is_open]
    if len(tests) <= MOST_OPEN:
        return ""
    head = f"{len(tests)} tests passed only in a second try, and their causes are not known."
    return "\n  ".join([f"{head} Fix them, and write cause and fix into tests/unsteady.toml:", *tests])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
