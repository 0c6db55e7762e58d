"""Process that has a folder of Chroma open: ``python folder_worker.py FOLDER``.

It answers requests in their order: a line of JSON each, with ``number`` and ``do``, and what that needs. An
answer has the ``number`` and what was found, or an ``error``. It imports nothing of Tabane.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

_MOST_OPEN = 100  # collections

Answer = dict[str, Any]


class FolderDatabase:
    """The database in a folder, which no other process may have open."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._held = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        import chromadb
        from chromadb.config import Settings

        self._client = chromadb.PersistentClient(folder, settings=Settings(anonymized_telemetry=False))
        self._open: dict[str, Any] = {}  # by id

    def version(self, asked: Answer) -> Answer:
        """Return the version of Chroma."""
        return {"version": self._client.get_version()}

    def find(self, asked: Answer) -> Answer:
        """Return id, dimension and metadata of a collection; an id of None if there is none."""
        from chromadb.errors import NotFoundError

        try:
            found = self._client.get_collection(asked["name"], embedding_function=None)
        except NotFoundError:
            return {"id": None}
        if len(self._open) >= _MOST_OPEN:
            self._open.clear()
        self._open[str(found.id)] = found
        dimension = found._model.dimension
        return {"id": str(found.id), "dimension": dimension, "metadata": found.metadata or {}}

    def create(self, asked: Answer) -> Answer:
        """Create a collection, unless it exists."""
        self._client.create_collection(
            asked["name"],
            metadata=asked["metadata"],
            configuration=asked["configuration"],
            embedding_function=None,
            get_or_create=True,
        )
        return {}

    def drop(self, asked: Answer) -> Answer:
        """Delete a collection, if it exists."""
        from chromadb.errors import NotFoundError

        with contextlib.suppress(NotFoundError):
            self._client.delete_collection(asked["name"])
        return {}

    def note(self, asked: Answer) -> Answer:
        """Replace the metadata of a collection."""
        self._collection(asked).modify(metadata=asked["metadata"])
        return {}

    def put(self, asked: Answer) -> Answer:
        """Add or replace vectors by row."""
        vectors = [_numbers(each) for each in asked["vectors"]]
        self._collection(asked).upsert(ids=[*map(str, asked["rows"])], embeddings=vectors)
        return {}

    def remove(self, asked: Answer) -> Answer:
        """Delete vectors by row."""
        self._collection(asked).delete(ids=[*map(str, asked["rows"])])
        return {}

    def nearest(self, asked: Answer) -> Answer:
        """Return the rows of the nearest vectors, best first."""
        found = self._collection(asked).query(
            query_embeddings=[_numbers(asked["vector"])], n_results=asked["most"], include=[]
        )
        return {"rows": [int(row) for row in found["ids"][0]]}

    def _collection(self, asked: Answer) -> Any:
        if asked["id"] not in self._open:
            self.find(asked)
        if asked["id"] not in self._open:
            raise LookupError(f"the collection {asked['name']} was replaced")
        return self._open[asked["id"]]


def _numbers(packed: str) -> Any:
    import numpy

    return numpy.frombuffer(base64.b64decode(packed), dtype="<f4")


def _requests() -> Iterator[Answer]:
    while line := sys.stdin.readline():
        yield json.loads(line)


def serve(folder: str, tell: Callable[[Answer], None]) -> None:
    """Open the folder, and answer requests until the input ends. The first answer says whether it is open."""
    try:
        database = FolderDatabase(folder)
    except ImportError:
        tell({"error": "missing"})
        return
    except BlockingIOError:
        tell({"error": "used"})
        return
    except Exception as error:
        tell({"error": "broken", "detail": f"{type(error).__name__}: {error}"})
        return
    tell({"ready": True})
    for asked in _requests():
        try:
            found = getattr(database, asked["do"])(asked)
        except Exception as error:  # Chroma raises many types of errors
            found = {
                "error": "damaged" if type(error).__name__ == "InternalError" else "failed",
                "detail": str(error),
            }
        tell({"number": asked["number"], **found})


if __name__ == "__main__":
    # Chroma may print to stdout, so stdout is redirected, and only answers go to the real one.
    out, sys.stdout = sys.stdout, sys.stderr

    def _told(answer: Answer) -> None:
        out.write(json.dumps(answer) + "\n")
        out.flush()

    serve(sys.argv[1], _told)
