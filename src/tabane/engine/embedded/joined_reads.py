"""Several requests to a collection, answered at one moment in one turn of the reading thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from tabane.engine.embedded.counts import CollectionCounts
from tabane.engine.embedded.masks import Masks
from tabane.engine.embedded.vector_coverage import at_one_moment
from tabane.engine.embedded.vector_process import ForeseenMatches
from tabane.engine.embedded.vector_queries import VectorQueries
from tabane.engine.embedded.vectors.vector_index import Moment
from tabane.engine.request_checks import check_bounded, checked_keys
from tabane.engine.vector_request import checked_request
from tabane.search import filters
from tabane.search.engine import (
    DEEPEST_OFFSET,
    MOST_AT_ONCE,
    EngineHits,
    NearestRequest,
    Order,
    SelectedPage,
    VectorQuery,
)
from tabane.search.filters import Filter
from tabane.search.records import Record, Scalar

T = TypeVar("T")

_NO_SPACES: Moment = {}


@dataclass(frozen=True, slots=True)
class ForeseenHits:
    """Hits that were found for a request before its turn, as of the moment at which it was made."""

    request: NearestRequest
    found: ForeseenMatches

    def answers(self, query: VectorQuery, where: Filter, limit: int) -> bool:
        asked = self.request
        return query is asked.query and where is asked.where and limit == asked.limit


class JoinedReads:
    """The requests of :class:`tabane.search.engine.JoinedRecords`, in the transaction of a connection.

    ``vectors`` returns the vector queries, if a space was found. ``sweeps``: those of the strings before the
    transaction began. ``foreseen``: hits of a later request. They are used if all of them are still there.
    Methods never wait, so :func:`finished` can run what calls them.
    """

    def __init__(
        self,
        collection: CollectionCounts,
        vectors: Callable[[], VectorQueries],
        connection: sqlite3.Connection,
        sweeps: int,
        foreseen: ForeseenHits | None = None,
    ) -> None:
        self._collection, self._vectors = collection, vectors
        self._connection, self._sweeps, self._foreseen = connection, sweeps, foreseen

    async def get(self, keys: Sequence[str]) -> list[Record | None]:
        ready = checked_keys(keys)
        self._moment  # noqa: B018  (it chooses the moment, which is not to change later)
        return self._collection.table.truth.get(self._connection, ready)

    async def select(
        self, where: Filter, *, order: tuple[Order, ...] = (), after: str | None = None, limit: int = 100
    ) -> SelectedPage:
        asked = self._collection.checked_selection(where, order, after, limit)
        return self._collection.page_of(self._masks, self._connection, asked)

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]:
        meant = self._collection.checked_firsts(field, order, where)
        return self._collection.firsts_of(self._masks, self._connection, field, order, meant)

    async def similarities(self, query: VectorQuery, keys: Sequence[str]) -> list[float | None]:
        ready = checked_keys(keys)
        asked = checked_request(query, self._collection.shape)
        masks, spaces = self._moment
        return self._vectors().similarities_of(self._connection, masks, spaces, asked, ready)

    async def nearest(self, query: VectorQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        check_bounded("limit", limit, 1, MOST_AT_ONCE)
        check_bounded("offset", offset, 0, DEEPEST_OFFSET)
        foreseen = self._foreseen
        if foreseen is not None and not offset and foreseen.answers(query, where, limit):
            self._moment  # noqa: B018  (as above)
            hits = self._vectors().hits_of(self._connection, foreseen.found.matches, foreseen.found.origin)
            if hits is not None:
                return EngineHits(tuple(hits[:limit]), foreseen.found.matches.compared, foreseen.found.exact)
        shape = self._collection.shape
        asked, meant = checked_request(query, shape), filters.checked(where, shape)
        masks, spaces = self._moment
        return self._vectors().nearest_of(self._connection, masks, spaces, asked, meant, limit, offset)

    @property
    def _masks(self) -> Masks:
        return self._moment[0]

    @cached_property
    def _moment(self) -> tuple[Masks, Moment]:
        """Records, columns and vectors at the moment of the transaction; chosen by the first request."""
        table, spaces = self._collection.table, _NO_SPACES
        if table.vectors is None:
            masks = table.masks(self._connection)
        else:
            masks, spaces = at_one_moment(table, table.vectors, self._connection)
        masks.sweeps = self._sweeps
        return masks, spaces


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing, and return its result. Raises RuntimeError if it waits."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("requests that are joined may not wait for anything else")
