"""Process that reads a Chroma collection for the hub, and writes it as JSON lines.

``python -m tabane.documents.files.chroma_worker FOLDER [COLLECTION]``. The first line has ``total``, or an
``error`` code and ``detail``. Then comes a line for each document: ``id``, ``text``, ``metadata``.

A copy of the database is opened. When Chroma opens a database of an older version, it changes the tables, and
older programs could no longer open the original. Vectors are not read, so they are not copied.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from typing import Any

_PAGE = 200  # documents that are read together
_DATABASE = "chroma.sqlite3"
_PARTS = ("", "-wal", "-shm")


Say = Callable[[dict[str, Any]], None]


def read(folder: str, wanted: str | None, tell: Say) -> None:
    """Write the collection to ``tell``, line by line."""
    try:
        import chromadb
        from chromadb.config import Settings
    except ImportError as error:
        tell({"error": "missing", "detail": str(error)})
        return
    with tempfile.TemporaryDirectory() as copy:
        for part in _PARTS:
            path = os.path.join(folder, _DATABASE + part)
            if os.path.exists(path):
                shutil.copyfile(path, os.path.join(copy, _DATABASE + part))
        if not os.path.exists(os.path.join(copy, _DATABASE)):
            tell({"error": "none", "detail": folder})
            return
        try:
            client = chromadb.PersistentClient(copy, settings=Settings(anonymized_telemetry=False))
            names = sorted(collection.name for collection in client.list_collections())
            name = wanted or (names[0] if len(names) == 1 else "documents")
            if name not in names:
                tell({"error": "collection", "detail": name, "names": names})
                return
            _write_documents(client.get_collection(name), tell)
        except Exception as error:  # Chroma raises many types of errors for a database that it cannot read
            tell({"error": "broken", "detail": f"{type(error).__name__}: {error}"})


def _write_documents(collection: Any, tell: Say) -> None:
    total = collection.count()
    tell({"total": total})
    for first in range(0, total, _PAGE):
        page = collection.get(limit=_PAGE, offset=first, include=["documents", "metadatas"])
        texts = page["documents"] or [None] * len(page["ids"])
        metadatas = page["metadatas"] or [None] * len(page["ids"])
        for key, text, metadata in zip(page["ids"], texts, metadatas, strict=True):
            tell({"id": key, "text": text, "metadata": metadata or {}})


if __name__ == "__main__":
    # Chroma prints to stdout too, so stdout is redirected, and only JSON lines go to the real one.
    out, sys.stdout = sys.stdout, sys.stderr

    def _write_line(line: dict[str, Any]) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    read(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None, _write_line)
