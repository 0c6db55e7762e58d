"""One world for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.access.world import SharedWorld, shared_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedWorld]:
    with shared_world(tmp_path_factory.mktemp("world")) as shared:
        yield shared
