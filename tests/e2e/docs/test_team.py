"""docs/team.md, run step by step: in a home of the lead, and in one of a colleague on the same machine."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.e2e.docs.pages import ROOT, blocks
from tests.e2e.docs.test_tutorial import HERE, Step, home, steps, walk
from tests.harness.patience import LONG

PAGES = ("team.md", "team.ja.md")


def console(name: str) -> list[tuple[str, str]]:
    """Return the console blocks of a page, each with the home that it is for."""
    return [
        (block.mark or "lead", block.text)
        for block in blocks()
        if block.page.name == name and block.kind == "console"
    ]


def walked(name: str, port: int) -> list[tuple[str, Step]]:
    """Return the steps with a name and a port that are there on the machine of the test."""
    found = []
    for whose, text in console(name):
        text = text.replace("hub.local", "localhost").replace("8765", str(port))
        found += [(whose, step) for step in steps(f"```console\n{text}```")]
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.heavy("runs what a document says")
@pytest.mark.parametrize(("name", "lang"), [("team.md", "C.UTF-8"), ("team.ja.md", "ja_JP.UTF-8")])
def test_the_page_is_true(name: str, lang: str, tmp_path: Path) -> None:
    port = free_port()
    homes = {}
    for whose in ("lead", "alice"):
        (tmp_path / whose).mkdir()
        homes[whose] = home(tmp_path / whose, lang)
    homes["lead"] |= {"TABANE_PORT": str(port), "TABANE_MODEL": "none"}
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    (table,) = re.findall(r"<!-- file: team.toml -->\n```toml\n(.*?)```", page, re.DOTALL)
    folder = Path(homes["lead"]["HOME"]) / ".config" / "tabane"
    folder.mkdir(parents=True)
    (folder / "team.toml").write_text(table)
    letter = Path(homes["lead"]["HOME"]) / "alice.txt"
    found = walked(name, port)
    assert len(found) > 15
    try:
        for whose, step in found:
            if whose == "alice" and letter.exists():
                shutil.move(letter, Path(homes["alice"]["HOME"]) / "alice.txt")
            walk(step, homes[whose], Path(homes[whose]["HOME"]))
    finally:
        for environment in homes.values():
            subprocess.run([str(HERE / "tabane"), "stop"], env=environment, capture_output=True, timeout=LONG)


def test_both_languages_have_the_same_commands() -> None:
    english, japanese = (
        [(whose, step.command, step.fails, step.patient) for whose, step in walked(name, 8765)]
        for name in PAGES
    )
    assert english == japanese
