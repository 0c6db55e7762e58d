"""Recorded coverage: which modules of src each test file executes, and which test files a change needs.

The record is ``tests/coverage.json``. `find_changes` compares its commit with the working copy, and
`select_tests` chooses test files that meet the change, within a budget of CPU seconds.

``python -m tests.coverage [--jobs COUNT] [FILE …]`` records. Each job has a copy of the checkout. A compiled
module there sets a mark when one of its functions is called, in a file that is mapped into the memory of each
process. So processes count that are killed, forked or isolated, and those that inherit no variables. Two
modules run from their source, by its path, and set no mark: folder_worker.py and browser_watchdog.py.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import json
import marshal
import math
import os
import queue
import shutil
import subprocess
import sys
import sysconfig
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tests.plugins.prices import read_prices
from tests.plugins.tiers import ROOT, is_system

RECORD = ROOT / "tests" / "coverage.json"

MOST_MOVED = 100
"""Files under src and tests that may be renamed or deleted before the record says nothing any more."""
NEAR = 0.1
"""Share of the files: a changed helper that reaches at most these is near to each of them."""
DEPENDENCIES = frozenset(("uv.lock", "hatch_build.py"))
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

    Changed files, and those near to a changed helper, are always chosen. The others come by what they meet
    for each CPU second, until the budget has no room. One without a record meets what its room has. A path
    counts more if fewer files meet it (log(N/n)), and half as much after each chosen file that meets it.
    """
    if changes.everything:
        return Selection(tuple(sorted(heavy)), (), changes.everything)
    meeting = {path: _meeting(path, coverage, frozenset(heavy), references) for path in changes.paths}
    always = {test for test in heavy if test in changes.paths}
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
    executed |= {test for test in heavy - coverage.tests.keys() if test.split("/")[1] == path.split("/")[2]}
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


LIMIT = 1800
"""Seconds for one test file."""
_MARKS = "__tabane_marks__"
_MARKER = """
import mmap
try:
    with open({path!r}, "r+b") as file:
        marks = mmap.mmap(file.fileno(), 0)
except OSError:  # in a cage that has no such file
    marks = bytearray({size})
"""


@dataclass(frozen=True)
class Run:
    """A test file that has run: the modules of src with an executed function."""

    test: str
    passed: bool
    modules: frozenset[str]
    seconds: float


class Copy:
    """A copy of a checkout, with an environment of its own, whose modules mark what is executed."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._folder, self._marks = folder, folder.with_suffix(".marks")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(root, folder, symlinks=True, ignore=_left_out(root))
        for name in (".git", "build"):
            (folder / name).symlink_to(root / name)
        self._make_environment()
        sources = folder / "src"
        self.modules = sorted(str(path.relative_to(folder)) for path in sources.rglob("*.py"))
        (sources / "coverage_marks.py").write_text(
            _MARKER.format(path=str(self._marks), size=len(self.modules))
        )
        for number, name in enumerate(self.modules):
            compile_marked(folder / name, number)

    def _make_environment(self) -> None:
        """Link the packages and programs of the environment. Those that name its checkout name the copy."""
        environment = self._folder / ".venv"
        for folder in ("purelib", "scripts"):
            origin = Path(sysconfig.get_path(folder))
            copy = environment / origin.relative_to(sys.prefix)
            copy.mkdir(parents=True)
            for entry in origin.iterdir():
                _link_or_rewrite(entry, copy / entry.name, str(ROOT), str(self._folder))
        shutil.copy(Path(sys.prefix, "pyvenv.cfg"), environment)

    def run(self, test: str, arguments: Sequence[str] = ()) -> Run:
        """Run a test file. What is still alive of an earlier one marks in that one's file."""
        new = self._marks.with_suffix(".new")
        new.write_bytes(bytes(len(self.modules)))
        new.replace(self._marks)
        started = time.monotonic()
        python = self._folder / ".venv" / "bin" / "python"
        command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", *arguments, test]
        environment = os.environ | {"CI": "true"}  # what is missing is no skip, but a failure
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        log = self._folder.parent / "logs" / f"{test.replace('/', '.')}.txt"
        log.parent.mkdir(exist_ok=True)
        passed = False
        with log.open("wb") as output, contextlib.suppress(subprocess.TimeoutExpired):
            ended = subprocess.run(
                command, cwd=self._folder, env=environment, stdout=output, stderr=output, timeout=LIMIT
            )
            passed = ended.returncode == 0
        marks = self._marks.read_bytes()
        modules = frozenset(
            name for name, mark in zip(self.modules, marks, strict=True) if mark or not passed
        )
        return Run(test, passed, modules, time.monotonic() - started)


