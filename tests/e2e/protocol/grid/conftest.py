"""The hall that all cells of the grid share: it holds every kind of server at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.official_client import KINDS, GridHub, grid_hub


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GridHub]:
    with grid_hub(tmp_path_factory.mktemp("grid")) as built:
        yield built


@pytest.fixture(scope="module")
def rooted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GridHub]:
    """The old servers once more, each of which runs once for each set of folders."""
    old = tuple(kind for kind in KINDS if kind.era == "legacy")
    with grid_hub(tmp_path_factory.mktemp("rooted"), old, share="roots") as built:
        yield built
