"""The price of each test: seconds of CPU that its process and everything it started have used.

What a module or the whole run shares (a fixture of wider scope) is not part of a test's price. Processes that
were started by a test count while they live, and after their parent has waited for them. A hub that detaches
has tests.harness.command_forker as its parent. Elsewhere than on Linux, only processes that have ended count.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")


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


class Prices:
    """Measures in each worker, and collects in the process that the reports come to."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._since = spent()
        self._shared = 0.0
        self.seconds: dict[str, float] = {}

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
        self._since = spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = spent()
        report.user_properties.append(("cpu", round(max(now - self._since - self._shared, 0.0), 3)))
        self._since, self._shared = now, 0.0
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "cpu" and isinstance(value, float):
                self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + value

    def pytest_sessionfinish(self) -> None:
        if not hasattr(self._config, "workerinput") and (path := os.environ.get("TABANE_TEST_PRICES")):
            table = {test: round(self.seconds[test], 3) for test in sorted(self.seconds)}
            Path(path).write_text(json.dumps(table, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Prices(config), "prices")
