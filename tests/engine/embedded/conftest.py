from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.embedded.dying import Nursery


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery
