"""The hub that the tests of a module share: a new one is started after a test that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.faults.hostile.assistants import SharedHub

CORE = 40
"""Servers of a landing, evenly from all of them."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if item.path.parent == Path(__file__).parent]
    for item in here[:: max(len(here) // CORE, 1)]:
        item.add_marker("core")


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], SharedHub]]:
    found: list[SharedHub] = []

    def one() -> SharedHub:
        if not found or not found[-1].sound:
            for shared_hub in found:
                shared_hub.end()
            found[:] = [SharedHub(tmp_path_factory.mktemp("shared_hub"))]
        return found[-1]

    yield one
    for shared_hub in found:
        shared_hub.end()


@pytest.fixture
def shared_hub(hubs: Callable[[], SharedHub]) -> SharedHub:
    return hubs()
