"""The structure of source and tests: rooms, class names, import circles, long modules, a map."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.plugins.prices import read_prices, summary
from tests.plugins.tiers import ROOT, SYSTEMS

SOURCE = ROOT / "src" / "tabane"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
MAP = ROOT / "docs" / "development" / "map.md"
PAGES = (ARCHITECTURE, ROOT / "docs" / "decisions.md", *sorted(MAP.parent.glob("*.md")))
"""Pages that name files of the code."""

_PATH = re.compile(r"`((?:[\w.-]+/)+(?:[\w.-]+\.(?:py|c|css|html|js|json|jsonl|md|po|txt))?|\w+\.py)`")
MOST_LINES = 1000
ELSEWHERE = {
    "benchmarks": "tests of the folder benchmarks",
    "e2e": "whole systems, by theme",
    "harness": "what tests of several rooms use",
    "mutants": "make mutants",
    "package": "make package",
    "plugins": "plugins of pytest",
    "structure": "this folder",
    "guard/flows/quality": "a floor of quality",
    "guard/flows/reading": "texts that models read",
    "reader/quality": "a floor of quality",
    "search/quality": "a floor of quality",
    "upstreams/http": "modules http_*.py of the room",
    "web/browser": "pages in a browser",
}
"""Folders of tests that mirror no folder of the source, with what they are for."""


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


def folders(root: Path) -> set[str]:
    """Return the folders with modules below a folder, with slashes."""
    return {str(file.parent.relative_to(root)) for file in root.rglob("*.py")} - {"."}


def test_the_architecture_lists_the_rooms() -> None:
    table = ARCHITECTURE.read_text(encoding="utf-8").partition("## Rooms")[2].partition("\n## ")[0]
    cells = [line.split("|")[2] for line in table.splitlines() if line.startswith("| ")]
    listed = [name.removesuffix("/") for cell in cells for name in re.findall(r"`([\w./]+)`", cell)]
    modules = {file.name for file in SOURCE.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert sorted(listed) == sorted({name.partition("/")[0] for name in folders(SOURCE)} | modules)


def test_each_folder_has_its_layer_in_a_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    ordered = {
        f"{container.replace('.', '/')}/{name.strip()}".removeprefix("tabane/")
        for contract in settings["tool"]["importlinter"]["contracts"]
        for container in contract.get("containers", ())
        for layer in contract["layers"]
        for name in layer.split("|")
    }
    found = {folder for folder in folders(SOURCE) if folder.count("/") < 2}
    several = {folder for folder in found if _has_sibling(folder, found)}
    assert sorted(several - ordered) == []


def _has_sibling(folder: str, folders: Iterable[str]) -> bool:
    room = folder.rpartition("/")[0]
    return any(other != folder and other.rpartition("/")[0] == room for other in folders)


def test_folders_of_tests_mirror_those_of_the_source() -> None:
    there, tests = folders(SOURCE), folders(ROOT / "tests")
    elsewhere = {name for name in tests for other in ELSEWHERE if f"{name}/".startswith(f"{other}/")}
    assert sorted(tests - there - elsewhere) == []
    assert [name for name in ELSEWHERE if name not in tests] == []


def test_no_module_has_more_than_a_thousand_lines() -> None:
    lines = {
        str(file.relative_to(SOURCE)): len(file.read_text(encoding="utf-8").splitlines())
        for file in SOURCE.rglob("*.py")
    }
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


@pytest.mark.heavy("many cases")
def test_a_class_name_exists_once_in_a_room(trees: dict[str, ast.Module]) -> None:
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, tree in trees.items():
        room = ".".join(name.split(".")[:2])
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[room, node.name].append(name)
    assert {key: found for key, found in places.items() if len(found) > 1} == {}


@pytest.mark.heavy("many cases")
def test_no_modules_import_each_other_in_a_circle(trees: dict[str, ast.Module]) -> None:
    assert circle({name: imported(tree, trees) - {name} for name, tree in trees.items()}) == []


def test_a_circle_is_found_under_type_checking_too() -> None:
    first = ast.parse("if TYPE_CHECKING:\n    from room.second import Thing")
    second = ast.parse("def work():\n    from room import first")
    known = {"room.first", "room.second"}
    graph = {"room.first": imported(first, known), "room.second": imported(second, known)}
    assert set(circle(graph)) == known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    named = set(_PATH.findall(page.read_text(encoding="utf-8")))
    assert named
    assert {name for name in named if not any((base / name).exists() for base in (SOURCE, ROOT))} == set()


def test_the_map_names_every_folder_and_leads_to_all_behaviors() -> None:
    text = MAP.read_text(encoding="utf-8")
    assert {folder for folder in folders(SOURCE) if f"`{folder}/" not in text} == set()
    rows = [line for line in text.splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) >= 200


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
