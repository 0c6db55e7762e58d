"""The town of a test module: one for all its tests, and a new one after a test that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.faults.hostile.assistants import SharedHub


@pytest.fixture(scope="module")
def towns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], SharedHub]]:
    found: list[SharedHub] = []

    def one() -> SharedHub:
        if not found or not found[-1].sound:
            for town in found:
                town.end()
            found[:] = [SharedHub(tmp_path_factory.mktemp("town"))]
        return found[-1]

    yield one
    for town in found:
        town.end()


@pytest.fixture
def town(towns: Callable[[], SharedHub]) -> SharedHub:
    return towns()
