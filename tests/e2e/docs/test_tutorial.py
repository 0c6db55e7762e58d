"""The tutorial, run step by step in an empty home: its files, its commands, their output."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import absent
from tests.e2e.docs.pages import ROOT
from tests.harness.patience import LONG

HERE = Path(sys.executable).parent
PATIENCE = 4 * LONG  # a download of a server, on a busy machine
"""Seconds that a command "after a moment" is tried again for."""


@dataclass(frozen=True)
class Step:
    """A command of a console block, and the lines that it is said to print."""

    command: str
    expected: tuple[str, ...]
    fails: bool
    patient: bool


def steps(page: str) -> list[Step]:
    found = []
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            first, *expected = part.rstrip("\n").split("\n")
            command, _, note = first.partition("  # ")
            found.append(Step(command, tuple(expected), "fails" in note, "after a moment" in note))
    return found


def pattern(expected: tuple[str, ...]) -> re.Pattern[str]:
    """What is printed: a line that is … alone stands for any lines, … within a line for any characters."""
    parts = []
    for line in expected:
        if line == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(re.escape(line).replace("…", ".*") + r"\n")
    return re.compile("".join(parts) + r"(?:.*\n)*")


@pytest.mark.heavy("runs what a document says")
@pytest.mark.parametrize(("name", "lang"), [("tutorial.md", "C.UTF-8"), ("tutorial.ja.md", "ja_JP.UTF-8")])
def test_the_tutorial_is_true(name: str, lang: str, tmp_path: Path) -> None:
    if shutil.which("git") is None:
        absent("git")
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    environment = home(tmp_path, lang)
    for path, text in re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", page, re.DOTALL):
        file = Path(environment["HOME"]) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    found = steps(page)
    assert len(found) > 15
    try:
        for step in found:
            walk(step, environment, Path(environment["HOME"]))
    finally:
        subprocess.run([str(HERE / "tabane"), "stop"], env=environment, capture_output=True, timeout=LONG)


def walk(step: Step, environment: dict[str, str], folder: Path) -> None:
    wanted = pattern(step.expected)
    end = time.monotonic() + (PATIENCE if step.patient else 0)
    while True:
        done = subprocess.run(
            ["bash", "-c", step.command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONG,
        )
        printed = done.stdout + done.stderr
        said = f"$ {step.command}\n{printed}\nexpected:\n" + "\n".join(step.expected)
        if (done.returncode != 0) is step.fails and wanted.fullmatch(printed if printed else "\n"):
            return
        assert time.monotonic() < end, said


def home(folder: Path, lang: str) -> dict[str, str]:
    """The environment of a plain home, as of ``env -i HOME=… PATH=… LANG=…``.

    uvx is played by the same servers, installed already.
    """
    programs = folder / "programs"
    programs.mkdir()
    (programs / "tabane").symlink_to(HERE / "tabane")
    (programs / "uvx").write_text(f'#!/bin/sh\nprogram=$1\nshift\nexec "{HERE}/$program" "$@"\n')
    (programs / "uvx").chmod(0o755)
    plain = folder / "home"
    plain.mkdir()
    return {"HOME": str(plain), "LANG": lang, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


def test_both_languages_have_the_same_commands() -> None:
    english, japanese = (
        [
            (step.command, step.fails, step.patient)
            for step in steps((ROOT / "docs" / name).read_text(encoding="utf-8"))
        ]
        for name in ("tutorial.md", "tutorial.ja.md")
    )
    assert english == japanese
