"""Recorded coverage: which modules of src each test file executes, and which test files a change needs.

The record is ``tests/coverage.json``. `find_changes` compares its commit with the working copy, and
`select_tests` chooses test files that meet the change, within a budget of CPU seconds.
"""

from __future__ import annotations

import ast
import json
import math
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "tests" / "coverage.json"

MOST_MOVED = 100
"""Files under src and tests that may be renamed or deleted before the record says nothing any more."""
NEAR = 0.1
"""Share of the files: a changed helper that reaches at most these is near to each of them."""
DEPENDENCIES = frozenset(("pyproject.toml", "uv.lock", "hatch_build.py"))
FOLDERS = {
    "docs/": "tests/e2e/docs/",
    "README": "tests/e2e/docs/",
    "src/tabane/web/static/": "tests/web/browser/",
    "src/tabane/web/templates/": "tests/web/browser/",
}
"""Where the tests of files are that are no modules, by how their paths begin."""


@dataclass(frozen=True)
class Coverage:
    """Modules of src with an executed function, for each test file. Paths are relative to the root."""

    commit: str
    modules: frozenset[str]
    tests: Mapping[str, frozenset[str]]

    @classmethod
    def parse(cls, text: str) -> Coverage:
        table = json.loads(text)
        modules = table["modules"]
        tests = {
            test: frozenset(name for place, name in enumerate(modules) if bits >> place & 1)
            for test, bits in ((test, int(digits, 16)) for test, digits in table["tests"].items())
        }
        return cls(table["commit"], frozenset(modules), tests)

    def render(self) -> str:
        """Return JSON with a line for each test file: bit n of its number is module n."""
        modules = sorted(self.modules)
        bits = {
            test: sum(1 << place for place, name in enumerate(modules) if name in self.tests[test])
            for test in sorted(self.tests)
        }
        lines = ",\n".join(f'"{test}": "{number:x}"' for test, number in bits.items())
        head = f'"commit": "{self.commit}",\n"modules": {json.dumps(modules, indent=0)}'
        return f'{{\n{head},\n"tests": {{\n{lines}\n}}\n}}\n'


@dataclass(frozen=True)
class Changes:
    """Paths that differ from a commit, with the former names of renamed files."""

    paths: frozenset[str]
    everything: str = ""
    """Why every test has to run; empty if a selection is enough."""


