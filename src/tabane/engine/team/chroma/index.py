"""An index of vectors on Chroma: a collection for each set, marked in its metadata.

A search names the collection by its id, so a collection that was created again is never taken for the one
that was filled. Chroma answers a search with all that was put before.

Filters are not sent, so no fields are kept there. For a filter, Chroma lists all ids that match. That takes
longer than a search for more candidates (measured with half of 20,000 vectors).
"""

from __future__ import annotations

from collections.abc import Sequence

from tabane.engine.candidate_index import CandidateIndex, IndexedVector, IndexVersion, SparseVector
from tabane.engine.team.chroma.folder import ChromaFolder
from tabane.engine.team.chroma.server import ChromaServer
from tabane.engine.team.chroma.service import (
    LONGEST,
    ChromaCollection,
    ChromaService,
    ChromaUrl,
    DamagedCollection,
)
from tabane.errors import StoreError
from tabane.messages import say
from tabane.search.records import EVERYTHING, Filter, Shape

MOST = 10_000  # rows of a search
OLDEST = "1.0"
_MARK, _LAYOUT = "tabane_mark", "tabane_layout"
_CURRENT = "1"  # of the collections; another one is filled again


class ChromaIndex(CandidateIndex):
    """The protocol :class:`~tabane.engine.candidate_index.CandidateIndex`, by several threads."""

    def __init__(self, url: ChromaUrl, service: ChromaService) -> None:
        self._url, self._service = url, service

    @property
    def place(self) -> str:
        return self._url.place

    @property
    def slowest(self) -> float:
        return float(self._url.timeout)

    @property
    def most(self) -> int:
        return MOST

    def version(self) -> IndexVersion:
        found = self._service.version()
        if found.startswith("0."):
            problem = say("Chroma {found} is too old; {least} or newer is needed", found=found, least=OLDEST)
            raise StoreError(say("{place}: {problem}", place=self.place, problem=problem))
        return IndexVersion(f"Chroma {found}")

    def mark(self, name: str, shape: Shape) -> str | None:
        """Return None also if Chroma cannot search the set, as after a crash while it wrote its files."""
        named = self._collection_name(name)
        found = self._service.find(named)
        if found is None or found.metadata.get(_LAYOUT) != _CURRENT:
            return None
        if found.dimension:
            try:
                self._service.nearest(named, found.id, bytes(4 * found.dimension), 1, LONGEST)
            except DamagedCollection:
                return None
        return str(found.metadata.get(_MARK, "")) or None

    def reset(self, name: str, dimension: int | None, shape: Shape) -> None:
        named = self._collection_name(name)
        self._service.drop(named)
        self._service.create(named, {_LAYOUT: _CURRENT})

    def put(self, name: str, vectors: Sequence[IndexedVector], shape: Shape) -> None:
        if vectors:
            rows, given = [each.row for each in vectors], [_dense(each.vector) for each in vectors]
            self._service.put(self._collection_name(name), self._find_collection(name).id, rows, given)

    def remove(self, name: str, rows: Sequence[int]) -> None:
        if rows:
            self._service.remove(self._collection_name(name), self._find_collection(name).id, rows)

    def advance(self, name: str, mark: str) -> str:
        found = self._find_collection(name)
        self._service.note(self._collection_name(name), found.id, {_LAYOUT: _CURRENT, _MARK: mark})
        return found.id

    def narrows(self, where: Filter, shape: Shape) -> bool:
        return where == EVERYTHING

    def nearest(
        self, name: str, vector: bytes | SparseVector, where: Filter, shape: Shape, most: int, note: str
    ) -> Sequence[int]:
        dense = _dense(vector)
        return self._service.nearest(self._collection_name(name), note, dense, min(most, MOST), self.slowest)

    def drop(self, name: str) -> None:
        self._service.drop(self._collection_name(name))

    def close(self) -> None:
        self._service.close()

    def _collection_name(self, name: str) -> str:
        return f"{self._url.prefix}_{name}"

    def _find_collection(self, name: str) -> ChromaCollection:
        found = self._service.find(self._collection_name(name))
        if found is None:
            detail = say("collection {name} is missing", name=self._collection_name(name))
            raise StoreError(say("{place} cannot be used ({detail})", place=self.place, detail=detail))
        return found


def _dense(vector: bytes | SparseVector) -> bytes:
    """Return the vector. None is sparse, because :meth:`ChromaIndex.version` says so."""
    assert isinstance(vector, bytes)
    return vector


def chroma_index(url: ChromaUrl) -> ChromaIndex:
    """Return the index at that URL. It connects with its first call."""
    return ChromaIndex(url, ChromaFolder(url) if url.folder else ChromaServer(url))
