"""How much a small change of the source can break before a test of its room notices: ``make mutants``.

Makes a number of mutations, the same for a seed, each in one line of a module that has changed since the
last release. First, the tests of each room run once with a probe at each of its mutations: that tells which
tests reach it, and what each costs. Then each mutant runs with these tests, the nearest ones first, until one
fails. Tests of ``make test`` count, unless they fail without a mutation.
"""

from __future__ import annotations

import argparse
import ast
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.laboratory import ROOT, Laboratory, Run
from tests.mutants.mutations import Mutation, chosen, mutations
from tests.mutants.reach import probed, reaching_tests, runs_at_import

SOURCE = "src/tabane"
NEAREST = 3
"""Files of tests that are tried first: most mutants die there, and each file costs its collection."""

LONGER = 10
"""A mutant may take so many times the seconds of its tests, and the limit in addition."""

HOURS = 3600.0


@dataclass(frozen=True)
class Verdict:
    kind: str
    """``killed``, ``timed out`` or ``survived``."""

    why: str
    """The test that noticed, or the files of those that did not."""


class Inspection:
    """The mutants of one run, in as many laboratories as run at the same time."""

    def __init__(self, options: argparse.Namespace, taken: Sequence[Mutation], folder: Path) -> None:
        self._options = options
        self._mutations = dict(enumerate(taken, 1))
        self._sources = {one.file: (ROOT / one.file).read_bytes() for one in taken}
        self._pool = ThreadPoolExecutor(options.jobs)
        self._free: SimpleQueue[Laboratory] = SimpleQueue()
        for number in range(options.jobs):
            self._free.put(Laboratory(folder / str(number)))
        self._tests: dict[str, dict[str, float]] = {}
        self._seconds: dict[str, float] = {}
        self._reached: dict[int, set[str]] = {}
        self.cpu = 0.0

    def survey(self) -> None:
        """Run the tests of each room that has a mutation."""
        rooms = sorted({room(one.file) for one in self._mutations.values()})
        for name, run in zip(rooms, self._pool.map(self._surveyed, rooms), strict=True):
            self.cpu += run.cpu
            self._tests[name] = {test: one["cpu"] for test, one in run.results.items() if one["passed"]}
            self._seconds |= {test: one["seconds"] for test, one in run.results.items()}
            print(f"{name}: {len(run.results)} tests in {run.cpu:.0f} s of CPU", flush=True)
            for test in run.results.keys() - self._tests[name].keys():
                print(f"  fails without a mutation: {test}")

    def _surveyed(self, name: str) -> Run:
        laboratory = self._free.get()
        files = {one.file for one in self._mutations.values() if room(one.file) == name}
        for file in files:
            own = {number: one for number, one in self._mutations.items() if one.file == file}
            laboratory.write(file, probed(self._sources[file], own))
        ordinary = ("--tier", "ordinary", "--record", "/tmp/prices.json")  # who records does not judge
        run = laboratory.run([*ordinary, *_tests_of(name)], None, 8 * HOURS, HOURS)
        self._keep(name.replace("/", "-"), run)
        if not run.results:
            raise SystemExit(f"the tests of {name} do not run:\n{run.output[-4000:]}")
        self._reached |= reaching_tests(laboratory.reached, list(run.results))
        for file in files:
            laboratory.write(file, self._sources[file])
        self._free.put(laboratory)
        return run

    def verdicts(self) -> Iterator[tuple[int, Mutation, Verdict]]:
        for number, verdict in zip(
            self._mutations, self._pool.map(self._judged, self._mutations), strict=True
        ):
            yield number, self._mutations[number], verdict

    def _judged(self, number: int) -> Verdict:
        mutation = self._mutations[number]
        tests, reaching = self._selected(number)
        files = _files(tests)
        laboratory = self._free.get()
        laboratory.write(mutation.file, mutation.applied(self._sources[mutation.file]))
        verdict = Verdict("survived", f"{len(tests)} of {reaching} tests that reach it: {', '.join(files)}")
        for part in filter(None, (files[:NEAREST], files[NEAREST:])):
            if verdict.kind == "survived":
                run = self._tried(laboratory, part, [name for name in tests if _file(name) in part])
                self._keep(f"{number}-{len(part)}", run)
                verdict = _verdict(run) or verdict
        laboratory.write(mutation.file, self._sources[mutation.file])
        self._free.put(laboratory)
        return verdict

    def _tried(self, laboratory: Laboratory, files: Sequence[str], names: Sequence[str]) -> Run:
        seconds = [LONGER * self._seconds[name] for name in names]
        limit = self._options.limit
        run = laboratory.run(files, names, limit + sum(seconds), limit + max(seconds))
        self.cpu += run.cpu
        return run

    def _selected(self, number: int) -> tuple[list[str], int]:
        """Return the tests for a mutant, the nearest files first, and their number without the limit."""
        mutation = self._mutations[number]
        prices = self._tests[room(mutation.file)]
        names = self._reached.get(number, set()) & prices.keys()
        files = {file: _imports(file, mutation.file) for file in _files(prices)}
        if runs_at_import(ast.parse(self._sources[mutation.file]), mutation):
            names |= {name for name in prices if files[_file(name)]}
        costs = {file: sum(prices[name] for name in names if _file(name) == file) for file in files}

        def place(name: str) -> tuple[int, float, str]:
            file = _file(name)
            return -100 * files[file] - _nearness(file, mutation.file), costs[file], file

        ordered = sorted((name for name in prices if name in names), key=place)
        left = float(self._options.limit)
        return [name for name in ordered if (left := left - prices[name]) >= 0], len(ordered)

    def _keep(self, name: str, run: Run) -> None:
        if self._options.keep:
            self._options.keep.mkdir(parents=True, exist_ok=True)
            (self._options.keep / f"{name}.txt").write_text(run.output, encoding="utf-8")


