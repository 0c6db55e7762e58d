"""The hall that all cells of the grid share: it holds every kind of server at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.grid.hall import Hall, hall


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    with hall(tmp_path_factory.mktemp("grid")) as built:
        yield built
