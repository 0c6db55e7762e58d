"""The protocol of a Chroma service: a server over HTTP, or a folder in a separate process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tabane.errors import StoreError

LONGEST = 30.0
"""Seconds of a call that is no search."""

CONFIGURATION: Mapping[str, Any] = {
    "hnsw": {
        "space": "ip",  # the vectors are unit vectors
        "max_neighbors": 16,
        "ef_construction": 100,
        "ef_search": 256,  # a search for more candidates looks at as many
        "batch_size": 1000,
        "sync_threshold": 10_000,  # vectors after which Chroma writes the whole index
    }
}


class DamagedCollection(StoreError):
    """Chroma answers, but cannot use a collection."""


@dataclass(frozen=True, slots=True)
class ChromaCollection:
    """A collection: its id, which is never used again, and what is noted in its metadata."""

    id: str
    dimension: int | None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class ChromaService(Protocol):
    """Calls that block and end within seconds. Each raises StoreError.

    A call with an id raises it also if there is no such collection any more.
    """

    def version(self) -> str:
        """Connect, and return the version of Chroma."""
        ...

    def find(self, name: str) -> ChromaCollection | None: ...

    def create(self, name: str, metadata: Mapping[str, str]) -> None: ...

    def drop(self, name: str) -> None:
        """Drop a collection, if it is there."""
        ...

    def note(self, name: str, id: str, metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a collection."""
        ...

    def put(self, name: str, id: str, rows: Sequence[int], vectors: Sequence[bytes]) -> None:
        """Add or replace vectors of float32."""
        ...

    def remove(self, name: str, id: str, rows: Sequence[int]) -> None: ...

    def nearest(self, name: str, id: str, vector: bytes, most: int, seconds: float) -> list[int]:
        """Return rows, the most similar first. Raises DamagedCollection if Chroma fails at it."""
        ...

    def close(self) -> None: ...