def _verdict(run: Run) -> Verdict | None:
    if run.status == 0:
        return None
    late = run.status is None or "Timeout (>" in run.output
    failed = [name for name, one in run.results.items() if not one["passed"]]
    return Verdict(
        "timed out" if late else "killed", failed[0] if failed else f"pytest ended with {run.status}"
    )


def room(file: str) -> str:
    """Return the folder of tests of a source file's room."""
    return f"tests/{Path(file).relative_to(SOURCE).parts[0]}".removesuffix(".py")


def _tests_of(name: str) -> list[str]:
    """Return what to run for a room. A module outside the rooms is tested wherever tests import it."""
    if (ROOT / name).is_dir():
        return [name]
    tests = (str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").rglob("test_*.py")))
    return [test for test in tests if _imports(test, f"{SOURCE}/{Path(name).name}.py")]


def _imports(test: str, file: str) -> bool:
    """Return whether a file of tests imports from a module, or imports it."""
    *head, last = Path(file).relative_to("src").with_suffix("").parts
    if last == "__init__":
        *head, last = head
    for node in ast.walk(ast.parse((ROOT / test).read_bytes())):
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names} if node.module == ".".join(head) else set()
            if last in names or node.module == ".".join((*head, last)):
                return True
    return False


def _nearness(test: str, file: str) -> int:
    """Return how many folders of a test and of a module are the same; with the same name, it is nearest."""
    tested, source = Path(test).parts[1:], Path(file).parts[2:]
    same = [first == second for first, second in zip(tested, source, strict=False)]
    return (same.index(False) if False in same else 0) + 10 * (tested[-1] == f"test_{source[-1]}")


def _file(name: str) -> str:
    return name.partition("::")[0]


def _files(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(_file, names)))


def _modules(options: argparse.Namespace) -> list[str]:
    """Return the modules that have changed, or all, within the paths given."""
    version = ("log", "-1", "--format=%H", "-G^__version__", "--", f"{SOURCE}/__init__.py")
    since = options.since or _git(*version).strip()
    names = _git("ls-files", SOURCE) if options.all else _git("diff", "--name-only", since, "--", SOURCE)
    wanted = tuple(options.paths or [SOURCE])
    found = [name for name in names.splitlines() if name.endswith(".py") and name.startswith(wanted)]
    return [name for name in found if (ROOT / name).exists()]


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="modules or folders: src/tabane/access/")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument(
        "--since", metavar="COMMIT", help="modules that have changed since [the last release]"
    )
    parser.add_argument("--all", action="store_true", help="every module, not only what has changed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--limit", type=float, default=60, metavar="SECONDS", help="of CPU for a mutant's tests"
    )
    parser.add_argument("--floor", type=float, default=80, metavar="PERCENT", help="of mutants to be killed")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what pytest printed")
    parser.add_argument("--list", action="store_true", help="show the mutants, and run nothing")
    return parser.parse_args()


def main() -> int:
    options = _options()
    sources = {file: (ROOT / file).read_bytes() for file in _modules(options)}
    found = [mutations(file, source) for file, source in sources.items()]
    taken = chosen([one for ones, _ in found for one in ones], sources, options.count, options.seed)
    total, sizes = sum(len(ones) for ones, _ in found), sum(number for _, number in found)
    print(f"{len(taken)} of {total} mutations in {len(sources)} modules; sizes and times left alone: {sizes}")
    if options.list or not taken:
        print(*(_shown(number, one, sources) for number, one in enumerate(taken, 1)), sep="\n")
        return 0
    if not shutil.which("bwrap"):
        raise SystemExit(
            "mutants run in containers of bubblewrap, and there is none. Debian: apt install bubblewrap"
        )
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        inspection = Inspection(options, taken, Path(folder))
        inspection.survey()
        for number, mutation, verdict in inspection.verdicts():
            verdicts.append((mutation.kind, verdict.kind))
            print(f"\n{verdict.kind} {_shown(number, mutation, sources)}\n  {verdict.why}", flush=True)
    return _report(Counter(verdicts), options.floor, inspection.cpu)


def _shown(number: int, mutation: Mutation, sources: Mapping[str, bytes]) -> str:
    change = mutation.shown(sources[mutation.file])
    return f"{number} {mutation.kind}: {mutation.file}:{mutation.line}: {change}"


def _report(table: Counter[tuple[str, str]], floor: float, cpu: float) -> int:
    columns = ("killed", "timed out", "survived")
    print(f"\n{'kind':12}" + "".join(f"{column:>10}" for column in columns))
    for kind in sorted({kind for kind, _ in table}):
        print(f"{kind:12}" + "".join(f"{table[kind, column]:10}" for column in columns))
    survived = sum(count for (_, verdict), count in table.items() if verdict == "survived")
    killed = 100 * (1 - survived / table.total())
    print(f"\n{killed:.0f} % of {table.total()} killed (floor: {floor:g} %), in {cpu:.0f} s of CPU")
    return int(killed < floor)


if __name__ == "__main__":
    sys.exit(main())
