"""docs/reader.md and its Japanese version: their commands do what they say, on pages of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabane.reader.paging import FORMATS
from tabane.reader.table import ReadUrl
from tests.e2e.docs.pages import ROOT, blocks, shape
from tests.e2e.docs.test_models import typed
from tests.harness.ports import reserved_port

PAGES = [ROOT / "docs" / "reader.md", ROOT / "docs" / "reader.ja.md"]


def test_both_pages_type_the_same() -> None:
    english, japanese = map(shape, PAGES)
    assert japanese == english


@pytest.mark.heavy("runs what a document says")
def test_the_first_try_is_answered(tmp_path: Path) -> None:
    block = blocks("reader:begin")[0]  # the same on both pages
    port = str(reserved_port(block))
    text = block.text.replace("$(mktemp -d)", str(tmp_path / "other")).replace("8099", port)
    assert text != block.text
    out = typed(tmp_path, 'model = "none"\n', f"cd '{tmp_path}'\n{text}")
    assert 'title: "Tea"' in out
    assert "four minutes, no longer." in out
    assert "Green tea wants cooler water." in out
    assert "<h1>Tea</h1>" in out
    assert f"tabane read http://127.0.0.1:{port}/notes.md" in out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_parameter_and_format_is_explained(page: Path) -> None:
    text = page.read_text("utf-8")
    for name in (*ReadUrl.__struct_fields__[1:], *FORMATS):
        assert f"`{name}" in text, name
