"""docs/documents.md and its Japanese version: their commands do what they say; each tool has an example."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.docs.pages import ROOT, blocks, shape
from tests.e2e.docs.test_models import typed

pytestmark = pytest.mark.heavy("runs what a document says")

PAGES = [ROOT / "docs" / "documents.md", ROOT / "docs" / "documents.ja.md"]
TOOLS = {
    "put_document", "put_documents", "put_file", "search_documents", "get_document", "hello",
    "get_documents_by_prefix", "list_documents", "delete_document", "get_document_stats",
}  # fmt: skip


def test_both_pages_type_the_same() -> None:
    english, japanese = map(shape, PAGES)
    assert japanese == english


def test_the_first_try_is_answered(tmp_path: Path) -> None:
    block = blocks("documents:begin")[0]  # the same on both pages
    text = block.text.replace("$(mktemp -d)", str(tmp_path / "other"))
    assert text != block.text
    out = typed(tmp_path, 'model = "none"\n', f"cd '{tmp_path}'\n{text}").splitlines()
    assert out[0].startswith("2 new, 0 changed")
    assert any("notes/release.md" in line and "\tRelease\t" in line for line in out)
    assert any(line.split("\t")[1:2] == ["notes/recipes/cake.md"] for line in out)
    assert "小麦粉と卵を混ぜて、オーブンで焼く。" in out
    assert any(line.split("\t")[1:2] == ["todo"] and "Buy milk." in line for line in out)
    assert any(line.split("\t")[:2] == [str(tmp_path / "notes"), "watching"] for line in out)
    assert "1 document deleted" in out
    assert "documents\t2" in out


def test_the_example_of_every_tool_works(tmp_path: Path) -> None:
    block = blocks("documents:tools")[0]  # the same on both pages
    calls = [(call["name"], call["arguments"]) for call in json.loads(block.text)]
    out = called(tmp_path, calls)
    assert "We chose the blue one." in out
    assert "Hello, Tabane!" in out


def test_both_pages_say_what_every_tool_does() -> None:
    for page in PAGES:
        assert set(re.findall(r"^\| `(\w+)` \| [^|]+ \|$", page.read_text("utf-8"), re.MULTILINE)) >= TOOLS


def called(folder: Path, calls: list[tuple[str, Any]]) -> str:
    """What the tools print, all of which are called. `sh -e` ends at the first that fails."""
    assert {name for name, _ in calls} == TOOLS
    notes = folder / "notes"
    notes.mkdir()
    (notes / "release.md").write_text("# Release\n")
    lines = []
    for name, arguments in calls:
        given = re.sub("/home/(me|alice)/notes", str(notes), json.dumps(arguments))
        lines.append(f"tabane tools call {name} --args {shlex.quote(given)}")
    return typed(folder, f'model = "none"\ndocuments_roots = ["{notes}"]\n', "\n".join(lines))
