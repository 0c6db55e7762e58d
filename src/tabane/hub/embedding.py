"""Background embedding of collections: each record without a vector gets one.

The collection itself shows which records have none. So the next hub continues after a hub was killed, and
the cache of embeddings prevents it from computing a vector twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from tabane.errors import BadArguments, HubError, ModelError, TabaneError
from tabane.hub.coverage import EmbeddedCollection, EmbeddingCoverage
from tabane.hub.local.lock import OwnFile
from tabane.hub.stores import FOLDER, Stores
from tabane.messages import Message, say
from tabane.operations import Caller, Face, Operation, Privilege, Progress, Starter
from tabane.operations.job_turns import Turn
from tabane.search.embedding.embedder import NoModel
from tabane.search.meaning import Incomplete, Meaning, meaning_of
from tabane.search.models import Models
from tabane.search.records import EmbeddingSpace, Record
from tabane.search.vector_filling import PAGE, NewestFirst, fill, fill_newest

if TYPE_CHECKING:
    from tabane.search.embedding.embedder import Embedder
    from tabane.store.collection import StoredCollection

log = logging.getLogger(__name__)

NEXT = "__next"
"""Ends the name of a space that is being filled and will take the place of the one before it."""

_ROUNDS = 5
_AGAIN = 60.0  # seconds until an unavailable model is tried again
_FIRST_LOOK = 5.0  # seconds that a search waits to learn what prevents texts from being embedded


class Reembed(Struct, frozen=True, forbid_unknown_fields=True):
    """``collection``: default all. ``model``: default that of the settings."""

    collection: Annotated[str, Meta(max_length=64)] | None = None
    model: Annotated[str, Meta(min_length=1, max_length=500)] | None = None


class CollectionEmbedder:
    """Keeps collections embedded, and turns questions into vectors. Each collection has its own lane."""

    def __init__(
        self,
        home: Path,
        stores: Stores,
        models: Models,
        jobs: Starter,
        whose: Sequence[EmbeddedCollection],
        named: Callable[[], bool] = lambda: False,
    ) -> None:
        """Keep the arguments. ``named``: whether the settings name the model; else Tabane chooses it."""
        self._models = models
        self._lanes = {
            each.name: _CollectionLane(
                home / FOLDER, each, stores, models, jobs, EmbeddingCoverage(each, named)
            )
            for each in whose
        }

    def open(self) -> None:
        """Continue the work that an earlier hub did not finish."""
        for lane in self._lanes.values():
            if lane.unfinished:
                lane.wake()

    def wake(self, name: str) -> None:
        """Embed the new records of that collection."""
        self._lanes[name].wake()

    async def idle(self) -> None:
        """Wait until the embedding that the hub itself began is done."""
        for lane in self._lanes.values():
            await lane.idle()

    async def question(self, name: str, text: str, spaces: Iterable[str]) -> Meaning | NoModel:
        """Return the question as vectors for these spaces of a collection, or why there are none.

        Raises BadArguments if the collection has vectors, but none in such a space.
        """
        return await self._lanes[name].question(text, tuple(spaces))

    async def missing(self, name: str, spaces: Iterable[str]) -> Incomplete | None:
        """Return how much of these spaces of a collection is embedded; None if all of it is."""
        return await self._lanes[name].missing(tuple(spaces))

    def table(self) -> list[Operation]:
        return [
            Operation(
                "reembed",
                "Embed collections again with another model; the one they have serves until that is done.",
                Reembed,
                self._reembed,
                frozenset({Face.RPC, Face.CLI}),
                Privilege.ADMIN,
                kind="job",
                title=lambda params: _title(*self._called(params.collection)),
            )
        ]

    def _called(self, collection: str | None) -> list[Message]:
        lanes = [lane for name, lane in self._lanes.items() if collection in (None, name)]
        return [lane.called for lane in lanes]

    async def close(self) -> None:
        """Stop. What was embedded is on the disk; the next hub continues."""
        for lane in self._lanes.values():
            await lane.close()

    async def _reembed(self, caller: Caller, params: Reembed, progress: Progress) -> dict[str, Any]:
        if params.collection is not None and params.collection not in self._lanes:
            known = ", ".join(self._lanes)
            message = say("collection: {name} is not one of {known}", name=params.collection, known=known)
            raise BadArguments(message, "collection")
        model = await (self._models.serving(params.model) if params.model else self._models.wanted())
        if isinstance(model, NoModel):
            raise ModelError(model.reason)
        names = list(self._lanes) if params.collection is None else [params.collection]
        chosen = params.model is not None
        spaces = {name: await self._lanes[name].reembed(model, progress, chosen) for name in names}
        rows = [{"collection": name, "spaces": done} for name, done in spaces.items()]
        return {"model": model.fingerprint, "results": rows}


def _title(*called: Message) -> Message:
    """Return the title of a job. An unknown collection is refused when the job begins."""
    if len(called) == 1:
        return say("Indexing {what} for semantic search", what=called[0])
    return say("Indexing for semantic search")


class _CollectionLane:
    """One collection. Only one task works on it at a time."""

    def __init__(
        self,
        folder: Path,
        whose: EmbeddedCollection,
        stores: Stores,
        models: Models,
        jobs: Starter,
        coverage: EmbeddingCoverage,
    ) -> None:
        self._definition, self._stores, self._models, self._jobs = whose, stores, models, jobs
        self._coverage = coverage
        self._mark = folder / f"{whose.name}.embedding"
        self._turn = Turn()
        self._news = False
        self._wakes = 0
        self._embeds = False
        self._waited: asyncio.Task[None] | None = None
        self._working: asyncio.Task[None] | None = None
        self._again: asyncio.TimerHandle | None = None
        self._problem: Message | None = None
        self._seen = _SeenRows()

    @property
    def unfinished(self) -> bool:
        """Return whether this hub or an earlier one began something and did not finish it."""
        return self._mark.exists()

    @property
    def called(self) -> Message:
        return self._definition.title

    def wake(self) -> None:
        self._news = True
        self._wakes += 1
        self._forget_again()
        if self._working is None or self._working.done():
            self._working = asyncio.get_running_loop().create_task(self._work())

    async def idle(self) -> None:
        while self._working is not None and not self._working.done():
            await asyncio.wait({self._working})

    async def close(self) -> None:
        self._forget_again()
        if self._working is not None:
            self._working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._working

    async def question(self, text: str, spaces: tuple[str, ...]) -> Meaning | NoModel:
        missing = await self.missing(spaces)
        there = {space.name: space.model for space in (await self._collection()).spaces}
        if not there.keys() & self._definition.spaces.keys():
            if missing is None:
                return Meaning(None)  # nothing can be found
            return NoModel(missing.warning or missing.state)
        for name in spaces:
            if name not in there:
                known = ", ".join(each for each in self._definition.spaces if each in there)
                message = say("there are no vectors of {name}. Available: {known}", name=name, known=known)
                raise BadArguments(message, name)
        found = await meaning_of(text, {name: there[name] for name in spaces}, self._models)
        return found if isinstance(found, NoModel) else found._replace(incomplete=missing)

    async def missing(self, spaces: tuple[str, ...]) -> Incomplete | None:
        """Return what is not embedded. If there is any, begin to embed it unless that already runs."""
        collection = await self._collection()
        found = await self._coverage.incomplete(collection, spaces, self._problem)
        if found is None or self._problem is not None or self._embeds:
            return found
        if self._working is None or self._working.done():
            self.wake()
        assert self._working is not None
        if self._waited is not self._working:  # the obstacle is known soon, or takes long
            self._waited = self._working
            await asyncio.wait({self._working}, timeout=_FIRST_LOOK)
        return await self._coverage.incomplete(collection, spaces, self._problem)

    async def reembed(self, embedder: Embedder, progress: Progress, chosen: bool) -> list[str]:
        """Replace vectors by those of another model; return which spaces were made again.

        A model that nobody chose does not embed a collection if it can read hardly any of its texts.
        """
        done = []
        async with self._turn.taken(progress):
            collection = await self._collection()
            for name, where in self._definition.spaces.items():
                space = _space(collection, name)
                if not chosen and await self._coverage.unfit(collection, name, embedder.fingerprint):
                    continue
                if await collection.count(where) and (space is None or space.model != embedder.fingerprint):
                    await self._replace(collection, name, embedder, progress)
                    done.append(name)
            self._settle(None)
        self.wake()  # records written since the last look
        return done

    # -- in the background -------------------------------------------------------------------------

    async def _work(self) -> None:
        while self._news:
            self._news = False
            try:
                async with self._turn.taken():
                    self._settle(await self._bring_up_to_date())
            except _EmbeddingCancelled as cancelled:
                self._problem = cancelled.message
            except TabaneError as error:
                self._settle(error.message)
            except Exception:
                log.exception("embedding %s failed", self._definition.name)
                self._settle(say("Embedding failed. The hub's log has the reason: tabane logs"))

    def _settle(self, problem: Message | None) -> None:
        """Remember the obstacle, and retry later; None: there is none."""
        if problem is not None and problem != self._problem:
            log.warning("%s: not everything is indexed for semantic search: %s", self.called, problem)
        self._problem = problem
        self._forget_again()
        if problem is not None:
            self._again = asyncio.get_running_loop().call_later(_AGAIN, self.wake)

    def _forget_again(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None

    async def _bring_up_to_date(self) -> Message | None:
        """Embed the records without a vector. Return the obstacle, None if there is none."""
        collection = await self._collection()
        problem = None
        for name, where in self._definition.spaces.items():
            if await collection.count(where):
                problem = await self._bring(collection, name) or problem
        return problem

    async def _bring(self, collection: StoredCollection, name: str) -> Message | None:
        space, following = _space(collection, name), _space(collection, name + NEXT)
        if space is None or self._definition.follows:
            embedder = await self._models.wanted()
        else:
            embedder = await self._models.serving(space.model)
        if isinstance(embedder, NoModel):
            return embedder.reason
        if space is None:
            unfit = await self._coverage.unfit(collection, name, embedder.fingerprint)
            if unfit is not None or not await self._coverage.sample(collection, name):
                return unfit
            space = EmbeddingSpace(name, embedder.dimension, embedder.fingerprint)
            await collection.add_space(space)
        if self._definition.follows and space.model != embedder.fingerprint:
            await self._as_job(lambda progress: self._replace(collection, name, embedder, progress))
        else:
            await self._fill_as_job(collection, space, embedder)
        if following is not None and not self._definition.follows:
            return await self._go_on(collection, name, following)
        return None

    async def _go_on(
        self, collection: StoredCollection, name: str, following: EmbeddingSpace
    ) -> Message | None:
        """End a re-embedding that was interrupted."""
        embedder = await self._models.serving(following.model)
        if isinstance(embedder, NoModel):
            return embedder.reason
        await self._as_job(lambda progress: self._replace(collection, name, embedder, progress))
        return None

    async def _fill_as_job(
        self, collection: StoredCollection, space: EmbeddingSpace, embedder: Embedder
    ) -> None:
        after = await self._first_lacking(collection, space.name, embedder.fingerprint)
        if after is not None:
            await self._as_job(lambda progress: self._fill(collection, space, embedder, progress, after))

    async def _first_lacking(self, collection: StoredCollection, name: str, model: str) -> int | None:
        """Return the row before the first page with something to embed; None if there is nothing."""
        after = self._seen.rows(collection, name, self._coverage.named)
        where = self._definition.spaces[name.removesuffix(NEXT)]
        while page := await collection.lacking(name, after, PAGE, where):
            if any(self._text(stored.record, name, model) for stored in page):
                return after
            after = page[-1].row
            self._seen.note(name, after)
        await self._settled(collection, name)
        return None

    def _text(self, record: Record, name: str, model: str) -> str:
        return self._coverage.text(record, name.removesuffix(NEXT), model)

    async def _settled(self, collection: StoredCollection, name: str) -> None:
        """Remember how many records have no vector after everything that can be embedded is."""
        space, where = _space(collection, name), self._definition.spaces[name.removesuffix(NEXT)]
        if space is not None:
            lacking = await collection.count(where) - await collection.embedded(name, where)
            self._coverage.settle(space, lacking)

    async def _replace(
        self, collection: StoredCollection, name: str, embedder: Embedder, progress: Progress
    ) -> None:
        """Fill a space beside the serving one, then let it take its place."""
        wanted = EmbeddingSpace(name + NEXT, embedder.dimension, embedder.fingerprint)
        self._seen.forget(name, wanted.name)
        there = _space(collection, wanted.name)
        if there is not None and there != wanted:
            await collection.drop_space(wanted.name)
        await collection.add_space(wanted)
        await self._fill(collection, wanted, embedder, progress)
        await collection.succeed(name, wanted.name)
        self._seen.forget(name, wanted.name)

    async def _fill(
        self,
        collection: StoredCollection,
        space: EmbeddingSpace,
        embedder: Embedder,
        progress: Progress,
        first: int = 0,
    ) -> None:
        base = space.name.removesuffix(NEXT)
        total = None if first else await collection.count(self._definition.spaces[base])
        progress.tell(0, total)
        await asyncio.to_thread(self._mark.touch)
        mark = await asyncio.to_thread(OwnFile, str(self._mark))
        order = NewestFirst(self._definition.spaces[base], self._definition.newest, lambda: self._wakes)
        text, told = (
            partial(self._text, name=base, model=embedder.fingerprint),
            partial(progress.tell, total=total),
        )
        await fill_newest(collection, space, embedder, text, told, order)
        after: int | None = first
        for _ in range(_ROUNDS):  # what is written, or gets another row, while it is filled
            if after is None:
                break
            await fill(collection, space, embedder, text, told, after, self._definition.spaces[base])
            after = await self._first_lacking(collection, space.name, embedder.fingerprint)
        await asyncio.to_thread(mark.unlink)

    async def _as_job(self, work: Callable[[Progress], Awaitable[None]]) -> None:
        """Run the work as a job, which users see and can cancel. Raises its errors, and _Cancelled."""
        ended = asyncio.get_running_loop().create_future()

        async def whole(progress: Progress) -> dict[str, Any]:
            self._turn.holder = progress
            try:
                await work(progress)
            except BaseException as error:
                if not ended.done():
                    ended.set_exception(error if isinstance(error, Exception) else _cancelled())
                raise
            if not ended.done():
                ended.set_result(None)
            return {"collection": self._definition.name}

        self._jobs.start("embed", _title(self.called), whole)
        self._embeds = True
        try:
            await ended
        finally:
            self._embeds = False

    async def _collection(self) -> StoredCollection:
        return await self._stores.collection(self._definition.domain, self._definition.shape)


class _SeenRows:
    """The row up to which each space of a collection was checked and found complete.

    A record that is written later has a higher row, so the earlier ones are not checked again. This is
    forgotten when the hub ends, when the collection is recreated, and when the settings begin or cease to
    name the model, because it may then get other texts.
    """

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._of: tuple[StoredCollection, tuple[EmbeddingSpace, ...], bool] | None = None

    def rows(self, collection: StoredCollection, name: str, named: bool) -> int:
        moment = (collection, collection.spaces, named)
        if self._of != moment:
            self._of, self._rows = moment, {}
        return self._rows.get(name, 0)

    def note(self, name: str, row: int) -> None:
        self._rows[name] = row

    def forget(self, *names: str) -> None:
        for name in names:
            self._rows.pop(name, None)


def _space(collection: StoredCollection, name: str) -> EmbeddingSpace | None:
    return next((space for space in collection.spaces if space.name == name), None)


class _EmbeddingCancelled(HubError):
    """A user cancelled the embedding."""


def _cancelled() -> _EmbeddingCancelled:
    return _EmbeddingCancelled(
        say("Embedding was cancelled. It continues at the next write, or at the next start of the hub.")
    )
