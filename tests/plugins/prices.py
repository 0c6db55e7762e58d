"""The price of each test: seconds of CPU that its process and everything it started have used.

What a module or the whole run shares (a fixture of wider scope) is not part of a test's price. Processes that
were started by a test count while they live, and after their parent has waited for them. A hub that detaches
has tests.harness.command_forker as its parent. Elsewhere than on Linux, only processes that have ended count.

`tests/prices.json` has what was recorded: files with the sum of their tests, and each test of a tenth of a
second or more. Files run in that order, the most expensive first, so that no worker is left with one of them
at the end. `--record FILE` writes a new table.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.tiers import ROOT, is_heavy, is_system

TABLE = ROOT / "tests" / "prices.json"
HEAVY = 1.0
"""Seconds of CPU from which a test has to be marked `heavy`, with the reason."""
MOST_WITHOUT_MARK = 4.0
"""Seconds of CPU that fail a test without the mark. Load of the machine and first imports count, too."""
LEAST_RECORDED = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")


def read_prices(table: Path = TABLE) -> tuple[dict[str, float], dict[str, float]]:
    """Return the recorded seconds of files, and those of tests."""
    if not table.exists():
        return {}, {}
    recorded = json.loads(table.read_text(encoding="utf-8"))
    return recorded["files"], recorded["tests"]


def write_prices(seconds: dict[str, float], table: Path) -> None:
    """Write what tests cost, as :func:`read_prices` reads it."""
    files: dict[str, float] = {}
    for test, price in seconds.items():
        file = test.partition("::")[0]
        files[file] = files.get(file, 0.0) + price
    recorded = {
        "files": {name: round(files[name], 1) for name in sorted(files)},
        "tests": {
            name: round(seconds[name], 2) for name in sorted(seconds) if seconds[name] >= LEAST_RECORDED
        },
    }
    table.write_text(json.dumps(recorded, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


def spent() -> float:
    """Return seconds of CPU: of this process, of what it waited for, and of what lives below it."""
    waited = resource.getrusage(resource.RUSAGE_CHILDREN)
    below = sum(_ticks(pid) for pid in _descendants(os.getpid()))
    return time.process_time() + waited.ru_utime + waited.ru_stime + below / _TICKS


def _descendants(pid: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        for thread in threads:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                for child in map(int, file.read().split()):
                    yield child
                    yield from _descendants(child)
    except OSError:  # it has ended meanwhile, or this is not Linux
        return


def _ticks(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return sum(map(int, file.read().rpartition(b")")[2].split()[11:15]))
    except OSError:
        return 0


Report = Generator[None, pytest.TestReport, pytest.TestReport]


class Prices:
    """Measures in each worker, and collects in the process that the reports come to."""

    def __init__(self, config: pytest.Config) -> None:
        self._record: Path | None = config.getoption("--record")
        self._judges = bool(config.getoption("--tier")) and not self._record
        self._is_worker = hasattr(config, "workerinput")
        self._files, self._tests = read_prices()
        self._since = spent()
        self._shared = self._price = 0.0
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: -self._files.get(item.nodeid.partition("::")[0], 0.0))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function":
            return (yield)
        before, within = spent(), self._shared
        try:
            return (yield)
        finally:
            self._shared = within + spent() - before

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._since, self._price = spent(), 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = spent()
        price = max(now - self._since - self._shared, 0.0)
        self._since, self._shared = now, 0.0
        self._price += price
        report.user_properties.append(("cpu", price))
        if report.when == "teardown" and report.passed and self._is_too_dear(item):
            report.outcome = "failed"
            report.longrepr = (
                f"{item.nodeid} costs {self._price:.1f} seconds of CPU. A test of {HEAVY:g} second or more "
                'needs @pytest.mark.heavy("reason"): make test leaves it out then. Can it cost less?'
            )
        return report

    def _is_too_dear(self, item: pytest.Item) -> bool:
        if not self._judges or is_heavy(item):
            return False
        known = self._tests.get(item.nodeid, 0.0)
        return known >= HEAVY or self._price > max(MOST_WITHOUT_MARK, 4 * known)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "cpu" and isinstance(value, float):
                self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + value

    def pytest_sessionfinish(self) -> None:
        if self._record and not self._is_worker:
            write_prices(self._seconds, self._record)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("tabane").addoption("--record", metavar="FILE", type=Path, help="write prices there")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Prices(config), "prices")


def summary(files: Mapping[str, float], tests: Mapping[str, float]) -> str:
    """Return a Markdown table of CPU seconds: of each room, and of whole systems."""
    rows: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    heavy: dict[str, float] = defaultdict(float)
    for test, price in tests.items():
        heavy[test.partition("::")[0]] += price if price >= HEAVY else 0.0
    for file, price in files.items():
        room = "whole systems" if is_system(file) else file.split("/")[1].removesuffix(".py")
        dear = price if is_system(file) else min(heavy[file], price)
        rows[room][0] += price - dear
        rows[room][1] += dear
    rows["all"] = [sum(row[column] for row in rows.values()) for column in (0, 1)]
    by_price = sorted(rows, key=lambda room: (room == "all", -sum(rows[room])))
    lines = [f"| {room} | {rows[room][0]:.0f} | {rows[room][1]:.0f} |" for room in by_price]
    return "\n".join(["| CPU seconds of tests | ordinary | heavy |", "|---|---|---|", *lines])


if __name__ == "__main__":
    print(summary(*read_prices()))
