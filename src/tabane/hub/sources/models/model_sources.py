"""Sources of models, from the settings and the records."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Literal

from tabane.errors import BadArguments, ConfigurationError, ModelError, ModelMissing
from tabane.extras import extra_command
from tabane.hub.context import HubContext
from tabane.hub.sources.models.model_records import ModelRecord
from tabane.messages import say
from tabane.search.embedding import model_finder as reranking
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.embedding_service import EmbeddingService
from tabane.search.embedding.model_families import ModelTraits, Pooling
from tabane.search.embedding.model_files import DESCRIBING, hub_place, is_model_id, settled
from tabane.search.embedding.model_finder import MINILM, FoundModel, ModelChoice, ModelFinder
from tabane.search.embedding.model_hub import ModelHub, PackageInstaller, Told
from tabane.search.embedding.model_packages import PACKAGES, known_model, model_id
from tabane.search.embedding.universal_encoder import DIMENSION
from tabane.search.embedding.universal_encoder import MODEL as USE
from tabane.servers.variables import Variables, keyring_lookup, load_variables
from tabane.settings.option import expanded

FOLDER = "models"
"""Under the home: what was generated of models."""

_FOR_TOOLS = ((USE, DIMENSION), (MINILM, 384))
"""Models that compare tools with queries, and the components of their vectors.

