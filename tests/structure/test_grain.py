"""Grain of the source: private functions that are called once, late imports, and lambdas in place of objects.

Run ``python -m tests.structure.test_grain`` to write new bounds, after a change that lowers them.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.plugins.tiers import ROOT

SOURCE = ROOT / "src" / "tabane"
BOUNDS = Path(__file__).with_name("grain.json")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

pytestmark = pytest.mark.heavy("parses every module of the source")


def used_names(tree: ast.AST) -> Counter[str]:
    """Return how often a module uses each name, as a variable or as an attribute."""
    uses: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            uses[node.id] += 1
        elif isinstance(node, ast.Attribute):
            uses[node.attr] += 1
    return uses


def late_imports(node: ast.AST, inside: bool = False) -> Iterator[str]:
    """Yield the modules of Tabane that functions import, each import once."""
    for child in ast.iter_child_nodes(node):
        if inside and isinstance(child, ast.ImportFrom) and (child.module or "").startswith("tabane"):
            yield f"{child.module}.{child.names[0].name}"
        elif inside and isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names if alias.name.startswith("tabane"))
        yield from late_imports(child, inside or isinstance(child, FUNCTIONS))


@cache
def grain() -> dict[str, int]:
    """Return the figures that may only fall. ``called_once`` is per 10,000 statements."""
    found: Counter[str] = Counter()
    statements = 0
    for file in SOURCE.rglob("*.py"):
        tree = ast.parse(file.read_text())
        room = file.relative_to(SOURCE).parts[0]
        uses = used_names(tree)
        for node in ast.walk(tree):
            statements += isinstance(node, ast.stmt)
            found["thunks"] += isinstance(node, ast.Lambda) and not node.args.args
            found["called_once"] += (
                isinstance(node, FUNCTIONS)
                and node.name.startswith("_")
                and not node.name.startswith("__")
                and uses[node.name] == 1
            )
        late = list(late_imports(tree))
        found["late_imports"] += len(late)
        found["late_imports_of_the_room"] += sum(name.split(".")[1:2] == [room] for name in late)
    return {**found, "called_once": round(found["called_once"] * 10_000 / statements)}


@pytest.mark.parametrize("figure", ["called_once", "late_imports", "late_imports_of_the_room", "thunks"])
def test_the_grain_gets_no_finer(figure: str) -> None:
    bound = json.loads(BOUNDS.read_text())[figure]
    assert grain()[figure] <= bound, (
        f"{figure}: {grain()[figure]}, at most {bound}: see the rules in CONTRIBUTING.md"
    )


if __name__ == "__main__":
    BOUNDS.write_text(json.dumps(grain(), indent=1, sort_keys=True) + "\n")
