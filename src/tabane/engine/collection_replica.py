"""A local replica of one collection: copied once, then kept up to date by the changes of the truth.

The replica is derived data. If its mark is missing or names another source, all records are copied again.
Requests read it only if it has all changes that were committed before, or while the truth cannot be
reached.

A collection whose truth is elsewhere, read from a local replica while that is current. Writes, records by
key, and missing vectors are asked of the truth. The replica answers everything that searches, counts or
lists. If it lacks a change that was committed before, or fails, the truth answers. While the truth cannot
be reached, the replica answers with what it has, also for records by key. Whoever has read such a record
cannot write in the same request: it may be an old one.

How far a replica is, in a small file beside it. It is written after the records that it counts. If the
process dies in between, the same changes are applied once more, which changes nothing.

The steps that give a replica the embedding spaces of the truth, and where it stands if a step was cut
off. Spaces are known by their numbers in the truth, since names move: a new space takes the name of the
one before it. In the replica they have only names. So each step is noted before it is done. A process
that starts again finds out from the names whether it was done.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from tabane.cancellation import run_to_end
from tabane.engine.checked_collection import CheckedCollection, CheckedNearest, CollectionEngine, EngineReads
from tabane.engine.collection_copying import (
    MOST_REPLICATED,
    ChangedRecords,
    NumberedSpace,
    ReplicaPosition,
    ReplicationFeed,
    batches,
)
from tabane.engine.input_checks import RecordsCursor
from tabane.engine.vector_request import VectorRequest
from tabane.errors import ConfigurationError, StoreBusy, StoreError
from tabane.messages import Message, say
from tabane.search.engine import (
    Capability,
    EngineHits,
    Exchanged,
    LexicalQuery,
    ListedKeys,
    Order,
    Ranks,
    Similarities,
)
from tabane.search.records import EmbeddingSpace, Filter, Record, Scalar, Shape, StoredRecord
from tabane.settings.files import read_private, write_private


class SpaceStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Add, rename or drop one space. ``name``: the one it has afterwards, or had before it was dropped."""

    kind: Literal["add", "rename", "drop"]
    number: int
    name: str
    old: str = ""


def next_step(held: Mapping[int, str], wanted: Mapping[int, str]) -> SpaceStep | None:
    """Return what to do next so that ``held`` becomes ``wanted`` (number → name); None if nothing is left.

    No step overwrites a space: one that is gone is dropped before its name is taken. Where spaces exchange
    their names, one gets another name first.
    """
    for number in sorted(held.keys() - wanted.keys()):
        return SpaceStep(kind="drop", number=number, name=held[number])
    moving = sorted(number for number in held if held[number] != wanted[number])
    taken = set(held.values())
    for number in moving:
        if wanted[number] not in taken:
            return SpaceStep(kind="rename", number=number, name=wanted[number], old=held[number])
    if moving:
        number, used = moving[0], taken | set(wanted.values())
        free = next(name for place in range(len(used) + 1) if (name := f"moving{place}") not in used)
        return SpaceStep(kind="rename", number=number, name=free, old=held[number])
    for number in sorted(wanted.keys() - held.keys()):
        return SpaceStep(kind="add", number=number, name=wanted[number])
    return None


def after_step(held: Mapping[int, str], step: SpaceStep) -> dict[int, str]:
    """Return number → name after the step."""
    rest = {number: name for number, name in held.items() if number != step.number}
    return rest if step.kind == "drop" else {**rest, step.number: step.name}


def reached(held: Mapping[int, str], step: SpaceStep, names: Container[str]) -> dict[int, str]:
    """Return number → name as it is, if the step was noted but perhaps not done. ``names``: what is there."""
    done = {"add": step.name in names, "drop": step.name not in names, "rename": step.old not in names}
    return after_step(held, step) if done[step.kind] else dict(held)


class ReplicaMark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """``source``: which collection of which database this is a copy of.

    ``name``, ``token``: what the replica is for the truth, and what it holds. ``complete``: the first copy is
    done. ``spaces``: number → name. ``step``: what was about to be done with one of them.
    """

    source: str
    name: str
    token: str
    complete: bool = False
    spaces: Mapping[int, str] = {}
    step: SpaceStep | None = None


