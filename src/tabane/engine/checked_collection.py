"""The face in front of every engine: it checks what callers pass, once, and calls an engine with the result.

An engine (:class:`CollectionEngine`) gets keys in their stored form, records that fit the shape, filters in
normal form, decoded cursors, vector queries as unit vectors, and writes in parts of the size that it commits.
So no engine checks, splits or encodes anything itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec import structs

from tabane.engine import input_checks
from tabane.engine.input_checks import (
    MOST_ROWS,
    NUMERIC,
    TEXTUAL,
    RecordsCursor,
    check_bounded,
    check_kind,
    check_page,
)
from tabane.engine.vector_request import VectorRequest, checked_request
from tabane.messages import Message
from tabane.search.engine import (
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
from tabane.search.records import (
    EVERYTHING,
    EmbeddingSpace,
    Filter,
    Kind,
    Record,
    Scalar,
    Shape,
    StoredRecord,
    checked_filter,
    checked_key,
    checked_space,
)

T = TypeVar("T")

MOST_BOUNDS = 100_000  # of a histogram


class EngineReads(Protocol):
    """The requests that an engine can answer together, at one moment. All arguments are checked."""

    @property
    def shape(self) -> Shape: ...

    async def get(self, keys: Sequence[str]) -> list[Record | None]: ...

    async def select(
        self, where: Filter, order: tuple[Order, ...], after: RecordsCursor | None, most: int
    ) -> list[StoredRecord]:
        """Return up to ``most`` matching records in order, ties by key, from behind the cursor on."""
        ...

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]: ...

    async def similarities(self, request: VectorRequest, keys: Sequence[str]) -> list[float | None]: ...

    async def nearest(
        self, request: VectorRequest, where: Filter, limit: int, offset: int = 0
    ) -> EngineHits: ...


class CheckedNearest(NamedTuple):
    """A request for the nearest records, from the first one on, after its checks."""

    request: VectorRequest
    where: Filter
    limit: int


class CollectionEngine(EngineReads, Protocol):
    """A collection as an engine stores and searches it. All arguments are checked.

    Methods without a description do what those of :class:`~tabane.search.engine.Collection` do.
    """

    most_rows: int
    """Records of one :meth:`upsert` at most."""

    most_bytes: int
    """Bytes of one :meth:`upsert` at most, unless one record is larger."""

    @property
    def changes(self) -> int: ...

    async def add_space(self, space: EmbeddingSpace) -> None:
        """Create a space that is missing, or refuse it because another one has its name."""
        ...

    async def drop_space(self, name: str) -> None: ...

    async def succeed(self, name: str, by: str) -> None: ...

    async def upsert(self, records: Sequence[Record], models: Mapping[str, str]) -> list[bool]:
        """Write one part of the records. ``models`` is checked again when it is committed."""
        ...

    async def exchange(
        self, records: Sequence[Record], gone: Sequence[str], rows: int, models: Mapping[str, str]
    ) -> Exchanged:
        """Write and delete in one commit. ``rows``: as many as the writer counts for it."""
        ...

    async def delete(self, keys: Sequence[str]) -> int:
        """Delete at most 100 records."""
        ...

    async def attach(self, vectors: Mapping[int, Mapping[str, bytes]], model: str, epoch: int | None) -> int:
        """Attach vectors to at most 100 rows."""
        ...

    async def facet(self, field: str, where: Filter, limit: int) -> list[tuple[Scalar, int]]: ...

    async def count(self, where: Filter) -> int: ...

    async def tally(self, field: str, where: Filter) -> dict[Scalar, int]: ...

    async def histogram(self, field: str, bounds: Sequence[float], where: Filter) -> list[int]: ...

    def listing(self, order: Order, where: Filter) -> AsyncIterator[ListedKeys]: ...

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int) -> EngineHits: ...

    async def vectors(self, keys: Sequence[str], space: str) -> list[bytes | None]: ...

    async def lacking(self, space: str, after: int, limit: int, where: Filter) -> list[StoredRecord]: ...

    async def embedded(self, space: str, where: Filter) -> int: ...

    async def waiting(
        self, space: str, where: Filter, newest: str | None, skip: int, limit: int
    ) -> list[StoredRecord]: ...

    def scan(self, request: VectorRequest, where: Filter) -> AsyncIterator[Similarities]: ...

    def ranking(self, request: VectorRequest, where: Filter) -> AsyncIterator[Ranks]: ...

    async def together(
        self,
        work: Callable[[EngineReads], Coroutine[Any, Any, T]],
        *,
        long: bool,
        first: CheckedNearest | None,
    ) -> T: ...


class CheckedReads(JoinedRecords):
    """Checks requests that can be joined. ``first``: a request whose checks were made, and their result."""

    def __init__(
        self, reads: EngineReads, first: tuple[NearestRequest, CheckedNearest] | None = None
    ) -> None:
        self._reads, self._first = reads, first

    @property
    def shape(self) -> Shape:
        return self._reads.shape

    async def _read(
        self, work: Callable[[EngineReads], Awaitable[T]], *, by_key: bool = False, nearest: bool = False
    ) -> T:
        """Return the result of a request.

        ``by_key``: its caller may change what it reads and write it. ``nearest``: it looks for the nearest
        records.
        """
        return await work(self._reads)

    async def get(self, keys: Sequence[str]) -> list[Record | None]:
        ready = input_checks.checked_keys(keys)
        return await self._read(lambda reads: reads.get(ready), by_key=True)

    async def select(
        self, where: Filter, *, order: tuple[Order, ...] = (), after: str | None = None, limit: int = 100
    ) -> SelectedPage:
        shape = self.shape
        check_page(limit)
        condition = checked_filter(where, shape)
        input_checks.check_order(order, shape)
        cursor = None if after is None else input_checks.read_cursor(after, order, shape)
        records = await self._read(lambda reads: reads.select(condition, order, cursor, limit + 1))
        if len(records) <= limit:
            return SelectedPage(tuple(records))
        page = tuple(records[:limit])
        return SelectedPage(page, input_checks.cursor_after(page[-1].record, order, shape))

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]:
        shape = self.shape
        check_kind(shape.field(field), (Kind.STRING,), "firsts")
        check_kind(shape.field(order.field), NUMERIC, "order")
        condition = checked_filter(where, shape)
        return await self._read(lambda reads: reads.firsts(field, order, condition))

    async def similarities(self, query: VectorQuery, keys: Sequence[str]) -> list[float | None]:
        ready, request = input_checks.checked_keys(keys), checked_request(query, self.shape)
        return await self._read(lambda reads: reads.similarities(request, ready))

    async def nearest(self, query: VectorQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        if self._first is not None and not offset:
            first, checked = self._first
            if query is first.query and where is first.where and limit == first.limit:
                return await self._read(lambda reads: reads.nearest(*checked), nearest=True)
        check_page(limit, offset)
        shape = self.shape
        request, condition = checked_request(query, shape), checked_filter(where, shape)
        return await self._read(lambda reads: reads.nearest(request, condition, limit, offset), nearest=True)


EngineT = TypeVar("EngineT", bound=CollectionEngine)


class CheckedCollection(CheckedReads, Collection, Generic[EngineT]):
    """The collection of an engine. :class:`~tabane.search.engine.Collection` documents its methods.

    A subclass may have some requests answered by another engine that has the same records.
    """

    def __init__(self, engine: EngineT) -> None:
        super().__init__(engine)
        self.engine = engine

    def continue_with(self, engine: EngineT) -> None:
        """Replace the engine by another one with the same records, whose derived data was rebuilt."""
        self.engine = self._reads = engine

    @property
    def spaces(self) -> tuple[EmbeddingSpace, ...]:
        return self.shape.spaces

    @property
    def remark(self) -> Message | None:
        return None

    @property
    def changes(self) -> int:
        return self.engine.changes

    # Who answers

    async def _read(
        self, work: Callable[[CollectionEngine], Awaitable[T]], *, by_key: bool = False, nearest: bool = False
    ) -> T:
        return await work(self.engine)

    async def _read_blocks(self, work: Callable[[CollectionEngine], AsyncIterator[T]]) -> AsyncIterator[T]:
        async for block in work(self.engine):
            yield block

    async def _read_truth(self, work: Callable[[CollectionEngine], Awaitable[T]]) -> T:
        """Return the result of a request on which a write depends that nobody sees."""
        return await work(self.engine)

    async def _write(self, work: Callable[[CollectionEngine], Awaitable[T]]) -> T:
        return await work(self.engine)

    # Spaces

    async def add_space(self, space: EmbeddingSpace) -> None:
        if not any(each.name == space.name and each.takes(space) for each in self.spaces):
            ready = checked_space(space)
            await self._write(lambda engine: engine.add_space(ready))

    async def drop_space(self, name: str) -> None:
        if any(space.name == name for space in self.spaces):
            await self._write(lambda engine: engine.drop_space(name))

    async def succeed(self, name: str, by: str) -> None:
        checked_space(structs.replace(self.shape.space(by), name=name))
        await self._write(lambda engine: engine.succeed(name, by))

    # Writing

    async def upsert(self, records: Sequence[Record], models: Mapping[str, str] | None = None) -> list[bool]:
        known, results = models or {}, list[bool]()
        ready = await input_checks.checked_records(records, self.shape, known)

        async def write(part: Sequence[Record]) -> list[bool]:
            return await self._write(lambda engine: engine.upsert(part, known))

        for part in input_checks.cut(ready, self.engine.most_rows, self.engine.most_bytes):
            results += await write(part)
        return results

    async def exchange(
        self, records: Sequence[Record], gone: Sequence[str] = (), models: Mapping[str, str] | None = None
    ) -> Exchanged:
        input_checks.check_count(records, gone)
        known = models or {}
        ready = await input_checks.checked_records(records, self.shape, known)
        keys, rows = await input_checks.checked_exchange(ready, gone)
        if not rows:
            return Exchanged()
        return await self._write(lambda engine: engine.exchange(ready, keys, rows, known))

    async def delete(self, keys: Sequence[str]) -> int:
        ready, deleted = [checked_key(key) for key in keys], 0

        async def delete(part: Sequence[str]) -> int:
            return await self._write(lambda engine: engine.delete(part))

        for first in range(0, len(ready), MOST_ROWS):
            deleted += await delete(ready[first : first + MOST_ROWS])
        return deleted

    async def attach(
        self, vectors: Mapping[int, Mapping[str, bytes]], model: str = "", epoch: int | None = None
    ) -> int:
        ready = input_checks.checked_attachment(vectors, self.shape, model)
        rows, live = list(ready), 0

        async def attach(part: Mapping[int, Mapping[str, bytes]]) -> int:
            return await self._write(lambda engine: engine.attach(part, model, epoch))

        for first in range(0, len(rows), MOST_ROWS):
            live += await attach({row: ready[row] for row in rows[first : first + MOST_ROWS]})
        return live

    # Counts

    async def facet(self, field: str, where: Filter, limit: int = 100) -> list[tuple[Scalar, int]]:
        check_page(limit)
        shape = self.shape
        shape.field(field)
        condition = checked_filter(where, shape)
        return await self._read(lambda engine: engine.facet(field, condition, limit))

    async def count(self, where: Filter) -> int:
        condition = checked_filter(where, self.shape)
        return await self._read(lambda engine: engine.count(condition))

    async def tally(self, field: str, where: Filter) -> dict[Scalar, int]:
        shape = self.shape
        check_kind(shape.field(field), TEXTUAL, "tally")
        condition = checked_filter(where, shape)
        return await self._read(lambda engine: engine.tally(field, condition))

    async def histogram(self, field: str, bounds: Sequence[float], where: Filter) -> list[int]:
        shape = self.shape
        check_bounded("bounds", len(bounds), 2, MOST_BOUNDS)
        check_kind(shape.field(field), NUMERIC, "histogram")
        condition = checked_filter(where, shape)
        return await self._read(lambda engine: engine.histogram(field, bounds, condition))

    async def listing(self, order: Order, where: Filter) -> AsyncIterator[ListedKeys]:
        shape = self.shape
        check_kind(shape.field(order.field), NUMERIC, "order")
        condition = checked_filter(where, shape)
        async for block in self._read_blocks(lambda engine: engine.listing(order, condition)):
            yield block

    # Texts

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        shape = self.shape
        check_page(limit, offset)
        shape.text_names(query.fields)
        condition = checked_filter(where, shape)
        return await self._read(lambda engine: engine.search(query, condition, limit, offset))

    # Vectors

    async def vectors(self, keys: Sequence[str], space: str) -> list[bytes | None]:
        ready = input_checks.checked_keys(keys)
        self.shape.space(space)
        return await self._read(lambda engine: engine.vectors(ready, space), by_key=True)

    async def lacking(
        self, space: str, after: int = 0, limit: int = 100, where: Filter = EVERYTHING
    ) -> list[StoredRecord]:
        shape = self.shape
        check_page(limit)
        shape.space(space)
        condition = checked_filter(where, shape)
        return await self._read_truth(lambda engine: engine.lacking(space, after, limit, condition))

    async def embedded(self, space: str, where: Filter) -> int:
        condition = checked_filter(where, self.shape)
        if not any(each.name == space for each in self.spaces):
            return 0
        return await self._read(lambda engine: engine.embedded(space, condition))

    async def waiting(
        self, space: str, where: Filter, newest: str | None = None, skip: int = 0, limit: int = 100
    ) -> list[StoredRecord]:
        shape = self.shape
        check_page(limit)
        shape.space(space)
        if newest is not None:
            check_kind(shape.field(newest), NUMERIC, "waiting")
        condition = checked_filter(where, shape)
        return await self._read_truth(lambda engine: engine.waiting(space, condition, newest, skip, limit))

    async def scan(self, query: VectorQuery, where: Filter) -> AsyncIterator[Similarities]:
        request, condition = checked_request(query, self.shape), checked_filter(where, self.shape)
        async for block in self._read_blocks(lambda engine: engine.scan(request, condition)):
            yield block

    async def ranking(self, query: VectorQuery, where: Filter) -> AsyncIterator[Ranks]:
        request, condition = checked_request(query, self.shape), checked_filter(where, self.shape)
        async for block in self._read_blocks(lambda engine: engine.ranking(request, condition)):
            yield block

    async def together(
        self,
        work: Callable[[JoinedRecords], Coroutine[Any, Any, T]],
        *,
        long: bool = False,
        first: NearestRequest | None = None,
    ) -> T:
        known = None
        if first is not None:
            check_page(first.limit)
            request, condition = (
                checked_request(first.query, self.shape),
                checked_filter(first.where, self.shape),
            )
            known = first, CheckedNearest(request, condition, first.limit)
        return await self._read(
            lambda engine: engine.together(
                lambda reads: work(CheckedReads(reads, known)), long=long, first=known and known[1]
            )
        )
