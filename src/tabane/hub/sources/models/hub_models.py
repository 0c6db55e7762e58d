"""Models of a hub: each is found and opened once, on first use; and token measures for the chosen one."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tabane.errors import ModelError, ModelMissing, ModelUnavailable, TabaneError
from tabane.hub.context import HubContext
from tabane.hub.sources.models.model_opener import HubReranker, ModelOpener
from tabane.messages import Lang, Message, say
from tabane.operations import Operation, Progress
from tabane.search.embedding.embedder import Embedder, Kind, NoModel, Take, VectorCache, clean, key
from tabane.settings import Settings

if TYPE_CHECKING:
    from tabane.hub.sources.models.model_sources import MakeFinder
    from tabane.search.chunking import Measure
    from tabane.search.embedding.token_counting import TokenCounter
    from tabane.search.source import Reranker

log = logging.getLogger(__name__)

MEASURE_REMEMBERED = 30.0
"""Seconds for which a measure is answered without looking again."""


class TokenMeasures:
    """Measures for the model of the settings. Several threads may use it.

    Tokens are counted for the open model, else for the one in the cache or a folder. For a model that is not
    downloaded yet, they are estimated from its family. It never waits for a download.
    """

    def __init__(
        self,
        context: HubContext,
        opening: ModelOpener,
        errors: int | None = None,
        make_finder: MakeFinder | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context, self._opening = context, opening
        self._errors, self._make_finder, self._clock = errors, make_finder, clock
        self._turn = threading.Lock()
        self._known: tuple[Settings, float, Measure] | None = None
        self._counters: dict[str, TokenCounter] = {}
        self._closed = False

    def measure(self) -> Measure:
        """Return the measure, as :meth:`tabane.search.source.Models.measure`."""
        with self._turn:
            settings = self._context.settings
            if self._known and self._known[0] is settings and self._clock() < self._known[1]:
                return self._known[2]
            with ThreadPoolExecutor(1) as thread:  # the caller may have an event loop of its own
                measure = thread.submit(asyncio.run, self._look()).result()
            self._known = settings, self._clock() + MEASURE_REMEMBERED, measure
            return measure

    def close(self) -> None:
        """End the counting processes. From now on, tokens are estimated."""
        self._closed = True
        for counter in list(self._counters.values()):
            counter.close()

    async def _look(self) -> Measure:
        # Imported with the first text that is split: a hub that only forwards needs none of it.
        from tabane.hub.sources.models.model_sources import ModelSources
        from tabane.search.embedding import token_counting

        sources = ModelSources(self._context, self._make_finder)
        try:
            model = await sources.at_hand(self._opening.opened)
        except (TabaneError, OSError) as error:
            log.warning("tokens are estimated: %s", error)
            return token_counting.estimated(None)
        if model is None:
            return token_counting.estimated(None)
        tokenizer = token_counting.tokenizer_in(model.spec.folder) if model.spec else None
        if tokenizer is None or self._closed:
            return token_counting.estimated(model.recipe)
        assert model.spec is not None
        if tokenizer not in self._counters:
            self._counters[tokenizer] = token_counting.TokenCounter(
                tokenizer, self._context.environment, self._errors, kept=model.spec.kept
            )
        return token_counting.exact(model.recipe, self._counters[tokenizer])


QUESTIONS = 1_000
"""Number of questions with a vector in memory."""

REMEMBERED = 60.0
"""Seconds for which a model that could not be opened is not tried again."""

PATIENCE = 10.0
"""Seconds that a question waits for its vector; a model that is being opened goes on meanwhile."""

_SILENT = 10.0  # seconds for which a model that did not answer is not asked another question


class HubModels:
    """Implements :class:`tabane.search.source.Models`.

    ``kept`` opens the storage of what was embedded; ``errors`` is the
    descriptor that the processes of models write their stderr to. To be used on one event loop.
    """

    def __init__(
        self,
        context: HubContext,
        kept: Callable[[], Awaitable[VectorCache]],
        errors: int | None = None,
        *,
        make_finder: MakeFinder | None = None,
        remembered: float = REMEMBERED,
        patience: float = PATIENCE,
    ) -> None:
        self._context, self._kept, self._patience = context, kept, patience
        self._opening = ModelOpener(context, kept, errors, remembered, make_finder)
        self._judge = HubReranker(self._opening, context.environment, errors, remembered)
        self._measuring = TokenMeasures(context, self._opening, errors, make_finder)
        self._questions = QueryVectors(self._embedded, QUESTIONS)
        self._last: str | NoModel | None = None  # last answer to a caller that needed the model
        self.collections: Callable[[], Awaitable[Sequence[tuple[str, Message, str]]]] = _no_collections
        """Returns name, title and model of the collections that keep the model of their vectors."""

    async def wanted(self) -> Embedder | NoModel:
        """Return the model of the settings, or why there is none."""
        try:
            choice = await (await self._opening.sources()).wanted()
        except TabaneError as error:
            model: str | NoModel = NoModel(error.message)
        else:
            model = await self._opening.fingerprint(choice)
        if isinstance(model, NoModel):
            self._last = NoModel(say("Search matches keywords only. {reason}", reason=model.reason))
            return self._last
        self._last = model
        return await self._handle(model)

    async def serving(self, model: str) -> Embedder | NoModel:
        """Return a model by its fingerprint or id, or why it cannot be had."""
        if "#" not in model:
            return await self._serving_id(model)
        if self._opening.shelf.get(model) is not None:
            return await self._handle(model)
        record = (await self._opening.records.all()).get(model)
        if record is None:
            return await self._unrecorded(model)
        why = await self._opening.again(model, record)
        return _with_fix(model, why.reason) if why else await self._handle(model)

    async def for_tools(self) -> Sequence[Embedder] | NoModel:
        """Return the models that compare tools with queries, or why there are none."""
        models = await self._opening.for_tools()
        if isinstance(models, NoModel):
            return models
        return [ModelHandle(self._opening, name, dimension) for name, dimension in models.items()]

    async def query(self, model: str, text: str) -> bytes | NoModel:
        """Return the vector of a query, or why there is none within some seconds."""
        failed = self._opening.failures.get(model)
        if failed is not None:
            return failed
        try:
            async with asyncio.timeout(self._patience):
                return await self._questions.ask(model, text)
        except TimeoutError:
            return NoModel(say("The embedding model {model} is not ready yet.", model=model))

    def reranker(self) -> Reranker | None:
        """Return the reranker; None if the settings want none."""
        return self._judge if self._context.settings.reranker != "none" else None

    def measure(self) -> Measure:
        """Return the measure of texts for the model of the settings. Blocks."""
        return self._measuring.measure()

    def summary(self) -> tuple[str, Message | None]:
        """Return the name of the model, or why there is none, as far as it is known already."""
        name = self._context.settings.model
        if isinstance(self._last, NoModel):
            return name, self._last.reason
        return self._last or name, None

    def table(self) -> list[Operation]:
        """Return the operations on models."""
        from tabane.hub.sources.models.operations import ModelOperations

        return ModelOperations(self, self._opening, self._judge, self.report, self.list).table()

    async def report(self, lang: Lang) -> dict[str, Any]:
        """Return all that is known about the models, without downloading or starting any."""
        from tabane.hub.sources.models.model_report import former_model, missing_model, report

        status = await report(self._context.settings, self._opening, self._judge, self._kept, lang)
        missing = []  # collections whose vectors cannot be compared with queries
        former = []  # those that are searched with another model than that of the settings
        for name, title, model in await self.collections():
            why = None if self._opening.shelf.get(model) else await self._absence(model)
            if why is not None:
                missing.append(missing_model(name, title, model, why, lang))
            elif (wanted := status.get("id")) not in (None, model.partition("#")[0]):
                former.append(former_model(title, model, wanted, lang))
        return status | {"missing": missing, "former": former}

    async def _absence(self, model: str) -> Message | str | None:
        """Return why a model is not here, or its id if it can be downloaded; None if it is here."""
        records = await self._opening.records.all()
        names = [name for name in records if model in (name, name.partition("#")[0])]
        try:
            sources = await self._opening.sources()
            if names:
                newest = max(names, key=lambda name: records[name].opened)
                choice, fetch = await sources.remembered(records[newest]), False
            else:
                choice, fetch = await sources.of_id(model.partition("#")[0])
                if "#" in model and self._opening.chosen(choice) not in (None, model):
                    return _UNRECORDED
            source = await sources.look(choice)
        except TabaneError as error:
            return error.message
        if isinstance(source, NoModel):
            return source.reason
        return source if isinstance(source, str) and not fetch else None

    async def prepare(self, name: str, progress: Progress) -> tuple[str, str | None]:
        """Return the value of the setting ``model`` for a name, and the fingerprint of that model.

        The model is downloaded if necessary, and loaded. None for ``none``. Raises UnknownName and
        BadArguments for the name, ModelError and its kinds, and ConfigurationError.
        """
        from tabane.hub.sources.models.operations import download_progress

        sources = await self._opening.sources()
        model, choice = await sources.named(name)
        if model == "none":
            return model, None
        try:
            fetched = await self._opening.fetch(choice, download_progress(progress))
        finally:
            self._opening.look_again()
        fingerprint = fetched if isinstance(fetched, NoModel) else await self._opening.fingerprint(choice)
        if isinstance(fingerprint, NoModel):
            raise ModelMissing(fingerprint.reason)
        return model, fingerprint

    async def list(self, lang: Lang) -> dict[str, Any]:
        """Return the models that Tabane knows, without downloading or starting any."""
        from tabane.hub.sources.models.model_report import model_list

        tools = await self.for_tools()
        names = [] if isinstance(tools, NoModel) else [embedder.fingerprint for embedder in tools]
        return await model_list(self._context.settings, self._opening, names, lang)

    async def close(self) -> None:
        """End every process. Calls under way fail, and there is no model any more."""
        self._measuring.close()
        await self._questions.close()
        await self._opening.close()
        await self._judge.close()

    async def _serving_id(self, model: str) -> Embedder | NoModel:
        """Return a model of any revision: one opened before, else that of the settings, or in the cache."""
        records = await self._opening.records.all()
        names = [name for name in records if name.partition("#")[0] == model]
        if names:
            chosen = self._last if self._last in names else max(names, key=lambda name: records[name].opened)
            return await self.serving(str(chosen))
        try:
            choice, fetch = await (await self._opening.sources()).of_id(model)
        except TabaneError as error:
            return _with_fix(model, error.message)
        fingerprint = await self._opening.fingerprint(choice, fetch=fetch)
        if isinstance(fingerprint, NoModel):
            return _with_fix(model, fingerprint.reason)
        return await self._handle(fingerprint)

    async def _unrecorded(self, model: str) -> Embedder | NoModel:
        """Return a model that this home never used: another hub of its group did, or an earlier home."""
        try:
            choice, _ = await (await self._opening.sources()).of_id(model.partition("#")[0])
        except TabaneError:
            return _with_fix(model, _UNRECORDED)
        if await self._opening.fingerprint(choice, fetch=False) != model:
            return _with_fix(model, _UNRECORDED)
        return await self._handle(model)

    async def _handle(self, fingerprint: str) -> Embedder:
        opened_model = self._opening.shelf.get(fingerprint)
        if opened_model is not None:
            return ModelHandle(self._opening, fingerprint, opened_model.thing.dimension)
        record = (await self._opening.records.all())[fingerprint]
        return ModelHandle(self._opening, fingerprint, record.dimension)

    async def _embedded(self, model: str, text: str) -> bytes | NoModel:
        embedder = await self.serving(model)
        if isinstance(embedder, NoModel):
            return embedder
        try:
            return (await embedder.embed([text], "query"))[0]
        except ModelUnavailable as error:
            return self._opening.failures.add(model, NoModel(error.message), _SILENT)
        except ModelError as error:
            return NoModel(error.message)


class ModelHandle:
    """A model, open or not:

    an :class:`~tabane.search.embedding.embedder.Embedder` that opens it again if it was closed for others. It
    need not be closed.
    """

    def __init__(self, opening: ModelOpener, fingerprint: str, dimension: int) -> None:
        self.fingerprint, self.dimension = fingerprint, dimension
        self._opening = opening

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        """Return the vectors of texts. Raises ModelError and its kinds."""
        async with self._opening.using(self.fingerprint) as embedder:
            return await embedder.embed(texts, kind)

    async def embed_parts(self, texts: Sequence[str], take: Take, kind: Kind = "document") -> None:
        """Embed texts, and hand over vectors as they come. Raises ModelError and its kinds."""
        async with self._opening.using(self.fingerprint) as embedder:
            await embedder.embed_parts(texts, take, kind)

    async def close(self) -> None:
        """Do nothing: the model is closed with the hub."""
        return


_UNRECORDED = say("it is not recorded how that model was made.")


async def _no_collections() -> Sequence[tuple[str, Message, str]]:
    return ()


def _with_fix(model: str, reason: Message) -> NoModel:
    return NoModel(
        say(
            "Texts embedded with {model} cannot be searched by meaning: {reason} Embed them "
            "again with: tabane models reembed",
            model=model,
            reason=reason,
        )
    )


QueryVector = bytes | NoModel


class QueryVectors:
    """A cache of ``most`` vectors of queries. The same query at the same time is embedded once."""

    def __init__(self, embed: Callable[[str, str], Awaitable[QueryVector]], most: int) -> None:
        self._embed, self._most = embed, most
        self._known: OrderedDict[bytes, bytes] = OrderedDict()
        self._asked: dict[bytes, asyncio.Task[QueryVector]] = {}

    def __len__(self) -> int:
        return len(self._known)

    async def ask(self, model: str, text: str) -> QueryVector:
        """Return the vector. Failures are not cached. A caller who gives up affects no other caller."""
        name = key(model, "query", clean(text))
        vector = self._known.get(name)
        if vector is not None:
            self._known.move_to_end(name)
            return vector
        task = self._asked.get(name)
        if task is None:
            task = self._asked[name] = asyncio.create_task(self._ask(name, model, text))
        await asyncio.wait({task})
        return NoModel(say("The embedding process is stopping.")) if task.cancelled() else task.result()

    async def close(self) -> None:
        """Cancel all pending queries."""
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, name: bytes, model: str, text: str) -> QueryVector:
        try:
            vector = await self._embed(model, text)
        finally:
            del self._asked[name]
        if isinstance(vector, bytes):
            self._known[name] = vector
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        return vector
