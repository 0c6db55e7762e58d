"""Plugin of pytest in a laboratory: tests in a chosen order, what each costs, and which one runs now."""

from __future__ import annotations

import json
import mmap
import os
import resource
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.prices import spent

MOST_MEMORY = 6 << 30
"""Bytes of a process; a mutant may ask for memory without end."""

SHARED = 1 << 31
"""This bit of the number of a test: a fixture is set up that other tests of its file use, too."""


class Chosen:
    """Reads ``chosen.json``, and writes ``results.json``, and the number of the test that runs to ``now``."""

    def __init__(self, folder: Path) -> None:
        self._results_file = folder / "results.json"
        self._chosen: list[str] | None = json.loads((folder / "chosen.json").read_text())
        with open(folder / "now", "r+b") as file:
            self._now = mmap.mmap(file.fileno(), 4)
        self._numbers: dict[str, int] = {}
        self._current = 0
        self._results: dict[str, dict[str, Any]] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        yield
        if self._chosen is not None:
            found = {item.nodeid: item for item in items}
            items[:] = [found[name] for name in self._chosen if name in found]
        self._numbers = {item.nodeid: number for number, item in enumerate(items, 1)}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._current = self._numbers[nodeid]
        self._tell(self._current)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        if fixturedef.scope != "function":
            self._tell(self._current | SHARED)
        try:
            return (yield)
        finally:
            self._tell(self._current)

    def _tell(self, number: int) -> None:
        self._now[:] = number.to_bytes(4, "big")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        result = self._results.setdefault(report.nodeid, {"passed": True, "cpu": 0.0, "seconds": 0.0})
        result["passed"] = result["passed"] and not report.failed
        result["seconds"] += report.duration
        result["cpu"] += sum(float(str(value)) for name, value in report.user_properties if name == "cpu")

    def pytest_sessionfinish(self) -> None:
        self._results_file.write_text(json.dumps({"results": self._results, "cpu": spent()}))


def pytest_configure(config: pytest.Config) -> None:
    hardest = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, hardest))
    config.pluginmanager.register(Chosen(Path(os.environ.pop("TABANE_MUTANTS"))))
