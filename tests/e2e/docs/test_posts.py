"""docs/posts.md and its Japanese version: their commands do what the pages say, on the sample archive."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from tabane.cli.posts_shell import SETTINGS, QuerySettings
from tests.e2e.docs.pages import ROOT, blocks, shape
from tests.e2e.docs.test_models import typed

PAGES = [ROOT / "docs" / "posts.md", ROOT / "docs" / "posts.ja.md"]


def test_both_pages_type_the_same() -> None:
    english, japanese = map(shape, PAGES)
    assert japanese == english


@pytest.mark.heavy("runs what a document says")
def test_the_first_try_is_answered(tmp_path: Path) -> None:
    block = blocks("posts:begin")[0]  # the same on both pages
    text = block.text.replace("$(mktemp -d)", str(tmp_path / "other"))
    assert text != block.text
    out = typed(tmp_path, 'model = "none"\n', f"cd '{tmp_path}'\n{text}")
    assert "298 new, 0 changed" in out
    assert "sample_hinata" in out
    assert "📝 Text search results: 3" in out
    assert "2023\t" in out
    with (tmp_path / "leo.csv").open(newline="") as file:
        assert {row[1].split("/")[3] for row in csv.reader(file)} == {"sample_leo"}


@pytest.mark.parametrize(
    ("page", "heading"), [(PAGES[0], "## At a prompt"), (PAGES[1], "## プロンプトで使う")], ids=["en", "ja"]
)
def test_what_is_typed_at_the_prompt_is_understood(page: Path, heading: str) -> None:
    table = page.read_text("utf-8").partition(heading)[2]
    lines = [span.split() for span in re.findall(r"`(/\w+ [^`]+)`", table)]
    assert len(lines) >= 12
    for name, *words in lines:
        if name in SETTINGS:
            assert isinstance(SETTINGS[name].apply(QuerySettings(), words), QuerySettings)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_mode_and_every_command_of_the_prompt_is_named(page: Path) -> None:
    text = page.read_text("utf-8")
    for name in (*SETTINGS, "/next", "/details", "/help", "/exit"):
        assert f"`{name}" in text, name