@dataclass(frozen=True)
class Selection:
    run: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Test files that meet the change, and that the budget has no room for."""
    everything: str = ""


def find_changes(root: Path, commit: str) -> Changes:
    """Return what differs between a commit and the working copy, uncommitted and untracked files included."""
    git = ("git", "-C", str(root))
    known = subprocess.run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], stderr=subprocess.DEVNULL)
    if known.returncode:
        return Changes(frozenset(), f"commit {commit} is unknown to git")
    status = _output(*git, "diff", "--name-status", "--find-renames", "-z", commit)
    return parse_changes(status, _output(*git, "ls-files", "--others", "--exclude-standard", "-z"))


def parse_changes(status: str, untracked: str = "") -> Changes:
    """Return the changes in the output of ``git diff --name-status -z`` and of ``git ls-files -z``."""
    paths = set(untracked.split("\0")[:-1])
    moved = 0
    fields = iter(status.split("\0")[:-1])
    for kind in fields:
        names = [next(fields) for _ in range(2 if kind[0] in "RC" else 1)]
        paths.update(names)
        moved += kind[0] in "RD" and names[0].startswith(("src/", "tests/"))
    why = f"{moved} files were renamed or deleted" if moved > MOST_MOVED else ""
    if changed := sorted(paths & DEPENDENCIES):
        why = f"{', '.join(changed)} changed"
    return Changes(frozenset(paths), why)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def read_references(root: Path) -> Mapping[str, frozenset[str]]:
    """Return what each module of tests refers to: modules of tests, and other files outside src."""
    listed = _output("git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z")
    paths = [path for path in listed.split("\0") if path and (root / path).exists()]
    sources = {
        path: (root / path).read_text(encoding="utf-8")
        for path in paths
        if path.startswith("tests/") and path.endswith(".py")
    }
    return find_references(sources, [path for path in paths if not path.startswith("src/")])


def find_references(sources: Mapping[str, str], paths: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return which of the paths each module imports or names in a string, and each conftest.py above it."""
    known = defaultdict(set)
    for path in paths:
        name = PurePosixPath(path).name
        if name not in ("__init__.py", "conftest.py") and "." in name:
            known[name].add(path)
        if path.endswith(".py"):
            known[path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")].add(path)
    references = {}
    for path, source in sources.items():
        above = {f"{folder}/conftest.py" for folder in PurePosixPath(path).parents}
        names = set(_names(ast.parse(source)))
        named = (_closest(known.get(name, set()), path, names) for name in names)
        references[path] = frozenset((above & sources.keys()).union(*named) - {path})
    return references


def _closest(candidates: set[str], path: str, names: Collection[str]) -> set[str]:
    """Return the candidates in the folder of the path, or in one that is named with them; if none is, all."""
    folders = {candidate: PurePosixPath(candidate).parent for candidate in candidates}
    here = PurePosixPath(path).parent
    return {name for name, folder in folders.items() if folder == here or folder.name in names} or candidates


def _names(tree: ast.Module) -> Iterator[str]:
    """Yield names of modules that are imported anywhere, and each short string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            yield node.value
            yield node.value.rpartition("/")[2]


def select_tests(
    changes: Changes,
    coverage: Coverage,
    heavy: Collection[str],
    references: Mapping[str, frozenset[str]],
    prices: Mapping[str, float],
    budget: float,
) -> Selection:
    """Choose from the heavy test files those that meet the change.

    A file that changed, one without a record, and one near to a changed helper are always chosen. The others
    come by what they meet for each CPU second, until the budget has no room. A changed path counts more if
    fewer files meet it (log(N/n)), and half as much after each chosen file that meets it.
    """
    if changes.everything:
        return Selection(tuple(sorted(heavy)), (), changes.everything)
    meeting = {path: _meeting(path, coverage, frozenset(heavy), references) for path in changes.paths}
    always = {test for test in heavy if test in changes.paths or test not in coverage.tests}
    for path, tests in meeting.items():
        if path.startswith("tests/") and len(tests) <= NEAR * len(heavy):
            always |= tests
    weights = {path: math.log(len(heavy) / len(tests)) for path, tests in meeting.items() if tests}
    met = {test: [path for path in weights if test in meeting[path]] for test in sorted(heavy)}
    left = {test for test, paths in met.items() if paths} | always
    chosen: list[str] = []

    def worth(test: str) -> tuple[bool, float, float, str]:
        price = max(prices.get(test, 0.0), 1.0)
        return test in always, sum(weights[path] for path in met[test]) / price, -price, test

    while left:
        best = max(left, key=worth)
        left.remove(best)
        price = prices.get(best, 0.0)
        if best not in always and price > budget:
            continue
        budget -= price
        chosen.append(best)
        for path in met[best]:
            weights[path] /= 2
    every = {test for test, paths in met.items() if paths}
    return Selection(tuple(sorted(chosen)), tuple(sorted(every.difference(chosen))))


def _meeting(
    path: str, coverage: Coverage, heavy: frozenset[str], references: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """Return the heavy test files that a changed path concerns."""
    for beginning, folder in FOLDERS.items():
        if path.startswith(beginning):
            return frozenset(test for test in heavy if test.startswith(folder))
    if not path.startswith("src/"):
        referring = heavy & _referring(path, references)
        return referring or frozenset(test for test in heavy if test.startswith(_folder(path)))
    executed = {test for test in heavy if path in coverage.tests.get(test, ())}
    if not executed:  # data, constants, or a new module: what uses its folder uses it
        room = _room(path, coverage.modules)
        executed = {test for test in heavy if not room.isdisjoint(coverage.tests.get(test, ()))}
    return frozenset(executed)


def _room(path: str, modules: Collection[str]) -> frozenset[str]:
    """Return the modules in the nearest folder above the path that has some."""
    for folder in PurePosixPath(path).parents:
        if room := frozenset(name for name in modules if PurePosixPath(name).parent == folder):
            return room
    return frozenset()


def _folder(path: str) -> str:
    """Return the folder of tests that a file of data is in, with a slash; of the top one, the path itself."""
    folder = f"{PurePosixPath(path).parent}/"
    return path if folder in ("./", "tests/") else folder


def _referring(path: str, references: Mapping[str, frozenset[str]]) -> set[str]:
    """Return the modules that refer to a path, over any number of others, and itself."""
    found, new = set(), {path}
    while new:
        found |= new
        new = {module for module, others in references.items() if not others.isdisjoint(new)} - found
    return found
