"""The embedding of one collection: in the background, as jobs with progress, newest records first."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tabane.errors import BadArguments, HubError, ModelError, TabaneError
from tabane.hub.local.lock import OwnFile
from tabane.hub.sources.embedded_collections import EmbeddedCollection, EmbeddingCoverage
from tabane.hub.stores.domain_stores import UNFINISHED, Stores
from tabane.messages import Message, say
from tabane.operations import Progress, Starter
from tabane.operations.job_turns import Turn
from tabane.search.embedding.embedder import NoModel
from tabane.search.engine import Collection
from tabane.search.pipeline import Incomplete, Meaning, meaning_of
from tabane.search.records import EVERYTHING, EmbeddingSpace, Filter, Record, StoredRecord
from tabane.search.source import Models
from tabane.settings.files import private_folder

if TYPE_CHECKING:
    from tabane.search.embedding.embedder import Embedder
    from tabane.search.engine import Collection

PAGE = 200
"""Records that are read at once, at most."""

_FIRST_PAGE, _SHORTEST_PAGE = 32, 4
_QUICK, _LONG = 1.0, 4.0  # seconds of a page: a new record waits for one before its turn

Told = Callable[[int], None]
Text = Callable[[Record], str]


async def fill(
    collection: Collection,
    space: EmbeddingSpace,
    embedder: Embedder,
    text: Text,
    told: Told,
    after: int = 0,
    where: Filter = EVERYTHING,
) -> int:
    """Give a vector to each record after row ``after`` that matches and lacks one in ``space``.

    Returns the last row that was checked. ``embedder`` is that of the space's vectors, or one of the same
    model if the space names only the model. ``text`` returns the text to embed, "" for nothing: such a
    record gets no vector. ``told`` gets the number of vectors made so far. If the process is killed,
    attached vectors stay, and another call continues after them. A record that is written meanwhile comes
    last and is found too, unless it comes after the end.

    Raises ModelError and StoreError; vectors that were attached before stay.
    """
    done = 0
    while True:
        page = await collection.lacking(space.name, after, PAGE, where)
        if not page:
            return after
        attached, failed = await _give_vectors(collection, space, embedder, text, page, _after(done, told))
        if failed is not None:
            raise failed
        done += attached
        after = page[-1].row


def _after(done: int, told: Told) -> Told:
    """Return a function that adds those that were done before."""
    return lambda given: told(done + given)


async def _give_vectors(
    collection: Collection,
    space: EmbeddingSpace,
    embedder: Embedder,
    text: Text,
    page: Sequence[StoredRecord],
    told: Told,
) -> tuple[int, ModelError | None]:
    """Embed one page of records, and attach each vector as soon as it is there.

    ``told`` gets the number of records that got one so far. Returns it, and why others did not. Raises
    ModelError if none did.
    """
    texts = {stored.row: meaning for stored in page if (meaning := text(stored.record))}
    rows, attached_in_all = list(texts), 0

    async def attach(positions: Sequence[int], vectors: Sequence[bytes]) -> None:
        nonlocal attached_in_all
        by_row = {rows[at]: {space.name: vector} for at, vector in zip(positions, vectors, strict=True)}
        attached = await collection.attach(by_row, space.model, page[0].epoch)
        attached_in_all += attached  # after the wait: another part may have been attached meanwhile
        told(attached_in_all)

    try:
        if texts:
            await embedder.embed_parts(list(texts.values()), attach)
    except ModelError as error:
        if not attached_in_all:
            raise
        return attached_in_all, error
    return attached_in_all, None


class NewestFirst(Struct, frozen=True):
    """The records that get a vector, and their order.

    ``field`` holds the time of a record; without one, the record that was written last is the newest.
    ``written`` counts the writes so far: after another write, the order begins again at its top.
    """

    where: Filter
    field: str | None
    written: Callable[[], int]


async def fill_newest(
    collection: Collection,
    space: EmbeddingSpace,
    embedder: Embedder,
    text: Text,
    told: Told,
    order: NewestFirst,
) -> None:
    """Give a vector to each record that lacks one, the newest first.

    Parameters and errors are those of :func:`fill`. It ends early if the space is replaced meanwhile. Records
    that stay without a vector are passed over: they do not keep it from coming to the others, however often
    something is written. An error that concerns only some records of a page is raised at the end.
    """
    done = passed = reached = 0
    problem: ModelError | None = None
    seen, top = order.written(), False
    size = _FIRST_PAGE  # records of a page: as many as are embedded in some seconds
    while space in collection.spaces:
        top = not top and order.written() != seen
        if top:
            seen, reached, passed = order.written(), max(reached, passed), 0
        began = time.monotonic()
        page = await collection.waiting(space.name, order.where, order.field, passed, size)
        if not page:
            break
        attached, failed = await _give_vectors(collection, space, embedder, text, page, _after(done, told))
        problem = problem or failed
        passed += len(page) - attached
        seconds = time.monotonic() - began
        if seconds < _QUICK:
            size = min(2 * size, PAGE)
        elif seconds > _LONG:
            size = max(size // 2, _SHORTEST_PAGE)
        if not attached:  # nothing new here: back to where it was before the write
            passed = max(passed, reached)
        done += attached
    if problem is not None:
        raise problem


log = logging.getLogger(__name__)


class FillProgress:
    """Counts from the vectors that were there before, also after a restart.

    The total is counted again after records were written: an import goes on while its first records are
    embedded already.
    """

    def __init__(self, collection: Collection, space: str, order: NewestFirst, progress: Progress) -> None:
        self._collection, self._space, self._order, self._progress = collection, space, order, progress
        self._before = self._done = self._total = self._written = 0
        self._counting: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def told(self) -> AsyncIterator[FillProgress]:
        """Report progress during the block."""
        await self.begin()
        try:
            yield self
        finally:
            if self._counting is not None:
                self._counting.cancel()
                await asyncio.wait({self._counting})

    async def begin(self) -> None:
        """Count what is there, to which the next reports add."""
        self._before = await self._collection.embedded(self._space, self._order.where)
        self._done = 0
        await self._count()

    def tell(self, done: int) -> None:
        """Report how many vectors were made since :meth:`begin`."""
        self._done = done
        self._report()
        idle = self._counting is None or self._counting.done()
        if idle and self._order.written() != self._written:
            self._counting = asyncio.get_running_loop().create_task(self._count())

    async def _count(self) -> None:
        self._written = self._order.written()
        self._total = await self._collection.count(self._order.where)
        self._report()

    def _report(self) -> None:
        done = self._before + self._done
        self._progress.tell(done, max(self._total, done))


NEXT = "__next"
"""Ends the name of a space that is being filled and will take the place of the one before it."""

_ROUNDS = 5
_AGAIN = 60.0  # seconds until an unavailable model is tried again
_FIRST_LOOK = 1.0  # seconds that a search waits to learn what prevents texts from being embedded


class CollectionLane:
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
        self._mark = folder / (whose.name + UNFINISHED)
        self._turn = Turn()
        self._shared = stores.turn("embed", whose.name)
        self._among_hubs = Turn(self._shared)
        self._news = False
        self._wakes = 0
        self._embeds = False
        self._known = asyncio.Event()  # whether texts are embedded now, or something prevents it
        self._waited: asyncio.Task[None] | None = None
        self._working: asyncio.Task[None] | None = None
        self._again: asyncio.TimerHandle | None = None
        self._problem: Message | None = None
        # The row up to which each space was checked and found complete. A record that is written later has a
        # higher row, so the earlier ones are not checked again.
        self._checked: dict[str, int] = {}
        self._checked_of: tuple[Collection, tuple[EmbeddingSpace, ...], bool] | None = None

    @property
    def unfinished(self) -> bool:
        """Return whether this hub or an earlier one began something and did not finish it."""
        return self._mark.exists()

    @property
    def called(self) -> Message:
        """The title of the collection."""
        return self._definition.title

    @property
    def title(self) -> Message:
        """The title of a job that works on the collection."""
        return say("Indexing {what} for semantic search", what=self.called)

    async def own_models(self) -> set[str]:
        """Return the models of its vectors, which it keeps until they are made again; none if it follows."""
        if self._definition.follows or not self._stores.holds(self._definition.domain):
            return set()
        spaces = (await self._collection()).spaces
        return {space.model for space in spaces if not space.name.endswith(NEXT)}

    def wake(self) -> None:
        """Embed the new records, now or after the work that is under way."""
        self._news = True
        self._wakes += 1
        self._forget_again()
        if self._working is None or self._working.done():
            self._known.clear()
            self._working = asyncio.get_running_loop().create_task(self._work())
            self._working.add_done_callback(lambda _: self._known.set())

    async def idle(self) -> None:
        """Wait until the work that the lane itself began is done."""
        while self._working is not None and not self._working.done():
            await asyncio.wait({self._working})

    async def close(self) -> None:
        """Stop. The next hub continues."""
        self._forget_again()
        if self._working is not None:
            self._working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._working

    async def question(self, collection: Collection, text: str, spaces: tuple[str, ...]) -> Meaning | NoModel:
        """Return the question as vectors for these spaces, or why there are none. Raises BadArguments."""
        missing = await self.missing(collection, spaces)
        models = {space.name: space.model for space in collection.spaces}
        if not models.keys() & self._definition.spaces.keys():
            if missing is None:
                return Meaning(None)  # nothing can be found
            return NoModel(missing.warning or missing.state)
        for name in spaces:
            if name not in models:
                known = ", ".join(each for each in self._definition.spaces if each in models)
                message = say("there are no vectors of {name}. Available: {known}", name=name, known=known)
                raise BadArguments(message, name)
        meaning = await meaning_of(text, {name: models[name] for name in spaces}, self._models)
        return meaning if isinstance(meaning, NoModel) else meaning._replace(incomplete=missing)

    async def missing(self, collection: Collection, spaces: tuple[str, ...]) -> Incomplete | None:
        """Return what is not embedded. If there is any, begin to embed it unless that already runs."""
        gap = await self._coverage.incomplete(collection, spaces, self._problem)
        if gap is None or self._problem is not None or self._embeds:
            return gap
        if self._working is None or self._working.done():
            self.wake()
        assert self._working is not None
        if self._waited is not self._working:  # the obstacle is known soon, or takes long
            self._waited = self._working
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_LOOK):
                    await self._known.wait()
        return await self._coverage.incomplete(collection, spaces, self._problem)

    async def reembed(self, embedder: Embedder, progress: Progress, chosen: bool) -> list[str]:
        """Replace vectors by those of another model; return which spaces were made again.

        A model that nobody chose does not embed a collection if it can read hardly any of its texts.
        """
        done = []
        async with self._turn.taken(progress), self._among_hubs.taken(progress):
            collection = await self._collection()
            for name, where in self._definition.spaces.items():
                space = _space(collection, name)
                if not chosen and await self._coverage.unfit(collection, name, embedder.fingerprint):
                    continue
                if await collection.count(where) and (space is None or space.model != embedder.fingerprint):
                    await self._add_next(collection, name, embedder)
                    done.append(name)
            for name in done:
                await self._replace(collection, name, embedder, progress)
            self._settle(None)
        self.wake()  # records written since the last look
        return done

    # -- in the background -------------------------------------------------------------------------

    async def _work(self) -> None:
        while self._news:
            self._news = False
            try:
                async with self._turn.taken():
                    collection = await self._collection()
                    problem = None
                    for name, where in self._definition.spaces.items():
                        if await collection.count(where):
                            problem = await self._bring(collection, name) or problem
                    self._settle(problem)
            except _EmbeddingCanceled as cancelled:
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

    async def _bring(self, collection: Collection, name: str) -> Message | None:
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
        if following is not None and not self._definition.follows:  # a re-embedding that was interrupted
            successor = await self._models.serving(following.model)
            if isinstance(successor, NoModel):
                return successor.reason
            await self._as_job(lambda progress: self._replace(collection, name, successor, progress))
        return None

    async def _fill_as_job(self, collection: Collection, space: EmbeddingSpace, embedder: Embedder) -> None:
        after = await self._first_lacking(collection, space.name, embedder.fingerprint)
        if after is None:
            return
        few = self._shared is not None and await self._lacking(collection, space.name) <= PAGE
        await self._as_job(
            lambda progress: self._fill(collection, space, embedder, progress, after), alone=not few
        )

    async def _first_lacking(self, collection: Collection, name: str, model: str) -> int | None:
        """Return the row before the first page with something to embed; None if there is nothing."""
        moment = (collection, collection.spaces, self._coverage.named)
        if self._checked_of != moment:  # recreated, or the settings may now give it other texts
            self._checked_of, self._checked = moment, {}
        after = self._checked.get(name, 0)
        where = self._definition.spaces[name.removesuffix(NEXT)]
        while page := await collection.lacking(name, after, PAGE, where):
            if any(self._text(stored.record, name, model) for stored in page):
                return after
            after = page[-1].row
            self._checked[name] = after
        space = _space(collection, name)
        if space is not None:
            self._coverage.settle(space, await self._lacking(collection, name))
        return None

    def _text(self, record: Record, name: str, model: str) -> str:
        return self._coverage.text(record, name.removesuffix(NEXT), model)

    async def _lacking(self, collection: Collection, name: str) -> int:
        """Return how many records have no vector in a space."""
        where = self._definition.spaces[name.removesuffix(NEXT)]
        return await collection.count(where) - await collection.embedded(name, where)

    async def _replace(
        self, collection: Collection, name: str, embedder: Embedder, progress: Progress
    ) -> None:
        """Fill a space beside the serving one, then let it take its place, unless another hub did that."""
        await collection.count(self._definition.spaces[name])  # a database then says which spaces there are
        serving = _space(collection, name)
        if serving is not None and serving.model == embedder.fingerprint:
            return
        successor = await self._add_next(collection, name, embedder)
        await self._fill(collection, successor, embedder, progress)
        await collection.succeed(name, successor.name)
        self._check_again(name)

    def _check_again(self, name: str) -> None:
        for space in (name, name + NEXT):
            self._checked.pop(space, None)

    async def _add_next(self, collection: Collection, name: str, embedder: Embedder) -> EmbeddingSpace:
        """Add the space that will take the place of another one: the next hub continues to fill it."""
        successor = EmbeddingSpace(name + NEXT, embedder.dimension, embedder.fingerprint)
        self._check_again(name)
        existing = _space(collection, successor.name)
        if existing is not None and existing != successor:
            await collection.drop_space(successor.name)
        await collection.add_space(successor)
        return successor

    async def _fill(
        self,
        collection: Collection,
        space: EmbeddingSpace,
        embedder: Embedder,
        progress: Progress,
        first: int = 0,
    ) -> None:
        base = space.name.removesuffix(NEXT)
        where = self._definition.spaces[base]
        await asyncio.to_thread(self._touch_mark)
        mark = await asyncio.to_thread(OwnFile, str(self._mark))
        order = NewestFirst(where, self._definition.newest, lambda: self._wakes)
        text = partial(self._text, name=base, model=embedder.fingerprint)
        async with FillProgress(collection, space.name, order, progress).told() as counted:
            await fill_newest(collection, space, embedder, text, counted.tell, order)
            after: int | None = first
            for _ in range(_ROUNDS):  # what is written, or gets another row, while it is filled
                if after is None:
                    break
                await counted.begin()
                await fill(collection, space, embedder, text, counted.tell, after, where)
                after = await self._first_lacking(collection, space.name, embedder.fingerprint)
        await asyncio.to_thread(mark.unlink)

    def _touch_mark(self) -> None:
        private_folder(self._mark.parent, parents=False)  # with a database, nothing else may be in it yet
        self._mark.touch()

    async def _as_job(self, work: Callable[[Progress], Awaitable[None]], *, alone: bool = True) -> None:
        """Run the work as a job, which users see and can cancel. Raises its errors, and _EmbeddingCanceled.

        ``alone``: while no other hub does such work on the same records.
        """
        ended = asyncio.get_running_loop().create_future()

        async def whole(progress: Progress) -> dict[str, Any]:
            self._turn.holder = progress
            try:
                async with self._among_hubs.taken(progress) if alone else contextlib.nullcontext():
                    await work(progress)
            except BaseException as error:
                if not ended.done():
                    ended.set_exception(error if isinstance(error, Exception) else _EmbeddingCanceled())
                raise
            if not ended.done():
                ended.set_result(None)
            return {"collection": self._definition.name}

        self._jobs.start("embed", self.title, whole)
        self._embeds = True
        self._known.set()
        try:
            await ended
        finally:
            self._embeds = False

    async def _collection(self) -> Collection:
        return await self._stores.collection(self._definition.domain, self._definition.shape)


def _space(collection: Collection, name: str) -> EmbeddingSpace | None:
    return next((space for space in collection.spaces if space.name == name), None)


class _EmbeddingCanceled(HubError):
    """A user canceled the embedding."""

    def __init__(self) -> None:
        super().__init__(
            say("Embedding was cancelled. It continues at the next write, or at the next start of the hub.")
        )
