"""A local replica of one collection of a database: it follows the database, and is what searches read.

The database is the truth: all writes go there, and so do the questions which records lack a vector. The
replica answers everything else if it has all changes that were committed before the request, of any hub. If
it lacks one for longer than a moment, or fails, the database answers. While that cannot be reached, the
replica answers with what it has, and says of when that is. Whoever has read a record by its key then cannot
write in the same request: it may be an old one.

The replica is derived data, in files of the embedded engine. A small file beside them, the mark, says how
far it is. It is written after the records that it counts. If the process dies in between, the same changes
are applied once more, which changes nothing. If the mark is missing, names another source, or was cut off
while spaces changed, all records are copied again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tabane.cancellation import run_to_end
from tabane.engine.checked_collection import (
    CheckedCollection,
    CollectionEngine,
)
from tabane.engine.collection_copying import batches
from tabane.engine.embedded.collection import StoredCollection
from tabane.engine.embedded.lexical.lexical_index import open_lexical
from tabane.engine.embedded.store import Store
from tabane.errors import ConfigurationError, StoreBusy, StoreError, StoreFull
from tabane.messages import Message, say
from tabane.search.engine import JoinedRecords, NearestRequest
from tabane.search.records import Shape
from tabane.settings.files import private_folder, read_private, write_private

if TYPE_CHECKING:
    from tabane.engine.team.postgres.change_feed import ChangeBatch, ChangeFeed, ChangeProbe
    from tabane.engine.team.postgres.collection_state import FeedPosition, StoredSpace

T = TypeVar("T")

log = logging.getLogger(__name__)

PATIENCE = 0.25
"""Seconds that a request waits for the last changes, before the database is asked."""

MOST_REPLICATED = 2000
"""Records and keys of a page of changes."""

_ASKED = 3.0  # seconds for the number of the last change, before the database counts as away
_ASKED_AGAIN = 0.3  # seconds while it is away
_POLLED = 1.0  # seconds between two questions for changes of other hubs
_LONGEST_PAUSE = 60.0  # seconds, after failures
_LONGEST_WAIT = 60.0  # seconds, for changes that are acknowledged while blocks are read


class ReplicaMark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """``source``: which collection of which database this is a copy of.

    ``name``, ``token``: what the replica is for the database, and what it holds. ``complete``: the first copy
    is done. ``spaces``: number in the database → name; None while they change.
    """

    source: str
    name: str
    token: str
    complete: bool = False
    spaces: Mapping[int, str] | None = {}


class ReplicaFiles:
    """The files of the replica of one collection, and its mark. Those of names that begin with ``name``."""

    def __init__(self, folder: Path, name: str, shape: Shape) -> None:
        self._folder, self._name, self._shape = folder, name, replace(shape, spaces=())
        self._mark = folder / f"{name}.mark"
        self._store: Store | None = None

    def read_mark(self, source: str) -> ReplicaMark | None:
        """Return the mark; None if there is none, or that of another source. Blocks."""
        try:
            mark = msgspec.json.decode(read_private(self._mark), type=ReplicaMark)
        except (OSError, msgspec.MsgspecError, ConfigurationError):
            return None
        return mark if mark.source == source else None

    def forget_mark(self) -> None:
        """Delete the mark, if it exists. Blocks."""
        self._mark.unlink(missing_ok=True)

    def are_there(self, spaces: int) -> bool:
        """Return whether the files exist; those of the vectors of so many spaces as well. Blocks."""
        names = {path.name for path in self._folder.glob(f"{self._name}.*")}
        older = f"{self._name}.vectors.db"  # taken over when the replica is opened
        held = older in names or sum(name.endswith(".vec") for name in names) >= spaces
        return f"{self._name}.db" in names and held

    def write_mark(self, mark: ReplicaMark) -> None:
        """Write the mark as JSON, in a file that only the user can read. Blocks."""
        write_private(self._mark, msgspec.json.encode(mark))

    def written(self) -> float:
        """Return the time when the mark was written, in seconds since 1970. Blocks."""
        return self._mark.stat().st_mtime

    def free(self) -> int:
        """Return the free bytes of the disk. Blocks."""
        private_folder(self._folder, parents=False)
        return shutil.disk_usage(self._folder).free

    async def opened(self) -> StoredCollection:
        """Return the collection in the files, opened again. Raises StoreError."""
        await self.close()
        private_folder(self._folder, parents=False)
        self._store = await Store.open(str(self._folder), self._name, lexical=open_lexical)
        return (await self._store.collection(self._shape)).engine

    async def emptied(self) -> StoredCollection:
        """Delete the files, and return a new collection. Raises StoreError."""
        await self.close()

        def delete() -> None:
            self.forget_mark()
            for path in self._folder.glob(f"{self._name}.*"):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()

        await asyncio.to_thread(delete)
        return await self.opened()

    async def close(self) -> None:
        """Close the files. A second call does nothing."""
        store, self._store = self._store, None
        if store is not None:
            await store.close()


class CollectionReplica:
    """Follows the database in the background, and lends the replica when it is current.

    ``source`` names the collection and its database. ``patience``: seconds that a request waits for the last
    changes. A failure is logged once, and tried again later.
    """

    def __init__(self, source: str, files: ReplicaFiles, patience: float = PATIENCE) -> None:
        self._source, self.files, self._patience = source, files, patience
        self._feed: ChangeFeed | None = None
        self._probe: ChangeProbe | None = None
        self._local: StoredCollection | None = None
        self._mark: ReplicaMark | None = None
        self._reached: int | None = None
        self._position: FeedPosition | None = None
        self.newest = 0  # the last change of the database that is known
        self.confirmed: float | None = None  # when the replica had all changes, in seconds since 1970
        self._error: Exception | None = None
        self._away = False
        self._question: asyncio.Future[int] | None = None
        self._wanted, self._applied = asyncio.Event(), asyncio.Condition()
        self._following: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()

    def follow(self, feed: ChangeFeed, probe: ChangeProbe) -> None:
        """Begin to follow the database."""
        self._feed, self._probe = feed, probe
        if self._following is None:
            self._following = asyncio.create_task(self._follow())

    async def open_alone(self) -> StoredCollection | None:
        """Return the collection as the last process left it, for a database that has not answered yet.

        None if there is no complete copy of this source.
        """
        async with self._opening:
            if self._local is None:
                mark = await asyncio.to_thread(self.files.read_mark, self._source)
                if mark is None or not mark.complete or mark.spaces is None:
                    return None
                if not await asyncio.to_thread(self.files.are_there, len(mark.spaces or ())):
                    return None
                self.confirmed = await asyncio.to_thread(self.files.written)
                self._local, self._mark, self._away = await run_to_end(self.files.opened()), mark, True
            return self._local

    def acknowledge(self) -> None:
        """Look for the change that the database has just acknowledged, so it is not away."""
        if self._away:
            self._away, self._question = False, None
        self._wanted.set()

    async def current(self) -> StoredCollection | None:
        """Return the replica if it has all changes that were committed before; None if it has not by now.

        While the database cannot be reached, it is the replica as it is.
        """
        if not self._is_whole():
            return None
        newest = await self._ask_newest_change()
        if newest is None:
            return self._local if self._is_whole() else None
        if not self._has(newest):
            await self._wait_for_change(newest, self._patience, while_lent=True)
        return self._local if self._has(newest) else None

    def shape_since(self, change: int) -> Shape | None:
        """Return the shape of the replica, unless it lacks that change of the database."""
        if self._local is None or self._position is None or not self._is_whole():
            return None
        return self._local.shape if self._position.change >= change else None

    @property
    def away(self) -> bool:
        """Return whether the replica answers because the database could not be reached the last time."""
        return self._away and self._is_whole()

    async def caught_up(self, seconds: float) -> bool:
        """Wait until the replica has all changes that were committed before. Return whether it has by then.

        While the database cannot be reached, there is nothing to wait for.
        """
        newest = None if self._away else await self._ask_newest_change()
        if newest is not None and not self._has(newest):
            await self._wait_for_change(newest, seconds)
        return newest is None or self._has(newest)

    async def _ask_newest_change(self) -> int | None:
        """Ask the database for its newest change. None: it cannot be reached.

        While it is away, requests share one question, so that they do not fill its queue.
        """
        if self._feed is None or self._probe is None:
            return None
        if self._question is None or self._question.done() or not self._away:
            self._question = asyncio.ensure_future(self._probe.newest(self._feed.states))
            self._question.add_done_callback(lambda question: question.cancelled() or question.exception())
        try:
            async with asyncio.timeout(_ASKED_AGAIN if self._away else _ASKED):
                newest = await asyncio.shield(self._question)
        except (StoreError, TimeoutError):
            if not self._away:
                log.warning("%s cannot be reached: searches are answered by the replica", self._source)
            self._away = True
            return None
        if self._away:
            log.info("%s can be reached again", self._source)
        self._away = False
        self.newest = max(self.newest, newest)
        if self._has(newest):
            self.confirmed = time.time()
        return newest

    async def _wait_for_change(self, change: int, seconds: float, *, while_lent: bool = False) -> None:
        """Wait until the replica has the change, or until ``seconds`` have passed.

        With ``while_lent``, also stop when the replica can no longer answer.
        """
        self._wanted.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._applied:
                while not (self._has(change) or (while_lent and self._reached is None)):
                    await self._applied.wait()

    def _has(self, change: int) -> bool:
        return self._reached is not None and self._reached >= change

    def _is_whole(self) -> bool:
        """Return whether the replica has had all records, and still has their spaces."""
        mark = self._mark
        return self._local is not None and mark is not None and mark.complete and mark.spaces is not None

    def report(self) -> dict[str, object]:
        """Return how far the replica is: ``state`` is current, behind, copying, away or failed.

        ``behind``: changes of the database that it lacks, as far as they are known. ``as_of``: when it had
        all of them, in seconds since 1970; None if it never had.
        """
        change = 0 if self._position is None else self._position.change
        newest = max(self.newest, change)
        progress = {"change": change, "newest": newest, "behind": newest - change, "as_of": self.confirmed}
        if self.away:
            return {"state": "away", **progress}
        if self._error is not None:
            return {"state": "failed", "error": str(self._error), **progress}
        if self._position is None or not self._is_whole():
            return {
                "state": "copying",
                "row": 0 if self._position is None else self._position.row,
                **progress,
            }
        return {"state": "current" if self._has(self.newest) else "behind", **progress}

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
        feed = self._feed
        assert feed is not None
        if self._position is None and await self._ask_newest_change() is None:
            return
        async with self._opening:
            local, mark, position = await self._open_replica(feed)
        newest = await self._ask_newest_change()
        if newest is None:
            return
        self.newest = newest
        if newest < position.change:  # another database than before
            await self._forget_replica()
            return
        while not self._has(self.newest):
            page = await feed.after(mark.name, position, MOST_REPLICATED)
            if page is None:
                await self._forget_replica()
                return
            mark = await self._apply(local, mark, page)
            if not await feed.advance(mark.name, page.position):
                await self._forget_replica()
                return
            position = self._position = page.position
            self.newest = max(self.newest, position.change)
            if page.complete:
                await self._set_reached(position.change)

    async def _set_reached(self, change: int | None) -> None:
        async with self._applied:
            self._reached = change
            if change is not None:
                self.confirmed = time.time()
            self._applied.notify_all()

    async def _open_replica(self, feed: ChangeFeed) -> tuple[StoredCollection, ReplicaMark, FeedPosition]:
        mark = self._mark
        if (
            self._local is not None
            and mark is not None
            and self._position is not None
            and mark.spaces is not None
        ):
            return self._local, mark, self._position
        mark = await run_to_end(asyncio.to_thread(self.files.read_mark, self._source))
        if mark is not None:
            position = await feed.join(mark.name)
            exist = await asyncio.to_thread(self.files.are_there, len(mark.spaces or ()))
            if exist and mark.spaces is not None and mark.token in (position.mark, position.coming):
                local = self._local if self._local is not None else await run_to_end(self.files.opened())
                if {space.name for space in local.shape.spaces} == set(mark.spaces.values()):
                    if mark.complete and self.confirmed is None:
                        self.confirmed = await asyncio.to_thread(self.files.written)
                    self._local, self._mark, self._position = local, mark, position
                    return local, mark, position
            await feed.leave(mark.name)
        self._local = self._mark = None
        await self._check_room(feed)
        local, name = await run_to_end(self.files.emptied()), f"replica-{token_hex(8)}"
        position = await feed.join(name)
        mark = await self._write_mark(ReplicaMark(source=self._source, name=name, token=position.mark))
        self._local, self._position = local, position
        return local, mark, position

    async def _check_room(self, feed: ChangeFeed) -> None:
        """Raise StoreFull if the copy might fill the disk. It takes about half of what the tables take."""
        needed, free = await feed.size(), await asyncio.to_thread(self.files.free)
        if needed > free:
            message = say(
                "a copy of {source} may need {needed:,} MB of disk space, and {free:,} MB are free. Free "
                "some, or set local_replica = false",
                source=self._source,
                needed=needed >> 20,
                free=free >> 20,
            )
            raise StoreFull(message)

    async def _forget_replica(self) -> None:
        """Delete the mark, so that all records are copied again: the database does not know this replica."""
        log.warning(
            "the replica of %s is unknown to the database: all records are copied again", self._source
        )
        await self._set_reached(None)
        self._local = self._mark = self._position = None
        await run_to_end(asyncio.to_thread(self.files.forget_mark))
        self._wanted.set()

    async def _write_mark(self, mark: ReplicaMark) -> ReplicaMark:
        await run_to_end(asyncio.to_thread(self.files.write_mark, mark))
        self._mark = mark
        return mark

    # Applying

    async def _apply(self, local: StoredCollection, mark: ReplicaMark, page: ChangeBatch) -> ReplicaMark:
        parts = list(batches(page.records))
        if len(parts) > 1 or not page.complete:
            await self._set_reached(None)
        mark = await self._change_spaces(local, mark, page.spaces)
        for part in parts[1:]:
            await local.replicate([each.record for each in part], ())
        if parts or page.gone:
            await local.replicate([each.record for part in parts[:1] for each in part], list(page.gone))
        if page.complete and not mark.complete:
            await local.settle()
        complete = mark.complete or page.complete
        token = page.position.mark
        return await self._write_mark(msgspec.structs.replace(mark, token=token, complete=complete))

    async def _change_spaces(
        self, local: StoredCollection, mark: ReplicaMark, spaces: Sequence[StoredSpace]
    ) -> ReplicaMark:
        """Create, rename and drop spaces, so that they are those of the database.

        They are known by their numbers there, since names move: a new space takes the name of the one before
        it. A process that dies meanwhile leaves a mark without spaces, so all records are copied again.
        """
        wanted = {each.number: each.space for each in spaces}
        names = {number: space.name for number, space in wanted.items()}
        held = mark.spaces
        assert held is not None  # else the replica is not opened
        if held == names:
            return mark
        await self._set_reached(None)
        mark = await self._write_mark(msgspec.structs.replace(mark, spaces=None))
        for number in held.keys() - names.keys():
            await run_to_end(local.drop_space(held[number]))
        moving = [number for number in held.keys() & names.keys() if held[number] != names[number]]
        for number in moving:  # none takes a name that another one still has
            await run_to_end(local.succeed(f"moving{number}", held[number]))
        for number in moving:
            await run_to_end(local.succeed(names[number], f"moving{number}"))
        for number in sorted(names.keys() - held.keys()):
            await run_to_end(local.add_space(wanted[number]))
        return await self._write_mark(msgspec.structs.replace(mark, spaces=names))

    async def close(self) -> None:
        """End following, once the work on files that has begun is done. A second call does nothing."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.wait([following])
        await self.files.close()