Recall@1/5/10 over MetaTool is .55/.79/.86 with the first, .57/.82/.87 with the average of both. Models that
are better for documents are worse here: they were trained for questions, not for tasks.
"""

_POOLINGS: Mapping[Pooling, Literal["mean", "cls", "last"]] = {
    Pooling.MEAN: "mean",
    Pooling.CLS: "cls",
    Pooling.LAST: "last",
}

MakeFinder = Callable[[ModelHub, str], ModelFinder]


class ModelSources:
    """The model that the current settings ask for."""

    def __init__(self, context: HubContext, make: MakeFinder | None = None) -> None:
        self._context, self._make = context, make or ModelFinder

    async def wanted(self) -> ModelChoice:
        """Return the model of the settings. Raises ConfigurationError if its key is not defined."""
        settings, wanted = self._context.settings, self._described()
        if settings.model_url and settings.model != "none":
            wanted = replace(wanted, service=await self._service(settings.model_url, settings.model_key))
        return wanted

    async def named(self, name: str) -> tuple[str, ModelChoice]:
        """Return the value of the setting ``model`` for a name, and the model with the other settings.

        With ``model_url``, a name is the one at that server. Raises UnknownName, BadArguments, and as
        :meth:`wanted`.
        """
        wanted = await self.wanted()
        if wanted.service is None or name == "none":
            model = model_id(name)
            return model, replace(wanted, model=self._named(model), service=None)
        if name == "auto" or ((known := known_model(name)) is not None and known.origin != "hub"):
            raise BadArguments(
                say(
                    "{name} runs on this machine, but model_url is set, so models run at {url}. First run: "
                    "tabane settings unset model_url",
                    name=name,
                    url=wanted.service.url,
                ),
                "model",
            )
        return name, replace(wanted, model=name)

    async def at_hand(self, opened: Callable[[ModelChoice], FoundModel | None]) -> FoundModel | None:
        """Return the facts on the model of the settings that need no secret, no network and no process.

        ``opened`` returns models that are open. Without files (of a server, or to be downloaded), the family
        is used. None if there is no model. Raises as :meth:`ModelFinder.find`.
        """
        settings, wanted = self._context.settings, self._described()
        if settings.model_url and settings.model != "none":
            return FoundModel(settled(wanted.model, overrides=wanted.traits))
        if (known := opened(wanted)) is not None:
            return known
        hub = ModelHub(replace(hub_place(self._context.environment), offline=True), expected=DESCRIBING)
        try:
            found = await self._make(hub, str(settings.home / FOLDER)).find(wanted)
        except ModelMissing:
            return FoundModel(settled(wanted.model.partition("@")[0], overrides=wanted.traits))
        return None if isinstance(found, NoModel) else found

    async def remembered(self, record: ModelRecord) -> ModelChoice:
        """Return the model of a record, to run as the settings say. Raises as :meth:`wanted`."""
        wanted = ModelChoice(
            record.model,
            await self._service(record.url, record.key) if record.url else None,
            record.loader,
            record.quantisation,
            ModelTraits(
                Pooling(record.pooling),
                record.max_tokens,
                record.query,
                record.document,
                record.topic,
                record.kept or None,
                record.output,
            ),
        )
        return self._with_limits(wanted)

    async def of_id(self, model: str) -> tuple[ModelChoice, bool]:
        """Return a model of which only the id is known, and whether it may be downloaded:

        only that of the settings.

        Raises ModelMissing if it is not an id, ConfigurationError as :meth:`wanted`.
        """
        wanted = await self.wanted()
        named = wanted.model
        if model == (named if wanted.service else named.partition("@")[0]):
            return wanted, True
        if not is_model_id(model):
            raise ModelMissing(say("{model} is not the name of a model.", model=model))
        return self._with_limits(ModelChoice(model)), False

    def to_fetch(self, model: str) -> ModelChoice | None:
        """Return a model that can be downloaded: by a short name that Tabane knows, or ``org/name``, or
        ``org/name@revision``; None for any other name. Raises UnknownName for a misspelled short name.
        """
        model = model_id(model)
        named, _, revision = model.partition("@")
        if not is_model_id(named) or (revision and not is_model_id(revision)):
            return None
        return self._with_limits(ModelChoice(model))

    def record(self, wanted: ModelChoice, found: FoundModel, dimension: int) -> ModelRecord:
        """Return the record of a model that was opened."""
        recipe = found.recipe
        named = found.service is not None or PurePath(wanted.model).is_absolute()
        return ModelRecord(
            model=wanted.model if named else f"{recipe.model}@{recipe.revision}",
            dimension=dimension,
            url=found.service.url if found.service else "",
            key=self._context.settings.model_key
            if found.service
            else "",  # its name: the key itself stays away
            loader=wanted.loader,
            quantisation=recipe.quantisation,
            pooling=_POOLINGS[recipe.pooling],
            max_tokens=recipe.max_tokens,
            query=recipe.query,
            document=recipe.document,
            topic=recipe.topic,
            kept=recipe.dimension,
            output=recipe.output,
        )

    def reranker(self) -> reranking.RerankerChoice:
        """Return the reranker of the settings."""
        settings = self._context.settings
        return reranking.RerankerChoice(
            self._named(settings.reranker),
            settings.model_threads,
            settings.model_batch_tokens,
            settings.model_idle * 60,
        )

    async def find_reranker(
        self, wanted: reranking.RerankerChoice, told: Told | None = None, *, offline: bool = False
    ) -> reranking.FoundReranker:
        """Find the reranker. Raises as :func:`reranking.find`."""
        async with self.finder(offline=offline) as finder:
            return await reranking.find(finder, wanted, told)

    @contextlib.asynccontextmanager
    async def finder(self, *, offline: bool = False) -> AsyncIterator[ModelFinder]:
        """Yield a finder of models at the hub that the environment names."""
        settings = self._context.settings
        place = hub_place(self._context.environment, await asyncio.to_thread(self._token))
        place = replace(place, offline=offline or place.offline or settings.model_offline)
        hub = ModelHub(place, expected=DESCRIBING)
        try:
            yield self._make(hub, str(settings.home / FOLDER))
        finally:
            await hub.close()

    async def fetch(
        self, wanted: ModelChoice, installer: PackageInstaller, told: Told | None = None
    ) -> FoundModel | NoModel:
        """Return the model, which is downloaded, or installed if it comes as a package.

        Raises as :meth:`ModelFinder.find` and :meth:`PackageInstaller.get`.
        """
        async with self.finder() as finder:
            package = PACKAGES.get(wanted.model) if wanted.service is None else None
            if package is not None:
                if package.needs_runtime and not finder.runs():
                    raise ModelMissing(
                        say("To run embedding models, run: {command}", command=extra_command("models"))
                    )
                await installer.get(package, told, offline=finder.hub.place.offline)
            return await finder.find(wanted, told)

    def installer(self) -> PackageInstaller:
        """Return the installer of packages of this home. Use one at a time."""
        return PackageInstaller(str(self._context.home / FOLDER), self._context.environment)

    async def look(self, wanted: ModelChoice) -> FoundModel | NoModel | str:
        """Return the model without downloading or starting anything; its id if it has to be downloaded.

        Raises as :meth:`ModelFinder.find`.
        """
        async with self.finder() as finder, self.finder(offline=True) as here:
            if finder.hub.place.offline or wanted.service or wanted.model in ("auto", "none"):
                return await here.find(wanted)
            if not finder.runs() or not is_model_id(wanted.model.partition("@")[0]):
                return await here.find(wanted)
            try:
                return await here.find(wanted)
            except ModelMissing:
                return wanted.model

    async def for_tools(self) -> list[tuple[ModelChoice, FoundModel, int]]:
        """Return the models on this machine that compare tools with queries, and the dimension of each.

        They do not depend on the model of the settings. Nothing is downloaded or started.
        """
        found = []
        async with self.finder(offline=True) as finder:
            for model, dimension in _FOR_TOOLS:
                wanted = self._with_limits(ModelChoice(model))
                with contextlib.suppress(ModelError):
                    installed = await finder.find(wanted)
                    if isinstance(installed, FoundModel):
                        found.append((wanted, installed, dimension))
        return found

    def _described(self) -> ModelChoice:
        """Return the model of the settings, without the server that it may be at."""
        settings = self._context.settings
        model = settings.model
        if not settings.model_url and (known := known_model(model)) is not None:
            model = known.id
        wanted = ModelChoice(
            self._named(model),
            loader=settings.model_loader,
            quantisation=settings.model_quantisation,
            traits=ModelTraits(
                None if settings.model_pooling == "auto" else Pooling(settings.model_pooling),
                settings.model_max_tokens or None,
                _prefix(settings.model_query_prefix),
                _prefix(settings.model_document_prefix),
                dimension=settings.model_dimension or None,
            ),
        )
        return self._with_limits(wanted)

    def _with_limits(self, wanted: ModelChoice) -> ModelChoice:
        settings = self._context.settings
        return replace(
            wanted,
            threads=settings.model_threads,
            budget=settings.model_batch_tokens,
            idle=settings.model_idle * 60,
        )

    def _named(self, model: str) -> str:
        """Return a model, or a folder with ``~`` expanded."""
        return str(expanded(model, self._context.environment, "/")) if model.startswith("~/") else model

    async def _service(self, url: str, key: str) -> EmbeddingService:
        return EmbeddingService(url, await asyncio.to_thread(self._secret, key) if key else None)

    def _secret(self, key: str) -> str:
        name = key.removeprefix("${").removesuffix("}")
        found = self._variables().get(name)
        if not found:
            raise ConfigurationError(
                say(
                    "The variable {name} of the setting model_key is not set. Add {name}=… to {path}.",
                    name=name,
                    path=self._context.home / "secrets.env",
                )
            )
        return found

    def _token(self) -> str | None:
        """Return the token for models that require a login.

        If secrets cannot be read, the other models still work.
        """
        with contextlib.suppress(ConfigurationError):
            return self._variables().get("HF_TOKEN")
        return None

    def _variables(self) -> Variables:
        settings = self._context.settings
        return load_variables(
            settings.home, self._context.environment, keyring_lookup() if settings.keyring else None
        )


def source_of(
    wanted: ModelChoice, found: FoundModel
) -> tuple[Literal["server", "folder", "hub", "package"], str]:
    """Return the kind of source of a model, and its URL or folder."""
    if found.service is not None:
        return "server", found.service.url
    assert found.spec is not None
    if PurePath(wanted.model).is_absolute():
        return "folder", found.spec.folder
    # A commit has forty digits; what came with a package is known by its checksum.
    return ("hub" if len(found.recipe.revision) == 40 else "package"), found.spec.folder


def _prefix(given: str) -> str | None:
    return None if given == "auto" else given.replace("\\n", "\n")
