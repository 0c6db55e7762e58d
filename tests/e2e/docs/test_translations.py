"""Translated pages: the same sections, tables and examples, and links to sections that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.docs.pages import ROOT, links, shape

TRANSLATED = ["asking", "assistants", "backup", "privacy", "servers", "troubleshooting"]
"""Pages that are translated whole, sentence by sentence."""

ALL = sorted(page for page in (ROOT / "docs").glob("*.ja.md"))

PAIRS = pytest.mark.parametrize(
    ("english", "japanese"),
    [(ROOT / "docs" / f"{name}.md", ROOT / "docs" / f"{name}.ja.md") for name in TRANSLATED],
    ids=TRANSLATED,
)


@pytest.mark.parametrize("japanese", ALL, ids=lambda page: page.name)
def test_both_versions_begin_with_a_link_to_each_other(japanese: Path) -> None:
    english = japanese.with_name(japanese.name.replace(".ja.md", ".md"))
    for page, other in ((english, japanese), (japanese, english)):
        assert f"]({other.name})" in "\n".join(page.read_text("utf-8").splitlines()[:6])


@PAIRS
def test_both_versions_have_the_same_sections_examples_and_tables(english: Path, japanese: Path) -> None:
    assert shape(english) == shape(japanese)
    assert rows(english) == rows(japanese)


@PAIRS
def test_links_to_sections_lead_to_sections(english: Path, japanese: Path) -> None:
    for page in (english, japanese):
        for target in links(page):
            name, _, anchor = target.partition("#")
            if anchor and ":" not in name:
                found = [slug(title) for title in headings(page.parent / name if name else page)]
                assert anchor in found, f"{page.name}: {target}"


def headings(page: Path) -> list[str]:
    """Return the title of each heading outside code blocks."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    return re.findall(r"^#+ (.+)$", text, re.MULTILINE)


def slug(title: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def rows(page: Path) -> list[list[str]]:
    """Return the code of each table row, sorted, because languages order words differently."""
    return [
        sorted(re.findall(r"`([^`]+)`", line))
        for line in page.read_text("utf-8").splitlines()
        if line.startswith("|")
    ]
