"""docs/documents.md is true: what it types does what it says, and there is an example of every tool."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from tests.docs.pages import ROOT, blocks
from tests.docs.test_models import typed

PAGE = ROOT / "docs" / "documents.md"
TOOLS = {
    "put_document", "put_documents", "put_file", "search_documents", "get_document", "hello",
    "get_documents_by_prefix", "list_documents", "delete_document", "get_document_stats",
}  # fmt: skip


def test_the_first_try_is_answered(tmp_path: Path) -> None:
    (block,) = blocks("documents:begin")
    text = block.text.replace("$(mktemp -d)", str(tmp_path / "other"))
    assert text != block.text
    out = typed(tmp_path, 'model = "none"\n', f"cd '{tmp_path}'\n{text}").splitlines()
    assert out[0].startswith("2 new, 0 changed")
    assert any("notes/release.md" in line and "\tRelease\t" in line for line in out)
    assert any(line.split("\t")[1:2] == ["notes/recipes/cake.md"] for line in out)
    assert "小麦粉と卵を混ぜて、オーブンで焼く。" in out
    assert any(line.split("\t")[1:2] == ["todo"] and "Buy milk." in line for line in out)
    assert any(line.split("\t")[:2] == [str(tmp_path / "notes"), "watching"] for line in out)
    assert "1 documents deleted" in out
    assert "documents\t2" in out


def test_the_example_of_every_tool_works(tmp_path: Path) -> None:
    (block,) = blocks("documents:tools")
    calls = json.loads(block.text)
    assert {call["name"] for call in calls} == TOOLS
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "release.md").write_text("# Release\n")
    lines = []
    for call in calls:
        given = json.dumps(call["arguments"]).replace("/home/alice/notes", str(notes))
        lines.append(f"tabane tools call {call['name']} --args {shlex.quote(given)}")
    # `sh -e` ends at the first that fails; a tool that says so makes the command fail.
    out = typed(tmp_path, f'model = "none"\ndocuments_roots = ["{notes}"]\n', "\n".join(lines))
    assert "We chose the blue one." in out
    assert "Hello, Tabane!" in out
