"""The structure of the source: unique class names, no import circles, a small composition root, a map."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.plugins.prices import read_prices, summary
from tests.plugins.tiers import ROOT, SYSTEMS

SOURCE = ROOT / "src" / "tabane"
MAP = ROOT / "ARCHITECTURE.md"
MOST_LINES, MOST_IMPORTS = 260, 25
"""Of hub.py: it composes the parts and does nothing else."""


def module(file: Path) -> str:
    parts = ("tabane", *file.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module, known: Iterable[str]) -> set[str]:
    """Return the modules that a module imports anywhere, in functions and under TYPE_CHECKING too."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
            if any(f"{node.module}.{alias.name}" not in known for alias in node.names):
                names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names & set(known)


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the modules of one circle, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.fixture(scope="module")
def trees(source: Mapping[Path, ast.Module]) -> dict[str, ast.Module]:
    return {module(file): tree for file, tree in source.items()}


@pytest.mark.heavy("many cases")
def test_a_class_name_exists_once(trees: dict[str, ast.Module]) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.heavy("many cases")
def test_no_modules_import_each_other_in_a_circle(trees: dict[str, ast.Module]) -> None:
    assert circle({name: imported(tree, trees) - {name} for name, tree in trees.items()}) == []


def test_a_circle_is_found_under_type_checking_too() -> None:
    first = ast.parse("if TYPE_CHECKING:\n    from room.second import Thing")
    second = ast.parse("def work():\n    from room import first")
    known = {"room.first", "room.second"}
    graph = {"room.first": imported(first, known), "room.second": imported(second, known)}
    assert set(circle(graph)) == known


def test_the_hub_only_composes(trees: dict[str, ast.Module]) -> None:
    nodes = [node for node in ast.walk(trees["tabane.hub.hub"]) if isinstance(node, ast.ImportFrom)]
    imports = {node.module for node in nodes if node.module and node.module.startswith("tabane")}
    lines = (SOURCE / "hub" / "hub.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MOST_LINES
    assert len(imports) <= MOST_IMPORTS


def test_every_file_that_the_map_names_is_there() -> None:
    text = MAP.read_text(encoding="utf-8")
    named = re.findall(r"`((?:[\w.]+/)*[\w]+(?:\.py|/))`", text)
    missing = {name for name in named if not any((base / name).exists() for base in (SOURCE, ROOT))}
    assert named, "ARCHITECTURE.md names no file"
    assert missing == set()


def test_the_map_says_where_to_find_twenty_behaviors() -> None:
    table = MAP.read_text(encoding="utf-8").partition("## Where to find")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) >= 20


EDITS = (
    *("add_server", "add_servers", "change_server", "change_servers", "remove_server", "enable_server"),
    *("store.keep", "store.forget", "store.add", "keeping"),
)
"""Calls in commands that change a file of the hub."""

_PRINTING = re.compile(
    r"click\.(?:echo|secho|style|prompt|confirm)\(|(?<![\w.])print\(|std(?:out|err)(?:\.buffer)?\.write"
)


def test_every_command_prints_through_the_door_that_cleans() -> None:
    files = sorted((SOURCE / "cli").rglob("*.py"))
    wrong = [
        f"{path.relative_to(SOURCE)}: {found[0]}"
        for path in files
        if path.name != "output.py"
        for found in _PRINTING.finditer(path.read_text(encoding="utf-8"))
    ]
    assert files
    assert wrong == [], "print with emit() or a method of Terminal, of cli/output.py"


def test_every_edit_of_a_hubs_file_waits_for_the_hub() -> None:
    alone = [place for file in sorted((SOURCE / "cli").rglob("*.py")) for place in _edits_alone(file)]
    assert not alone, "put it into `with files_changed(terminal)`, so that done means done"


def _edits_alone(file: Path) -> Iterator[str]:
    """Yield calls that edit a file of the hub outside of a block that waits for the running hub."""
    tree = ast.parse(file.read_text())
    waiting = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.With) and "files_changed(" in ast.unparse(block.items[0])
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in EDITS and id(node) not in waiting:
            yield f"{file.name}:{node.lineno} {ast.unparse(node.func)}"


def test_no_command_reads_more_fields_of_answers_by_their_names() -> None:
    """Read a result as its type, with `read_result`: a wrong name of a field is then an error of mypy.

    The files that still read names are counted in untyped_answers.json. The counts only fall.
    """
    known = json.loads((ROOT / "tests" / "structure" / "untyped_answers.json").read_text())
    for file in sorted((SOURCE / "cli").rglob("*.py")):
        name = str(file.relative_to(SOURCE / "cli"))
        count = sum(map(_names_a_field, ast.walk(ast.parse(file.read_text()))))
        assert count <= known.get(name, 0), f"{name}: {count} fields read by their names"


def _names_a_field(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    )


def test_every_file_with_a_price_and_every_whole_system_exists() -> None:
    files, _ = read_prices()
    assert [name for name in (*files, *SYSTEMS) if not (ROOT / name).exists()] == []


def test_the_table_of_prices_is_the_recorded_one() -> None:
    table = summary(*read_prices())
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert table in text, "write there what python -m tests.plugins.prices prints"
