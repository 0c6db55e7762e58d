"""Operations on models: status, download, test."""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from operator import mul
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from tabane.errors import BadArguments, ModelMissing
from tabane.hub.sources.models.model_opener import HubReranker, ModelOpener
from tabane.messages import Lang, Message, say
from tabane.operations import Caller, NoParameters, Operation, Privilege
from tabane.search.embedding.embedder import Embedder, Kind, NoModel
from tabane.search.source import Models

if TYPE_CHECKING:
    from tabane.operations.jobs import Progress
    from tabane.search.embedding.model_finder import FoundModel
    from tabane.search.embedding.model_hub import DownloadProgress as Fetched
    from tabane.search.embedding.model_hub import Told

_SAMPLE = "What is this model good for? このモデルは何に使えますか。"


class PullModel(Struct, frozen=True, forbid_unknown_fields=True):
    """``model``: a short name, ``org/name`` or ``org/name@revision``; default: what the settings name."""

    model: Annotated[str, Meta(min_length=1, max_length=300)] | None = None


class TestModel(Struct, frozen=True, forbid_unknown_fields=True):
    """``text`` is embedded as a question; ``other`` as a document, to be compared with it."""

    __test__ = False  # none of pytest's

    text: Annotated[str, Meta(max_length=100_000)] = _SAMPLE
    other: Annotated[str, Meta(max_length=100_000)] | None = None


class TestedModel(Struct, frozen=True, omit_defaults=True):
    """``ms`` is the time of one query in milliseconds. ``cosine`` is there if two texts were compared."""

    __test__ = False  # none of pytest's

    model: str
    dimension: int
    ms: float
    cosine: float | None = None


class PulledModel(Struct, frozen=True):
    """A model on this machine: its id, revision and folder."""

    model: str
    revision: str
    folder: str


class PulledModels(Struct, frozen=True):
    """The models that were downloaded, or were there already."""

    results: list[PulledModel]


class UsedModel(Struct, frozen=True):
    """The result of a change. ``problem`` is why it is not in force, ``job`` embeds the texts again."""

    model: str
    fingerprint: str | None
    applies: str
    problem: str | None = None
    job: str | None = None


class ModelOperations:
    """The operations. ``report`` returns the result of ``model_status``, ``listed`` of ``list_models``."""

    def __init__(
        self,
        models: Models,
        opening: ModelOpener,
        judge: HubReranker,
        report: Callable[[Lang], Awaitable[dict[str, Any]]],
        listed: Callable[[Lang], Awaitable[dict[str, Any]]],
    ) -> None:
        self._models, self._opening, self._judge = models, opening, judge
        self._report, self._listed = report, listed

    def table(self) -> list[Operation]:
        """Return the operations."""
        return [
            Operation(
                "model_status", "Which embedding model there is, and why none.",
                NoParameters, self.status, privilege=Privilege.READ,
            ),
            Operation(
                "list_models",
                "Models that Tabane knows: languages, size, speed and quality here, and which are in use.",
                NoParameters, self.list, privilege=Privilege.READ,
            ),
            Operation(
                "pull_model", "Fetch an embedding model.",
                PullModel, self.pull, kind="job", title=_title,
            ),
            Operation(
                "test_model", "Embed a text, and compare it with another.",
                TestModel, self.test, privilege=Privilege.READ,
            ),
        ]  # fmt: skip

    async def status(self, caller: Caller, params: NoParameters) -> dict[str, Any]:
        """Return all that is known about the models."""
        return await self._report(caller.lang)

    async def list(self, caller: Caller, params: NoParameters) -> dict[str, Any]:
        """Return the models that Tabane knows, and those in use."""
        return await self._listed(caller.lang)

    async def pull(self, caller: Caller, params: PullModel, progress: Progress) -> PulledModels:
        """Fetch what is missing. Raises ModelMissing, ModelUnavailable, ModelError, ConfigurationError."""
        result = download_progress(progress)
        try:
            if params.model is None:
                return PulledModels([row async for row in self._pulled(result)])
            choice = (await self._opening.sources()).to_fetch(params.model)
            if choice is None:
                raise BadArguments(say("{model} is not the name of a model.", model=params.model), "model")
            model = await self._opening.fetch(choice, result)
            assert not isinstance(model, NoModel)
            return PulledModels([_pulled_row(model)])
        finally:
            # What could not be had a moment ago may be here now.
            self._opening.look_again()
            self._judge.look_again()

    async def test(self, caller: Caller, params: TestModel) -> TestedModel:
        """Test the model. Raises ModelMissing if there is none, and the errors of embedding."""
        embedder = await self._models.wanted()
        if isinstance(embedder, NoModel):
            raise ModelMissing(embedder.reason)
        # The first may wait until the process has loaded the model, which is not what is measured.
        await _embedded(embedder, "a", "query")
        began = time.perf_counter()
        question = await _embedded(embedder, params.text, "query")
        ms = round((time.perf_counter() - began) * 1000, 2)
        if params.other is None:
            return TestedModel(embedder.fingerprint, embedder.dimension, ms)
        other = await _embedded(embedder, params.other, "document")
        cosine = round(sum(map(mul, question, other)), 4)
        return TestedModel(embedder.fingerprint, embedder.dimension, ms, cosine)

    async def _pulled(self, result: Told) -> AsyncIterator[PulledModel]:
        """Fetch what the settings name: the model, and the reranker."""
        sources = await self._opening.sources()
        choice = await sources.wanted()
        if choice.service is None and choice.model != "none":
            model = await self._opening.fetch(choice, result)
            if isinstance(model, NoModel):
                raise ModelMissing(model.reason)
            yield _pulled_row(model)
        reranker = sources.reranker()
        if reranker.model != "none":
            async with sources.finder() as finder:
                yield _pulled_row(await finder.find_reranker(reranker, result))


def _pulled_row(model: FoundModel) -> PulledModel:
    return PulledModel(model.recipe.model, model.recipe.revision, model.spec.folder if model.spec else "")


def download_progress(progress: Progress) -> Told:
    """Return what tells a job the progress of a download."""

    def tell(fetched: Fetched) -> None:
        progress.tell(fetched.here, fetched.total, say("{path}", path=fetched.path))

    return tell


def _title(params: PullModel) -> Message:
    if params.model is None:
        return say("Downloading the embedding model")
    return say("Downloading the model {model}", model=params.model)


async def _embedded(embedder: Embedder, text: str, kind: Kind) -> array[float]:
    components = array("f")
    components.frombytes((await embedder.embed([text], kind))[0])
    if sys.byteorder == "big":
        components.byteswap()
    return components
