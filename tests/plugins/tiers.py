"""Which tests a run has: `--tier ordinary`, `landing` or `everything`. Without it, those that are named.

- ordinary: what a newcomer runs. No test marked `heavy` or `everything`, and no whole system.
- landing: these, the tests of whole systems that are marked `core`, and the heavy ones that `--also` names.
- everything: all tests, with more examples of Hypothesis.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIERS = ("ordinary", "landing", "everything")
SYSTEMS = (
    "tests/e2e/faults/hostile",
    "tests/e2e/protocol/grid",
    "tests/e2e/real",
    "tests/e2e/upgrades",
    "tests/hub/http/test_browser.py",
    "tests/reader/rendering",
    "tests/web/browser",
)
"""Whole systems: browsers, servers nobody here wrote, pairs of revisions, hostile servers, upgrades."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tabane")
    group.addoption("--tier", choices=TIERS, help="which tests run: see CONTRIBUTING.md")
    group.addoption("--also", metavar="FILE", type=Path, help="file with heavy test files for the landing")


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "heavy(reason): costs 1 second of CPU or more, which make test does not pay",
        "everything(reason): depends on time or on luck, and runs in make everything only",
        "core: of a whole system, what a landing runs",
    ):
        config.addinivalue_line("markers", line)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import whole systems for ordinary tests."""
    path = os.path.relpath(collection_path, ROOT)
    return True if config.getoption("--tier") == "ordinary" and is_system(path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier = config.getoption("--tier")
    if tier in (None, "everything"):
        return
    also = frozenset(_lines(config.getoption("--also")))
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (kept if _belongs(item, tier, also) else left).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


def is_system(path: str) -> bool:
    """Return whether a file or folder of tests is, or lies in, a whole system."""
    return any(path == system or path.startswith(f"{system}/") for system in SYSTEMS)


def is_heavy(item: pytest.Item) -> bool:
    """Return whether a test may cost more than an ordinary one."""
    return item.get_closest_marker("heavy") is not None or is_system(item.nodeid.partition("::")[0])


def _belongs(item: pytest.Item, tier: str, also: frozenset[str]) -> bool:
    if item.get_closest_marker("everything") is not None:
        return False
    if not is_heavy(item):
        return True
    file = item.nodeid.partition("::")[0]
    return tier == "landing" and (file in also or item.get_closest_marker("core") is not None)


def _lines(file: Path | None) -> Iterator[str]:
    if file is not None:
        yield from file.read_text(encoding="utf-8").splitlines()
