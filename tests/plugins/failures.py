"""Failed tests with their first traceback, as a file for the second try: `--failures FILE`."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest


class Failures:
    """Collects the reports that failed, in the process that reports come to."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._tracebacks: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._tracebacks.setdefault(report.nodeid, report.longreprtext)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tracebacks.setdefault(report.nodeid, report.longreprtext)

    def pytest_sessionfinish(self) -> None:
        self._file.write_text(json.dumps(self._tracebacks), encoding="utf-8")


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Escape half surrogate pairs in a report: a worker that cannot send it ends the whole run."""
    return _sendable((yield))


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_sendable(name): _sendable(each) for name, each in value.items()}
    return type(value)(map(_sendable, value)) if isinstance(value, list | tuple) else value


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("tabane").addoption("--failures", metavar="FILE", type=Path, help="write failures there")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--failures")
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(file), "failures")