def _left_out(root: Path) -> Callable[[str, list[str]], set[str]]:
    def ignored(folder: str, names: list[str]) -> set[str]:
        top = {".git", ".venv", "build", "dist"} if Path(folder) == root else set()
        return {name for name in names if name in top or name == "__pycache__" or name.endswith("_cache")}

    return ignored


def _link_or_rewrite(entry: Path, copy: Path, before: str, after: str) -> None:
    if entry.is_file() and not entry.is_symlink() and entry.stat().st_size < 1 << 16:
        data = entry.read_bytes()
        if before.encode() in data:
            copy.write_bytes(data.replace(before.encode(), after.encode()))
            copy.chmod(entry.stat().st_mode)
            return
    copy.symlink_to(entry)


def compile_marked(path: Path, number: int) -> None:
    """Compile a module so that each of its functions sets a mark. The source is left as it is."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _insert(node.body, f"{_MARKS}[{number}] = 1")
    _insert(tree.body, f"from coverage_marks import marks as {_MARKS}")
    code = compile(tree, str(path), "exec")
    compiled = Path(importlib.util.cache_from_source(str(path)))
    compiled.parent.mkdir(exist_ok=True)
    never_checked = (1).to_bytes(4, "little") + bytes(8)  # PEP 552: the hash of the source is not compared
    compiled.write_bytes(importlib.util.MAGIC_NUMBER + never_checked + marshal.dumps(code))


def _insert(body: list[ast.stmt], text: str) -> None:
    """Insert a statement after the docstring and imports from the future, on the line of what follows."""
    place = 0
    for node in body:
        documents = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not documents and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        place += 1
    (statement,) = ast.parse(text).body
    if body:
        for part in ast.walk(statement):
            ast.copy_location(part, body[min(place, len(body) - 1)])
    body.insert(place, statement)


def record_coverage(root: Path, tests: Mapping[str, Sequence[str]], folder: Path, jobs: int) -> Iterator[Run]:
    """Run test files, each with arguments for pytest. Yield each when it has ended.

    The folder holds the copies, one a job, and the output of each file.
    """
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    with ThreadPoolExecutor(jobs) as pool:
        for copy in pool.map(lambda number: Copy(root, folder / str(number)), range(jobs)):
            copies.put(copy)

        def run(test: str) -> Run:
            copy = copies.get()
            try:
                return copy.run(test, tests[test])
            finally:
                copies.put(copy)

        try:
            for done in as_completed([pool.submit(run, test) for test in tests]):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def heavy_files(root: Path) -> Mapping[str, Sequence[str]]:
    """Return the test files with heavy tests, the dearest first, and arguments that run these tests alone."""
    found: dict[str, Sequence[str]] = {}
    for path in (root / "tests").rglob("test_*.py"):
        test = str(path.relative_to(root))
        if is_system(test):
            found[test] = ()
        elif "mark.heavy" in path.read_text(encoding="utf-8"):
            found[test] = ("-m", "heavy")
    prices, _ = read_prices()
    return {test: found[test] for test in sorted(found, key=lambda test: (-prices.get(test, 0.0), test))}


def main() -> None:
    """Record the given files, or all. The others keep their record then, and the record its commit."""
    parser = argparse.ArgumentParser(prog="python -m tests.coverage", description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=2, metavar="COUNT")
    parser.add_argument("files", nargs="*", metavar="FILE")
    given = parser.parse_args()
    tests = heavy_files(ROOT)
    if given.files:
        tests = {name: tests.get(name, ()) for name in given.files}
    folder = ROOT / "build" / "coverage"
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for run in record_coverage(ROOT, tests, folder, given.jobs):
        found[run.test] = run.modules
        print(f"{'passed' if run.passed else 'FAILED'} {run.seconds:6.1f} s  {run.test}", flush=True)
    coverage = Coverage(
        _output("git", "-C", str(ROOT), "rev-parse", "HEAD").strip(),
        frozenset(str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.py")),
        found,
    )
    if given.files and RECORD.exists():
        before = Coverage.parse(RECORD.read_text(encoding="utf-8"))
        coverage = Coverage(before.commit, before.modules | coverage.modules, {**before.tests, **found})
    RECORD.write_text(coverage.render(), encoding="utf-8")


if __name__ == "__main__":
    main()
