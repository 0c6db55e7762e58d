"""The record of what heavy tests execute, and the choice of those that meet a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coverage import (
    MOST_MOVED,
    Changes,
    Coverage,
    Selection,
    find_references,
    parse_changes,
    record_coverage,
    select_tests,
)

PARSER, CACHE, HUB = (
    "src/tabane/wire/parser.py",
    "src/tabane/engine/embedded/cache.py",
    "src/tabane/hub/hub.py",
)
LIMITS = "src/tabane/engine/embedded/limits.py"
ROOMS = {
    "tests/wire/test_parser.py": frozenset((PARSER, HUB)),
    "tests/engine/embedded/test_cache.py": frozenset((CACHE, HUB)),
    "tests/engine/embedded/test_long.py": frozenset((CACHE, HUB)),
    "tests/web/browser/test_home.py": frozenset((HUB,)),
}
HEAVY = sorted(ROOMS)
COVERAGE = Coverage("0" * 40, frozenset((PARSER, CACHE, HUB, LIMITS)), ROOMS)
PRICES = dict.fromkeys(HEAVY, 10.0)
REFERENCES = find_references(
    {
        "tests/harness/site.py": "from tests.harness import pages",
        "tests/harness/pages.py": "PAGES = ROOT / 'tests' / 'pages.json'",
        "tests/engine/embedded/conftest.py": "import tests.harness.clock",
        "tests/harness/clock.py": "",
        "tests/wire/test_parser.py": "def test_site():\n    from tests.harness.site import site",
        **dict.fromkeys(HEAVY[:2], ""),
    },
    (
        *("tests/harness/site.py", "tests/harness/pages.py", "tests/harness/clock.py", "tests/pages.json"),
        *("tests/access/pages.json", "tests/engine/embedded/conftest.py", *HEAVY),
    ),
)
EVERY = 1000.0


def select(*paths: str, budget: float = EVERY, coverage: Coverage = COVERAGE) -> Selection:
    return select_tests(Changes(frozenset(paths)), coverage, HEAVY, REFERENCES, PRICES, budget)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PARSER, ["tests/wire/test_parser.py"]),
        (HUB, HEAVY),
        (
            LIMITS,
            ["tests/engine/embedded/test_cache.py", "tests/engine/embedded/test_long.py"],
        ),  # it has no functions
        (
            "src/tabane/engine/embedded/new.py",
            ["tests/engine/embedded/test_cache.py", "tests/engine/embedded/test_long.py"],
        ),
        (
            "src/tabane/engine/embedded/words/ja.po",
            ["tests/engine/embedded/test_cache.py", "tests/engine/embedded/test_long.py"],
        ),
        ("src/tabane/web/templates/home.html", ["tests/web/browser/test_home.py"]),
        ("tests/engine/embedded/test_cache.py", ["tests/engine/embedded/test_cache.py"]),
        ("tests/harness/pages.py", ["tests/wire/test_parser.py"]),
        ("tests/pages.json", ["tests/wire/test_parser.py"]),
        ("tests/access/pages.json", []),  # another file is meant
        ("tests/prices.json", []),
        ("tests/web/browser/figures.json", ["tests/web/browser/test_home.py"]),  # nothing names it
        (
            "tests/harness/clock.py",
            ["tests/engine/embedded/test_cache.py", "tests/engine/embedded/test_long.py"],
        ),
        ("CHANGELOG.md", []),
    ],
)
def test_a_changed_path_selects_what_it_concerns(path: str, expected: list[str]) -> None:
    assert select(path) == Selection(tuple(expected))


@pytest.mark.parametrize(
    ("budget", "rooms"),
    [
        (10, ["engine"]),  # fewer files meet it
        (20, ["engine", "wire"]),  # each module once, before one is met again
        (100, ["engine"] * 3 + ["wire"] * 4),  # not the dear one, which meets both
        (170, [*["engine"] * 3, "hub", *["wire"] * 4]),
    ],
)
def test_the_budget_buys_what_meets_rare_modules_at_a_low_price(budget: int, rooms: list[str]) -> None:
    tests = {f"tests/engine/embedded/test_{number}.py": frozenset((CACHE,)) for number in range(3)}
    tests |= {f"tests/wire/test_{number}.py": frozenset((PARSER,)) for number in range(4)}
    tests |= {f"tests/settings/test_{number}.py": frozenset((HUB,)) for number in range(9)}
    tests["tests/hub/test_dear.py"] = frozenset((CACHE, PARSER))
    coverage = Coverage(COVERAGE.commit, COVERAGE.modules, tests)
    prices = dict.fromkeys(tests, 10.0) | {"tests/hub/test_dear.py": 100.0}
    chosen = select_tests(Changes(frozenset((CACHE, PARSER))), coverage, sorted(tests), {}, prices, budget)
    assert [name.split("/")[1] for name in chosen.run] == rooms
    assert len(chosen.run + chosen.left_out) == 8


def test_what_changed_runs_whatever_it_costs() -> None:
    assert select(HEAVY[2], PARSER, budget=0) == Selection((HEAVY[2],), (HEAVY[3],))


def test_a_file_without_a_record_meets_what_its_room_has() -> None:
    coverage = Coverage(COVERAGE.commit, COVERAGE.modules, {})
    room = PARSER.split("/")[2]
    expected = [name for name in HEAVY if name.split("/")[1] == room]
    assert select(PARSER, coverage=coverage).run == tuple(expected) != ()


def test_a_helper_near_to_few_files_runs_them_whatever_it_costs() -> None:
    tests = [f"tests/engine/embedded/test_{number}.py" for number in range(20)]
    coverage = Coverage(COVERAGE.commit, COVERAGE.modules, dict.fromkeys(tests, frozenset((HUB,))))
    references = dict.fromkeys(tests, frozenset(("tests/far.py",))) | {
        tests[3]: frozenset(("tests/near.py", "tests/far.py"))
    }
    for helper, expected in (("tests/near.py", (tests[3],)), ("tests/far.py", ())):
        changes = Changes(frozenset((helper,)))
        assert (
            select_tests(changes, coverage, tests, references, dict.fromkeys(tests, 5.0), 0).run == expected
        )


@pytest.mark.parametrize("moved", [MOST_MOVED, MOST_MOVED + 1])
def test_many_moved_files_run_everything(moved: int) -> None:
    status = "".join(f"R097\0src/a{number}.py\0src/b{number}.py\0" for number in range(moved - 1))
    changes = parse_changes(f"{status}D\0tests/old.py\0D\0docs/old.md\0M\0src/c.py\0", "tests/new.py\0")
    assert {"src/a0.py", "src/b0.py", "tests/old.py", "src/c.py", "tests/new.py"} <= changes.paths
    assert bool(changes.everything) == (moved > MOST_MOVED)
    chosen = select_tests(changes, COVERAGE, HEAVY, REFERENCES, PRICES, 0)
    assert (chosen.run == tuple(HEAVY)) == (moved > MOST_MOVED)


def test_a_changed_lock_runs_everything() -> None:
    assert parse_changes("M\0uv.lock\0").everything == "uv.lock changed"


def test_the_record_is_one_line_for_each_file() -> None:
    text = COVERAGE.render()
    assert Coverage.parse(text) == COVERAGE
    assert '"tests/engine/embedded/test_cache.py": "5",\n' in text


PROJECT = {
    "src/tabane/__init__.py": "def unused(): ...\n",
    "src/tabane/data.py": "class Loaded:\n    def unused(self): ...\n",
    "src/tabane/killed.py": "import os, signal\ndef end():\n    os.kill(os.getpid(), signal.SIGKILL)\n",
    "src/tabane/caller.py": """'''Room.'''
