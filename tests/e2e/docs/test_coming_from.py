"""docs/coming-from.md and its Japanese version: their commands do what the pages say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tabane.cli.posts_shell import ALIASES, SETTINGS
from tests.e2e.docs.pages import ROOT, blocks, links
from tests.e2e.docs.test_models import typed

PAGES = [ROOT / "docs" / "coming-from.md", ROOT / "docs" / "coming-from.ja.md"]


def test_both_pages_type_the_same() -> None:
    english, japanese = blocks("coming:check")
    assert english.text == japanese.text
    rows = [re.findall(r"^\|.*\|$", page.read_text("utf-8"), re.MULTILINE) for page in PAGES]
    assert len(rows[0]) == len(rows[1])


@pytest.mark.heavy("runs what a document says")
def test_the_check_shows_what_the_page_says(tmp_path: Path) -> None:
    text = blocks("coming:check")[0].text.replace("$(mktemp -d)", str(tmp_path / "other"))
    out = typed(tmp_path, 'model = "none"\n', f"cd '{tmp_path}'\n{text}")
    assert "TwilogServer" in out
    assert "📝 Text search results: 1" in out
    assert f"abc:{tmp_path}/note.md" in out
    assert "Notes that semche would have kept." in out
    assert "Hello, World!" in out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_the_prompt_are_there(page: Path) -> None:
    row = next(line for line in page.read_text("utf-8").splitlines() if line.startswith("| `/user`"))
    for name in re.findall(r"`([^`]+)`", row):
        assert name in {*SETTINGS, *ALIASES, "/next", "/details", "/help", "/exit"}, name


@pytest.mark.parametrize("readme", ["README.md", "README.ja.md"])
def test_the_readmes_link_to_it(readme: str) -> None:
    page = "docs/coming-from.ja.md" if "ja" in readme else "docs/coming-from.md"
    assert page in links(ROOT / readme)
