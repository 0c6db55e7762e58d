"""A collection whose truth is elsewhere, read from a local replica while that is current.

Writes, records by key, and missing vectors are asked of the truth. The replica answers everything that
searches, counts or lists. If it lacks a change that was committed before, or fails, the truth answers. While
the truth cannot be reached, the replica answers with what it has, also for records by key. Whoever has read
such a record cannot write in the same request: it may be an old one.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from tabane.engine.collection_replica import CollectionReplica
from tabane.errors import StoreBusy, StoreError
from tabane.messages import Message, say
from tabane.search.engine import (
    Capability,
    Collection,
    EngineHits,
    Exchanged,
    JoinedRecords,
    LexicalQuery,
    ListedKeys,
    NearestRequest,
    Order,
    Ranks,
    SelectedPage,
    Similarities,
    VectorQuery,
)
from tabane.search.filters import EVERYTHING, Filter
from tabane.search.records import EmbeddingSpace, Record, Scalar, Shape, StoredRecord

log = logging.getLogger(__name__)

T = TypeVar("T")

_read_of_old: ContextVar[bool] = ContextVar("read_of_old", default=False)
"""Whether the last record by key of this request came from a replica without its truth."""

_LONGEST_WAIT = 60.0  # seconds, for changes that are acknowledged while blocks are read


class ReplicatedCollection:
    """The protocols of :mod:`tabane.search.engine` document its methods."""

    def __init__(self, truth: Collection, replica: CollectionReplica) -> None:
        self.truth, self._replica = truth, replica

    @property
    def shape(self) -> Shape:
        return self.truth.shape

    @property
    def spaces(self) -> tuple[EmbeddingSpace, ...]:
        return self.truth.spaces

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.truth.capabilities

    @property
    def remark(self) -> Message | None:
        if not self._replica.away:
            return None
        return say(
            "The database cannot be reached, so this hub has searched its own copy. The latest changes of "
            "other hubs may be missing."
        )

    @property
    def changes(self) -> int:
        return max(self.truth.changes, self._replica.newest)

    # What the truth does

    async def add_space(self, space: EmbeddingSpace) -> None:
        await self._changed(self.truth.add_space(space))

    async def drop_space(self, name: str) -> None:
        await self._changed(self.truth.drop_space(name))

    async def succeed(self, name: str, by: str) -> None:
        await self._changed(self.truth.succeed(name, by))

    async def upsert(self, records: Sequence[Record], models: Mapping[str, str] | None = None) -> list[bool]:
        return await self._changed(self.truth.upsert(records, models))

    async def exchange(
        self,
        records: Sequence[Record],
        gone: Sequence[str] = (),
        models: Mapping[str, str] | None = None,
    ) -> Exchanged:
        return await self._changed(self.truth.exchange(records, gone, models))

    async def delete(self, keys: Sequence[str]) -> int:
        return await self._changed(self.truth.delete(keys))

    async def attach(
        self, vectors: Mapping[int, Mapping[str, bytes]], model: str = "", epoch: int | None = None
    ) -> int:
        return await self._changed(self.truth.attach(vectors, model, epoch))

    async def get(self, keys: Sequence[str]) -> list[Record | None]:
        return await self._known(lambda asked: asked.get(keys))

    async def vectors(self, keys: Sequence[str], space: str) -> list[bytes | None]:
        return await self._known(lambda asked: asked.vectors(keys, space))

    async def lacking(
        self, space: str, after: int = 0, limit: int = 100, where: Filter = EVERYTHING
    ) -> list[StoredRecord]:
        return await self.truth.lacking(space, after, limit, where)

    async def waiting(
        self, space: str, where: Filter, newest: str | None = None, skip: int = 0, limit: int = 100
    ) -> list[StoredRecord]:
        return await self.truth.waiting(space, where, newest, skip, limit)

    async def _known(self, work: Callable[[Collection], Awaitable[T]]) -> T:
        """Ask the truth; the replica while that cannot be reached."""
        local = await self._replica.alone() if self._replica.away else None
        if local is None:
            try:
                found = await work(self.truth)
            except StoreError:
                local = await self._replica.alone()
                if local is None:
                    raise
            else:
                _read_of_old.set(False)
                return found
        _read_of_old.set(True)
        return await work(local)

    async def _changed(self, write: Coroutine[Any, Any, T]) -> T:
        if _read_of_old.get():
            _read_of_old.set(False)
            write.close()
            raise StoreBusy(
                say("The database could not be reached while this was read. Nothing was written; try again.")
            )
        done = await write
        self._replica.written()
        return done

    # What the replica answers

    async def select(
        self, where: Filter, *, order: tuple[Order, ...] = (), after: str | None = None, limit: int = 100
    ) -> SelectedPage:
        return await self._read(lambda asked: asked.select(where, order=order, after=after, limit=limit))

    async def facet(self, field: str, where: Filter, limit: int = 100) -> list[tuple[Scalar, int]]:
        return await self._read(lambda asked: asked.facet(field, where, limit))

    async def count(self, where: Filter) -> int:
        return await self._read(lambda asked: asked.count(where))

    async def tally(self, field: str, where: Filter) -> dict[Scalar, int]:
        return await self._read(lambda asked: asked.tally(field, where))

    async def histogram(self, field: str, bounds: Sequence[float], where: Filter) -> list[int]:
        return await self._read(lambda asked: asked.histogram(field, bounds, where))

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]:
        return await self._read(lambda asked: asked.firsts(field, order, where))

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        return await self._read(lambda asked: asked.search(query, where, limit, offset))

    async def embedded(self, space: str, where: Filter) -> int:
        return await self._read(lambda asked: asked.embedded(space, where))

    async def similarities(self, query: VectorQuery, keys: Sequence[str]) -> list[float | None]:
        return await self._read(lambda asked: asked.similarities(query, keys))

    async def nearest(self, query: VectorQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        return await self._read(lambda asked: asked.nearest(query, where, limit, offset))

    async def together(
        self,
        work: Callable[[JoinedRecords], Coroutine[Any, Any, T]],
        *,
        long: bool = False,
        first: NearestRequest | None = None,
    ) -> T:
        return await work(self)

    async def listing(self, order: Order, where: Filter) -> AsyncIterator[ListedKeys]:
        async for block in self._blocks(lambda asked: asked.listing(order, where)):
            yield block

    async def scan(self, query: VectorQuery, where: Filter) -> AsyncIterator[Similarities]:
        async for block in self._blocks(lambda asked: asked.scan(query, where)):
            yield block

    async def ranking(self, query: VectorQuery, where: Filter) -> AsyncIterator[Ranks]:
        async for block in self._blocks(lambda asked: asked.ranking(query, where)):
            yield block

    async def _read(self, work: Callable[[Collection], Awaitable[T]]) -> T:
        local = await self._replica.current()
        if local is not None:
            try:
                return await work(local)
            except StoreError as error:
                self._failed(error)
        return await work(self.truth)

    async def _blocks(self, work: Callable[[Collection], AsyncIterator[T]]) -> AsyncIterator[T]:
        """Yield the blocks of the replica. If it fails before the first one, the truth's.

        A later block waits for the changes that were acknowledged before it was requested.
        """
        local = await self._replica.current()
        begun = False
        if local is not None:
            try:
                async for block in work(local):
                    begun = True
                    yield block
                    if not await self._replica.caught_up(_LONGEST_WAIT):
                        raise StoreBusy(
                            say("The index of this hub is behind its database. Try again in a minute.")
                        )
                return
            except StoreError as error:
                if begun:
                    raise
                self._failed(error)
        async for block in work(self.truth):
            yield block

    def _failed(self, error: StoreError) -> None:
        log.warning("a replica failed, and the database was asked instead: %s", error)