class ReplicaMarkFile:
    """The file of one replica."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, source: str) -> ReplicaMark | None:
        """Return the mark; None if there is none, or that of another source."""
        try:
            found = msgspec.json.decode(read_private(self._path), type=ReplicaMark)
        except (OSError, msgspec.MsgspecError, ConfigurationError):
            return None
        return found if found.source == source else None

    def write(self, mark: ReplicaMark) -> None:
        """Write the mark as JSON, in a file that only the user can read."""
        write_private(self._path, msgspec.json.encode(mark))

    def forget(self) -> None:
        """Delete the file, if it exists."""
        self._path.unlink(missing_ok=True)


log = logging.getLogger(__name__)

PATIENCE = 0.25
"""Seconds that a request waits for the last changes, before the truth is asked."""

_ASKED = 3.0  # seconds for the number of the last change, before the truth counts as away
_ASKED_AGAIN = 0.3  # seconds while it is away
_POLLED = 1.0  # seconds between two questions for changes of other hubs
_LONGEST_PAUSE = 60.0  # seconds, after failures


class ReplicableCollection(CollectionEngine, Protocol):
    """The collection that holds the replica."""

    async def replicate(self, records: Sequence[Record], gone: Sequence[str]) -> None:
        """Make these records exactly as given, and delete keys, in one commit."""
        ...

    async def settle(self) -> None:
        """Wait until the keyword index has what was written."""
        ...


class ReplicaStorage(Protocol):
    """The files of one replica."""

    async def is_there(self, *, vectors: bool) -> bool:
        """Return whether the files are there; those of vectors as well."""
        ...

    async def opened(self) -> ReplicableCollection: ...

    async def emptied(self) -> ReplicableCollection:
        """Delete the files of the replica, and open a new one."""
        ...


class CollectionReplica:
    """Follows the truth in the background, and lends the replica when it is current.

    ``source`` names the collection and its database. ``patience``: seconds that a request waits for the last
    changes. A failure is logged once, and tried again later.
    """

    def __init__(
        self,
        source: str,
        feed: ReplicationFeed,
        storage: ReplicaStorage,
        marks: ReplicaMarkFile,
        patience: float = PATIENCE,
    ) -> None:
        self._source, self._feed, self._storage, self._marks = source, feed, storage, marks
        self._patience = patience
        self._local: ReplicableCollection | None = None
        self._mark: ReplicaMark | None = None
        self._reached: int | None = None
        self._position: ReplicaPosition | None = None
        self._newest = 0
        self._error: Exception | None = None
        self._away = False
        self._question: asyncio.Future[int] | None = None
        self._wanted, self._applied = asyncio.Event(), asyncio.Condition()
        self._following: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to follow."""
        if self._following is None:
            self._following = asyncio.create_task(self._follow())

    def wake(self) -> None:
        """Look for changes now."""
        self._wanted.set()

    def written(self) -> None:
        """Look for the change that the truth has just acknowledged, so it is not away."""
        if self._away:
            self._away, self._question = False, None
        self.wake()

    async def current(self) -> CollectionEngine | None:
        """Return the replica if it has all changes that were committed before; None if it has not by now.

        While the truth cannot be reached, it is the replica as it is.
        """
        if self._reached is None:
            return None
        newest = await self._ask_newest_change()
        if newest is None:
            return self._local if self._reached is not None else None
        self._newest = max(self._newest, newest)
        if not self._has(newest):
            await self._wait_for_change(newest, self._patience, while_lent=True)
        return self._local if self._has(newest) else None

    @property
    def away(self) -> bool:
        """Return whether the replica answers because the truth could not be reached the last time."""
        return self._away and self._reached is not None

    async def alone(self) -> CollectionEngine | None:
        """Return the replica as it is if the truth cannot be reached; None if that can be asked."""
        return self._local if self._reached is not None and await self._ask_newest_change() is None else None

    async def caught_up(self, seconds: float) -> bool:
        """Wait until the replica has all changes that were committed before. Return whether it has by then.

        While the truth cannot be reached, there is nothing to wait for.
        """
        newest = None if self._away else await self._ask_newest_change()
        if newest is None or self._has(newest):
            return True
        await self._wait_for_change(newest, seconds)
        return self._has(newest)

    async def _ask_newest_change(self) -> int | None:
        """Ask the truth for its newest change. None: it cannot be reached.

        While it is away, requests share one question, so that they do not fill its queue.
        """
        if self._question is None or self._question.done() or not self._away:
            self._question = asyncio.ensure_future(self._feed.newest())
            self._question.add_done_callback(_ignore_failure)
        try:
            async with asyncio.timeout(_ASKED_AGAIN if self._away else _ASKED):
                newest = await asyncio.shield(self._question)
        except (StoreError, TimeoutError):
            if not self._away:
                log.warning("%s cannot be reached: searches are answered by the replica", self._source)
            self._away = True
            return None
        self._away = False
        return newest

    async def _wait_for_change(self, change: int, seconds: float, *, while_lent: bool = False) -> None:
        """Wait until the replica has the change, or until ``seconds`` have passed.

        With ``while_lent``, also stop when the replica can no longer answer.
        """
        self.wake()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._applied:
                while not (self._has(change) or (while_lent and self._reached is None)):
                    await self._applied.wait()

    @property
    def newest(self) -> int:
        """Return the last change of the truth that is known."""
        return self._newest

    def _has(self, change: int) -> bool:
        return self._reached is not None and self._reached >= change

    def report(self) -> dict[str, object]:
        """Return how far the replica is: ``state`` is current, behind, copying, away or failed."""
        if self.away:
            return {"state": "away"}
        if self._error is not None:
            return {"state": "failed", "error": str(self._error)}
        position = self._position
        if position is None or self._mark is None or not self._mark.complete:
            return {"state": "copying"} | ({} if position is None else {"row": position.row})
        state = "current" if self._has(self._newest) else "behind"
        return {"state": state, "change": position.change, "newest": max(self._newest, position.change)}

    # Following

    async def _follow(self) -> None:
        pause = _POLLED
        while True:
            try:
                await self._catch_up()
                self._error, pause = None, _POLLED
            except Exception as error:  # an unexpected one must not end following
                if self._error is None:
                    expected = isinstance(error, StoreError)
                    message = "the replica of %s cannot be brought up to date: %s"
                    log.warning(message, self._source, error, exc_info=not expected)
                self._error, pause = error, min(2 * pause, _LONGEST_PAUSE)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wanted.wait()
            self._wanted.clear()

    async def _catch_up(self) -> None:
        """Apply all changes. What takes several commits is not lent meanwhile."""
        local, mark, position = await self._open_replica()
        newest = await self._ask_newest_change()
        if newest is None:
            return
        self._newest = newest
        if self._newest < position.change:  # another database than before
            await self._forget_replica()
            return
        while not self._has(self._newest):
            page = await self._feed.after(mark.name, position, MOST_REPLICATED)
            if page is None:
                await self._forget_replica()
                return
            mark = await self._apply(local, mark, page)
            if not await self._feed.advance(mark.name, page.position):
                await self._forget_replica()
                return
            position = self._position = page.position
            self._newest = max(self._newest, position.change)
            if page.complete:
                await self._set_reached(position.change)

    async def _set_reached(self, change: int | None) -> None:
        async with self._applied:
            self._reached = change
            self._applied.notify_all()

    async def _open_replica(self) -> tuple[ReplicableCollection, ReplicaMark, ReplicaPosition]:
        if self._local is not None and self._mark is not None and self._position is not None:
            return self._local, self._mark, self._position
        mark = await run_to_end(asyncio.to_thread(self._marks.read, self._source))
        if mark is not None:
            position = await self._feed.join(mark.name)
            there = await self._storage.is_there(vectors=bool(mark.spaces))
            if there and mark.token in (position.mark, position.coming):
                local = await run_to_end(self._storage.opened())
                if set(_finish_step(mark, local).spaces.values()) == _space_names(local):
                    return self._set_replica(local, mark, position)
            await self._feed.leave(mark.name)
        await run_to_end(asyncio.to_thread(self._marks.forget))
        local, name = await run_to_end(self._storage.emptied()), f"replica-{token_hex(8)}"
        position = await self._feed.join(name)
        mark = await self._write_mark(ReplicaMark(source=self._source, name=name, token=position.mark))
        return self._set_replica(local, mark, position)

    def _set_replica(
        self, local: ReplicableCollection, mark: ReplicaMark, position: ReplicaPosition
    ) -> tuple[ReplicableCollection, ReplicaMark, ReplicaPosition]:
        self._local, self._mark, self._position = local, mark, position
        return local, mark, position

    async def _forget_replica(self) -> None:
        """Delete the mark, so that all records are copied again: the truth does not know this replica."""
        log.warning(
            "the replica of %s is unknown to the database: all records are copied again", self._source
        )
        await self._set_reached(None)
        self._mark = self._position = None
        await run_to_end(asyncio.to_thread(self._marks.forget))
        self.wake()

    async def _write_mark(self, mark: ReplicaMark) -> ReplicaMark:
        await run_to_end(asyncio.to_thread(self._marks.write, mark))
        self._mark = mark
        return mark

    # Applying

    async def _apply(
        self, local: ReplicableCollection, mark: ReplicaMark, page: ChangedRecords
    ) -> ReplicaMark:
        parts = list(batches(page.records))
        if len(parts) > 1 or not page.complete:
            await self._set_reached(None)
        mark = await self._change_spaces(local, mark, page.spaces)
        for part in parts[1:]:
            await local.replicate([each.record for each in part], ())
        if parts or page.gone:
            await local.replicate([each.record for part in parts[:1] for each in part], page.gone)
        if page.complete and not mark.complete:
            await local.settle()
        complete = mark.complete or page.complete
        token = page.position.mark
        return await self._write_mark(msgspec.structs.replace(mark, token=token, complete=complete))

    async def _change_spaces(
        self, local: ReplicableCollection, mark: ReplicaMark, spaces: Sequence[NumberedSpace]
    ) -> ReplicaMark:
        """Create, rename and drop spaces, so that they are those of the truth.

        Each step is noted before it is done: see :mod:`tabane.engine.collection_replica`.
        """
        mark = _finish_step(mark, local)
        wanted = {each.number: each.space for each in spaces}
        names = {number: space.name for number, space in wanted.items()}
        while (step := next_step(mark.spaces, names)) is not None:
            await self._set_reached(None)
            mark = await self._write_mark(msgspec.structs.replace(mark, step=step))
            if step.kind == "drop":
                await run_to_end(local.drop_space(step.name))
            elif step.kind == "rename":
                await run_to_end(local.succeed(step.name, step.old))
            else:
                await run_to_end(local.add_space(wanted[step.number]))
            mark = await self._write_mark(
                msgspec.structs.replace(mark, spaces=after_step(mark.spaces, step), step=None)
            )
        return mark

    async def close(self) -> None:
        """End following, once the work on files that has begun is done. A second call does nothing."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.wait([following])


def _ignore_failure(question: asyncio.Future[int]) -> None:
    """Take note of a failure that nobody waits for any more."""
    if not question.cancelled():
        question.exception()


def _finish_step(mark: ReplicaMark, local: CollectionEngine) -> ReplicaMark:
    """Return the mark after the step with a space that was perhaps cut off."""
    if mark.step is None:
        return mark
    return msgspec.structs.replace(
        mark, spaces=reached(mark.spaces, mark.step, _space_names(local)), step=None
    )


def _space_names(collection: CollectionEngine) -> set[str]:
    return {space.name for space in collection.shape.spaces}


T = TypeVar("T")

_read_of_old: ContextVar[bool] = ContextVar("read_of_old", default=False)
"""Whether the last record by key of this request came from a replica without its truth."""

_LONGEST_WAIT = 60.0  # seconds, for changes that are acknowledged while blocks are read


class ReplicatedCollection(CollectionEngine):
    """:class:`~tabane.engine.checked_collection.CollectionEngine` documents its methods."""

    def __init__(self, truth: CollectionEngine, replica: CollectionReplica) -> None:
        self.truth, self._replica = truth, replica
        self.most_rows, self.most_bytes = truth.most_rows, truth.most_bytes

    @property
    def shape(self) -> Shape:
        return self.truth.shape

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
        await self._write_to_truth(self.truth.add_space(space))

    async def drop_space(self, name: str) -> None:
        await self._write_to_truth(self.truth.drop_space(name))

    async def succeed(self, name: str, by: str) -> None:
        await self._write_to_truth(self.truth.succeed(name, by))

    async def upsert(self, records: Sequence[Record], models: Mapping[str, str]) -> list[bool]:
        return await self._write_to_truth(self.truth.upsert(records, models))

    async def exchange(
        self, records: Sequence[Record], gone: Sequence[str], rows: int, models: Mapping[str, str]
    ) -> Exchanged:
        return await self._write_to_truth(self.truth.exchange(records, gone, rows, models))

    async def delete(self, keys: Sequence[str]) -> int:
        return await self._write_to_truth(self.truth.delete(keys))

    async def attach(self, vectors: Mapping[int, Mapping[str, bytes]], model: str, epoch: int | None) -> int:
        return await self._write_to_truth(self.truth.attach(vectors, model, epoch))

    async def get(self, keys: Sequence[str]) -> list[Record | None]:
        return await self._ask_truth(lambda collection: collection.get(keys))

    async def vectors(self, keys: Sequence[str], space: str) -> list[bytes | None]:
        return await self._ask_truth(lambda collection: collection.vectors(keys, space))

    async def lacking(self, space: str, after: int, limit: int, where: Filter) -> list[StoredRecord]:
        return await self.truth.lacking(space, after, limit, where)

    async def waiting(
        self, space: str, where: Filter, newest: str | None, skip: int, limit: int
    ) -> list[StoredRecord]:
        return await self.truth.waiting(space, where, newest, skip, limit)

    async def _ask_truth(self, work: Callable[[CollectionEngine], Awaitable[T]]) -> T:
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

    async def _write_to_truth(self, write: Coroutine[Any, Any, T]) -> T:
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
        self, where: Filter, order: tuple[Order, ...], after: RecordsCursor | None, most: int
    ) -> list[StoredRecord]:
        return await self._ask_replica(lambda collection: collection.select(where, order, after, most))

    async def facet(self, field: str, where: Filter, limit: int) -> list[tuple[Scalar, int]]:
        return await self._ask_replica(lambda collection: collection.facet(field, where, limit))

    async def count(self, where: Filter) -> int:
        return await self._ask_replica(lambda collection: collection.count(where))

    async def tally(self, field: str, where: Filter) -> dict[Scalar, int]:
        return await self._ask_replica(lambda collection: collection.tally(field, where))

    async def histogram(self, field: str, bounds: Sequence[float], where: Filter) -> list[int]:
        return await self._ask_replica(lambda collection: collection.histogram(field, bounds, where))

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]:
        return await self._ask_replica(lambda collection: collection.firsts(field, order, where))

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int) -> EngineHits:
        return await self._ask_replica(lambda collection: collection.search(query, where, limit, offset))

    async def embedded(self, space: str, where: Filter) -> int:
        return await self._ask_replica(lambda collection: collection.embedded(space, where))

    async def similarities(self, request: VectorRequest, keys: Sequence[str]) -> list[float | None]:
        return await self._ask_replica(lambda collection: collection.similarities(request, keys))

    async def nearest(self, request: VectorRequest, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        return await self._ask_replica(lambda collection: collection.nearest(request, where, limit, offset))

    async def together(
        self,
        work: Callable[[EngineReads], Coroutine[Any, Any, T]],
        *,
        long: bool,
        first: CheckedNearest | None,
    ) -> T:
        return await work(self)

    async def listing(self, order: Order, where: Filter) -> AsyncIterator[ListedKeys]:
        async for block in self._yield_blocks(lambda collection: collection.listing(order, where)):
            yield block

    async def scan(self, request: VectorRequest, where: Filter) -> AsyncIterator[Similarities]:
        async for block in self._yield_blocks(lambda collection: collection.scan(request, where)):
            yield block

    async def ranking(self, request: VectorRequest, where: Filter) -> AsyncIterator[Ranks]:
        async for block in self._yield_blocks(lambda collection: collection.ranking(request, where)):
            yield block

    async def _ask_replica(self, work: Callable[[CollectionEngine], Awaitable[T]]) -> T:
        local = await self._replica.current()
        if local is not None:
            try:
                return await work(local)
            except StoreError as error:
                self._log_failure(error)
        return await work(self.truth)

    async def _yield_blocks(self, work: Callable[[CollectionEngine], AsyncIterator[T]]) -> AsyncIterator[T]:
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
                self._log_failure(error)
        async for block in work(self.truth):
            yield block

    def _log_failure(self, error: StoreError) -> None:
        log.warning("a replica failed, and the database was asked instead: %s", error)


def replicated_collection(
    truth: CollectionEngine, replica: CollectionReplica
) -> CheckedCollection[ReplicatedCollection]:
    """Return the collection that the truth holds and the replica answers for."""
    return CheckedCollection(ReplicatedCollection(truth, replica))
