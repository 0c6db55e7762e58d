"""The protocol of an index outside of the database, which proposes rows near a vector.

The database is the truth: it checks that the rows exist and match, and computes their similarities. So an
index may hold rows that are gone, and similarities need not be exact. It holds one set for each space.

All calls block, end within a limited time, and raise StoreError if the index cannot be used. A set is
named by the caller: letters, digits and underscores, at most 60.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tabane.search.records import Filter, Shape, Value


@dataclass(frozen=True, slots=True)
class IndexedVector:
    """A row with its unit vector (float32, little-endian), and the fields that filters look at."""

    row: int
    vector: bytes
    fields: Mapping[str, Value] = field(default_factory=dict)


class CandidateIndex(Protocol):
    """Sets of vectors in another place."""

    @property
    def place(self) -> str:
        """Return the address without secrets. Another index has another one."""
        ...

    @property
    def slowest(self) -> float:
        """Return the seconds after which a call of :meth:`nearest` has ended."""
        ...

    @property
    def most(self) -> int:
        """Return the number of rows that :meth:`nearest` returns at most."""
        ...

    def version(self) -> str:
        """Connect, and return name and version of the server, for people: ``Milvus 2.6.1``."""
        ...

    def mark(self, name: str, shape: Shape) -> str | None:
        """Return the mark of a set; None if there is no such set, or it is of another shape."""
        ...

    def reset(self, name: str, dimension: int, shape: Shape) -> None:
        """Create a set without vectors. One that is there is dropped."""
        ...

    def put(self, name: str, vectors: Sequence[IndexedVector], shape: Shape) -> None:
        """Add vectors, or replace those of the same rows."""
        ...

    def remove(self, name: str, rows: Sequence[int]) -> None:
        """Remove vectors, if they are there."""
        ...

    def advance(self, name: str, mark: str, *, complete: bool) -> str:
        """Mark what the set holds by now. Return a note.

        A search with that note, by any process, sees all that was put before. ``complete``: nothing more
        waits to be put, so the index may tidy itself.
        """
        ...

    def narrows(self, where: Filter, shape: Shape) -> bool:
        """Return whether :meth:`nearest` proposes only rows that match the filter."""
        ...

    def nearest(
        self, name: str, vector: bytes, where: Filter, shape: Shape, most: int, note: str
    ) -> Sequence[int]:
        """Return up to ``most`` rows, the most similar first. All that match the filter may be among them."""
        ...

    def drop(self, name: str) -> None:
        """Drop a set, if it is there."""
        ...

    def close(self) -> None:
        """Close the connections. A later call connects again."""
        ...
