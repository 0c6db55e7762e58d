"""The town of a module of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hostile.town import Town


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    town = Town(tmp_path_factory.mktemp("town"))
    yield town
    town.end()
