"""The hall that all cells of the grid share: it holds every kind of server at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from tests.e2e.protocol.grid.cell import Cell
from tests.harness.official_client import KINDS, GridHub, grid_hub

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as core, of each test, variants in which every two values of its parameters come together."""
    variants: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.path.parent == HERE:
            variants[f"{item.path}:{item.originalname}"].append(item)
    for several in variants.values():
        missing = set().union(*map(pairs, several))
        while missing:
            best = max(several, key=lambda item: len(pairs(item) & missing))
            best.add_marker("core")
            missing -= pairs(best)


def pairs(item: pytest.Function) -> set[tuple[str, str]]:
    """Return each two values that come together in a variant of a test, and each value with itself."""
    values = [""]
    for name, value in item.callspec.params.items() if hasattr(item, "callspec") else ():
        parts = (value.era, value.way, value.kind) if isinstance(value, Cell) else (value,)
        values += [f"{name}.{number}={part}" for number, part in enumerate(parts)]
    return {*combinations(values, 2), *((value, value) for value in values)}


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