_read_of_old: ContextVar[bool] = ContextVar("read_of_old", default=False)
"""Whether the last record by key of this request came from a replica without its database."""


class ReplicatedCollection(CheckedCollection[CollectionEngine]):
    """A collection of a database, whose replica answers what searches, counts, lists or reads by key.

    ``problem``: the database has not answered since the hub started, so ``truth`` is the replica itself.
    ``indexed``: an index outside of the database finds the nearest records, which is made for more vectors
    than the replica.
    """

    def __init__(
        self,
        truth: CollectionEngine,
        replica: CollectionReplica,
        problem: StoreError | None = None,
        *,
        indexed: bool = False,
    ) -> None:
        super().__init__(truth)
        self._replica, self._problem, self._indexed = replica, problem, indexed

    @property
    def remark(self) -> Message | None:
        if not self._replica.away:
            return None
        confirmed = datetime.fromtimestamp(self._replica.confirmed or 0).astimezone()
        return say(
            "The database cannot be reached, so this hub has searched its own copy of {time}. Later changes "
            "may be missing.",
            time=confirmed.isoformat(" ", "seconds"),
        )

    @property
    def shape(self) -> Shape:
        """Return that of the replica if it knows of later changes: other hubs change spaces, too."""
        return self._replica.shape_since(self.engine.changes) or self.engine.shape

    @property
    def changes(self) -> int:
        return max(self.engine.changes, self._replica.newest)

    async def _read_truth(self, work: Callable[[CollectionEngine], Awaitable[T]]) -> T:
        self._raise_if_away()
        return await work(self.engine)

    def _raise_if_away(self) -> None:
        if self._problem is not None:
            raise self._problem

    async def _write(self, work: Callable[[CollectionEngine], Awaitable[T]]) -> T:
        self._raise_if_away()
        if _read_of_old.get():
            _read_of_old.set(False)
            raise StoreBusy(
                say("The database could not be reached while this was read. Nothing was written; try again.")
            )
        done = await work(self.engine)
        self._replica.acknowledge()
        return done

    async def together(
        self,
        work: Callable[[JoinedRecords], Coroutine[Any, Any, T]],
        *,
        long: bool = False,
        first: NearestRequest | None = None,
    ) -> T:
        return await (work(self) if self._indexed else super().together(work, long=long, first=first))

    async def _read(
        self,
        work: Callable[[CollectionEngine], Awaitable[T]],
        *,
        by_key: bool = False,
        nearest: bool = False,
    ) -> T:
        """Ask the replica if it is current or alone; else the database, and the replica if that is gone now.

        ``by_key``: the answer may be changed and written back. ``nearest``: it looks for the nearest
        records, so the replica is asked only if it is alone, if there is an index outside of the database.
        """
        local, answer = None, None
        if self._replica.away or not (nearest and self._indexed):
            local = await self._replica.current()
        old = local is not None and self._replica.away
        if local is not None:
            try:
                answer = [await work(local)]
            except StoreError as error:
                self._log_failure(error)
        if answer is None:
            try:
                answer = [await work(self.engine)]
                old = False
            except StoreError:
                local = await self._replica.current()
                if old or local is None or not self._replica.away:
                    raise
                answer, old = [await work(local)], True
        if by_key:
            _read_of_old.set(old)
        return answer[0]

    async def _read_blocks(self, work: Callable[[CollectionEngine], AsyncIterator[T]]) -> AsyncIterator[T]:
        """Yield the blocks of the replica. If it fails before the first one, the database's.

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
        async for block in work(self.engine):
            yield block

    def _log_failure(self, error: StoreError) -> None:
        log.warning("a replica failed, and the database was asked instead: %s", error)


class Replicas:
    """The replicas of a hub, each made with the first use of its collection.

    ``folder`` has their files. ``patience``: seconds that a request waits for the last changes.
    """

    def __init__(self, folder: Path, patience: float = PATIENCE) -> None:
        self._folder, self._patience = folder, patience
        self._open: dict[tuple[str, str], CollectionReplica] = {}
        self._lent: dict[tuple[str, str], ReplicatedCollection] = {}

    async def replicated(
        self,
        domain: str,
        truth: CollectionEngine,
        feed: ChangeFeed,
        probe: ChangeProbe,
        source: str,
        *,
        indexed: bool = False,
    ) -> ReplicatedCollection:
        """Return the collection, read from its replica. ``source`` names the collection and its database.

        ``indexed``: an index outside of the database finds the nearest records.
        """
        place = (domain, truth.shape.name)
        lent = self._lent.get(place)
        if lent is not None and lent.engine is truth:
            return lent
        if lent is not None:  # its shape has changed
            del self._lent[place]
            await self._open.pop(place).close()
        replica = self._replica(domain, truth.shape, source)
        lent = self._lent[place] = ReplicatedCollection(truth, replica, indexed=indexed)
        replica.follow(feed, probe)
        return lent

    async def alone(
        self, domain: str, shape: Shape, source: str, problem: StoreError
    ) -> ReplicatedCollection | None:
        """Return the collection as the last hub left it, because the database has not answered; or None."""
        replica = self._replica(domain, shape, source)
        local = await replica.open_alone()
        return None if local is None else ReplicatedCollection(local, replica, problem)

    def _replica(self, domain: str, shape: Shape, source: str) -> CollectionReplica:
        place = (domain, shape.name)
        if place not in self._open:
            files = ReplicaFiles(self._folder, f"{domain}-{shape.name}", shape)
            self._open[place] = CollectionReplica(source, files, self._patience)
        return self._open[place]

    def report(self) -> list[dict[str, Any]]:
        """Return the state of each replica that was used."""
        return [
            {"domain": domain, "collection": name, **each.report()}
            for (domain, name), each in self._open.items()
        ]

    async def close(self) -> None:
        """End following, and close the files. A second call does nothing."""
        replicas, self._open = self._open, {}
        self._lent.clear()
        for each in replicas.values():
            await each.close()
