"""Rows of Chroma become documents; the error names a row that cannot be read."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tabane.documents.files import chroma_worker
from tabane.documents.files.file_operations import draft_of
from tests.conftest import absent

_PYTHON = Path(__file__).parents[3] / "build" / "chroma" / "bin" / "python"
"""The interpreter that has Chroma's library (``make chroma``)."""

_COLLECTION = """
import chromadb, sys
made = chromadb.PersistentClient(sys.argv[1]).create_collection("documents")
made.add(
    ids=["a", "b"], documents=["# Kumquats", "犬"],
    metadatas=[{"points": 3}, None], embeddings=[[1, 0], [0, 1]]
)
"""


def row(**metadata: Any) -> dict[str, Any]:
    return {"id": "id-1", "text": "text", "metadata": metadata}


def test_what_semche_wrote_is_kept_where_we_keep_it() -> None:
    when = "2025-11-03T10:00:00"
    draft = draft_of(row(filepath="/docs/a.md", updated_at=when, file_type="spec", points=3, done=True))
    assert (draft.filepath, draft.text, draft.file_type) == ("/docs/a.md", "text", "spec")
    assert draft.updated_at == datetime.fromisoformat(when).timestamp()
    assert dict(draft.metadata) == {"points": 3, "done": True}


def test_what_is_not_as_semche_wrote_it_does_no_harm() -> None:
    draft = draft_of(row(updated_at="some day", file_type=7, vector=[1.0], nothing=None), prefix="old")
    assert (draft.filepath, draft.file_type, draft.updated_at) == ("old/id-1", None, None)
    assert dict(draft.metadata) == {}


def test_the_child_says_why_there_is_nothing_to_read(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tabane.documents.files.chroma_worker", str(tmp_path)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["error"] in ("missing", "none")


@pytest.mark.heavy("imports Chroma's library in two processes")
def test_a_folder_of_chroma_is_read_and_stays_as_it_was(tmp_path: Path) -> None:
    if not _PYTHON.exists():
        absent("Chroma (make chroma)")
    subprocess.run([_PYTHON, "-c", _COLLECTION, str(tmp_path)], check=True, cwd="/")
    before = (tmp_path / "chroma.sqlite3").read_bytes()
    worker = [str(_PYTHON), str(chroma_worker.__file__), str(tmp_path)]
    done = subprocess.run(worker, check=True, capture_output=True, text=True, cwd="/")
    first, *rows = map(json.loads, done.stdout.splitlines())
    assert first == {"total": 2}
    assert rows == [
        {"id": "a", "text": "# Kumquats", "metadata": {"points": 3}},
        {"id": "b", "text": "犬", "metadata": {}},
    ]
    assert (tmp_path / "chroma.sqlite3").read_bytes() == before
    other = subprocess.run([*worker, "other"], check=True, capture_output=True, text=True, cwd="/")
    assert json.loads(other.stdout)["error"] == "collection"
