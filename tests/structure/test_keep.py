"""Set-ups that checkouts on a machine share: ``.ci/keep.py``, which the Makefile calls if KEEP is set."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.harness.patience import LONG

PROGRAM = """import pathlib, sys
kept = pathlib.Path(sys.argv[1])
(kept / 'bin').mkdir(parents=True)
(kept / 'bin' / 'tool').write_text(f'#!{kept}/bin/python')
(kept / 'pyvenv.cfg').write_text('home = /usr')
with open('../made', 'a') as made:
    made.write('x')
"""


class Machine:
    """A folder with kept set-ups, and checkouts beside it. Their lock and recipe decide what they get."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, checkout: str, *way: str, program: str = PROGRAM) -> subprocess.Popen[str]:
        place = self.folder / checkout
        if not place.exists():
            place.mkdir()
            (place / "lock").write_text("versions")
            (place / "Makefile").write_text("$(READY): lock\n\tinstall lock\n\ntest:\n\tpytest\n")
        command = [
            sys.executable,
            str(ROOT / ".ci" / "keep.py"),
            "../kept",
            "env",
            *(way or ("--copy", "env")),
        ]
        command += ["--by", "lock", "--by", "$(READY)", "--", sys.executable, "-c", program, "{}"]
        return subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, text=True)

    def set_up(self, checkout: str, *way: str, program: str = PROGRAM) -> int:
        process = self.start(checkout, *way, program=program)
        process.communicate(timeout=LONG)
        return process.returncode

    @property
    def made(self) -> int:
        """How often something was set up."""
        return (self.folder / "made").stat().st_size

    @property
    def kept(self) -> list[Path]:
        return list((self.folder / "kept").glob("env-*"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("file", "old", "new", "made"),
    [
        ("lock", "versions", "others", 2),
        ("Makefile", "install", "build", 2),
        ("Makefile", "pytest", "tox", 1),
    ],
)
def test_checkouts_share_a_set_up_if_lock_and_recipe_are_the_same(
    machine: Machine, file: str, old: str, new: str, made: int
) -> None:
    for checkout in ("a", "b", "c"):
        assert machine.set_up(checkout) == 0
    assert machine.made == 1
    scripts = [machine.folder / checkout / "env" / "bin" / "tool" for checkout in ("a", "b")]
    assert [script.read_text() for script in scripts] == [f"#!{script.parent}/python" for script in scripts]
    changed = machine.folder / "c" / file
    changed.write_text(changed.read_text().replace(old, new))
    assert machine.set_up("c") == 0
    assert machine.made == len(machine.kept) == made


def test_a_link_is_to_the_kept_folder_itself(machine: Machine) -> None:
    assert machine.set_up("a", "--link", "build/env") == 0
    (found,) = machine.kept
    assert (machine.folder / "a" / "build" / "env").resolve() == found.resolve()


@pytest.mark.parametrize("damage", ["interrupted", "file removed", "file cut"])
def test_what_is_not_whole_is_made_again(machine: Machine, damage: str) -> None:
    if damage == "interrupted":
        assert machine.set_up("a", program=f"{PROGRAM}\nimport os; os.kill(os.getppid(), 9)") == -9
    else:
        assert machine.set_up("a") == 0
        tool = machine.kept[0] / "bin" / "tool"
        tool.unlink() if damage == "file removed" else tool.write_text("")
    assert machine.set_up("b") == 0
    assert machine.made == 2
    assert (machine.folder / "b" / "env" / "bin" / "tool").read_text()


def test_a_second_checkout_waits_for_the_first(machine: Machine) -> None:
    gate = machine.folder / "gate"
    os.mkfifo(gate)
    first = machine.start("a", program=f"{PROGRAM}\nopen({str(gate)!r}).read()")
    with open(gate, "w"):  # open as soon as the first has begun
        second = machine.start("b")
        assert second.stdout is not None
        assert "waiting" in second.stdout.readline()
    assert [process.wait(LONG) for process in (first, second)] == [0, 0]
    assert machine.made == 1


def test_what_nobody_has_used_for_a_month_is_removed(machine: Machine) -> None:
    assert machine.set_up("a") == 0
    (old,) = machine.kept
    month_ago = time.time() - 31 * 24 * 3600
    os.utime(old, (month_ago, month_ago))
    assert machine.set_up("b") == 0  # uses it again
    (machine.folder / "a" / "lock").write_text("others")
    assert machine.set_up("a") == 0
    assert old in machine.kept
    os.utime(old, (month_ago, month_ago))
    assert machine.set_up("a") == 0
    assert old not in machine.kept
    assert len(machine.kept) == 1


def test_a_cache_is_given_to_other_checkouts_if_its_command_succeeds(machine: Machine) -> None:
    way = ("--cache", "cache")
    write = "import pathlib; pathlib.Path('cache').mkdir(); pathlib.Path('cache/db').write_text('{}')"
    assert machine.set_up("a", *way, program=write.format("right")) == 0
    assert machine.set_up("b", *way, program="") == 0
    assert (machine.folder / "b" / "cache" / "db").read_text() == "right"
    worse = "import pathlib; pathlib.Path('cache/db').write_text('wrong'); exit(1)"
    assert machine.set_up("c", *way, program=worse) == 1
    assert machine.set_up("d", *way, program="") == 0
    assert (machine.folder / "d" / "cache" / "db").read_text() == "right"