from __future__ import annotations
import tabane.data, tabane.killed
async def call():
    '''Call.'''
    tabane.killed.end()
""",
    "tests/test_detached.py": """
import os, subprocess, sys

DETACHED = '''
import os
if not os.fork():
    os.setsid()
    from tabane.caller import call
    call().send(None)
'''

def test_a_process_detaches_and_is_killed():
    read, write = os.pipe()
    subprocess.run([sys.executable, "-I", "-c", DETACHED], env={}, pass_fds=(write,), check=True)
    os.close(write)
    assert os.read(read, 1) == b""  # it has ended
""",
    "tests/test_idle.py": "import tabane.caller\n\ndef test_it(): ...\n",
    "tests/test_failing.py": "def test_it():\n    assert False\n",
}


def test_a_function_is_recorded_that_a_detached_process_calls_before_it_is_killed(tmp_path: Path) -> None:
    for name, text in PROJECT.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    alone = ("--disable-plugin-autoload",)
    tests = {name: alone for name in PROJECT if name.startswith("tests/")}
    runs = {run.test: run for run in record_coverage(tmp_path / "project", tests, tmp_path / "record", 1)}
    assert {test: (run.passed, run.modules) for test, run in runs.items()} == {
        "tests/test_detached.py": (True, frozenset(("src/tabane/caller.py", "src/tabane/killed.py"))),
        "tests/test_idle.py": (True, frozenset()),
        "tests/test_failing.py": (False, frozenset(name for name in PROJECT if name.startswith("src/"))),
    }
