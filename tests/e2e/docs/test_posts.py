"""docs/posts.md is true: its commands do what the page says, on the sample archive."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from tabane.cli.posts.shell_settings import SETTINGS, QuerySettings
from tests.e2e.docs.pages import ROOT, blocks
from tests.e2e.docs.test_models import typed

PAGE = ROOT / "docs" / "posts.md"


def test_the_first_try_is_answered(tmp_path: Path) -> None:
    (block,) = blocks("posts:begin")
    text = block.text.replace("$(mktemp -d)", str(tmp_path / "other"))
    assert text != block.text
    out = typed(tmp_path, 'model = "none"\n', f"cd '{tmp_path}'\n{text}")
    assert "298 new, 0 changed" in out
    assert "sample_hinata" in out
    assert "📝 Text search results: 3" in out
    assert "2023\t" in out
    with (tmp_path / "leo.csv").open(newline="") as file:
        assert {row[1].split("/")[3] for row in csv.reader(file)} == {"sample_leo"}


def test_what_is_typed_at_the_prompt_is_understood() -> None:
    table = PAGE.read_text().partition("## At a prompt")[2]
    lines = [span.split() for span in re.findall(r"`(/\w+ [^`]+)`", table)]
    assert len(lines) >= 12
    for name, *words in lines:
        if name in SETTINGS:
            assert isinstance(SETTINGS[name].apply(QuerySettings(), words), QuerySettings)


def test_every_mode_and_every_command_of_the_prompt_is_named() -> None:
    page = PAGE.read_text()
    for name in (*SETTINGS, "/next", "/details", "/help", "/exit"):
        assert f"`{name}" in page, name
