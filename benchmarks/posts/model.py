"""A model that knows the questions and their vectors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.embedding_server import embedding_server
from benchmarks.posts.sources import Sources


@contextmanager
def served(sources: Sources, place: Path) -> Iterator[str]:
    """Serve the model and return the URL. ``place`` is a file that keeps its port.

    An archive knows its model by that URL. Any text that is no question has the first one's vector.
    """
    vectors = sources.vectors()
    other = next(iter(vectors.values()))
    known = int(place.read_text()) if place.exists() else 0
    with embedding_server(lambda text: vectors.get(text, other).tolist(), known) as port:
        place.write_text(str(port))
        yield f"http://127.0.0.1:{port}/v1"
