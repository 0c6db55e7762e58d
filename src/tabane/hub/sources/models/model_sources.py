"""Sources of models, from the settings and the records."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Literal

from tabane.errors import BadArguments, ConfigurationError, ModelError, ModelMissing
from tabane.hub.context import HubContext
from tabane.hub.sources.models.model_records import ModelRecord
from tabane.messages import say
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.embedding_service import EmbeddingService
from tabane.search.embedding.minilm_encoder import DIMENSION as ENGLISH
from tabane.search.embedding.minilm_encoder import MODEL as JOINED
from tabane.search.embedding.model_families import ModelTraits, Pooling
from tabane.search.embedding.model_files import DESCRIBING, hub_place, is_model_id, settled
from tabane.search.embedding.model_finder import FoundModel, ModelChoice, ModelFinder
from tabane.search.embedding.model_hub import ModelHub, PackageInstaller, Told, models_extra_missing
from tabane.search.embedding.model_packages import PACKAGES, known_model, model_id
from tabane.search.embedding.universal_encoder import DIMENSION as UNIVERSAL
from tabane.search.embedding.universal_encoder import MODEL as USE
from tabane.servers.variables import Variables, keyring_lookup, load_variables
from tabane.settings.option import expanded

FOLDER = "models"
"""Under the home: what was generated of models."""

_FOR_TOOLS = ((JOINED, UNIVERSAL + ENGLISH), (USE, UNIVERSAL))
"""Models that compare tools with queries, the best first, and the components of their vectors.

Recall@1/5/10 over MetaTool is .55/.79/.86 with the second, .57/.82/.87 with the average of it and MiniLM.
Models that are better for documents are worse here: they were trained for questions, not for tasks.
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
        settings, choice = self._context.settings, self._described()
        if settings.model_url and settings.model != "none":
            choice = replace(choice, service=await self._service(settings.model_url, settings.model_key))
        return choice

    async def named(self, name: str) -> tuple[str, ModelChoice]:
        """Return the value of the setting ``model`` for a name, and the model with the other settings.

        With ``model_url``, a name is the one at that server. Raises UnknownName, BadArguments, and as
        :meth:`wanted`.
        """
        choice = await self.wanted()
        if choice.service is None or name == "none":
            model = model_id(name)
            return model, replace(choice, model=self._named(model), service=None)
        if name == "auto" or ((listed := known_model(name)) is not None and listed.origin != "hub"):
            raise BadArguments(
                say(
                    "{name} runs on this machine, but model_url is set, so models run at {url}. First run: "
                    "tabane settings unset model_url",
                    name=name,
                    url=choice.service.url,
                ),
                "model",
            )
        return name, replace(choice, model=name)

    async def at_hand(self, opened: Callable[[ModelChoice], FoundModel | None]) -> FoundModel | None:
        """Return the facts on the model of the settings that need no secret, no network and no process.

        ``opened`` returns models that are open. Without files (of a server, or to be downloaded), the family
        is used. None if there is no model. Raises as :meth:`ModelFinder.find`.
        """
        settings, choice = self._context.settings, self._described()
        if settings.model_url and settings.model != "none":
            return FoundModel(settled(choice.model, overrides=choice.traits))
        if (open_model := opened(choice)) is not None:
            return open_model
        hub = ModelHub(replace(hub_place(self._context.environment), offline=True), expected=DESCRIBING)
        try:
            model = await self._make(hub, str(settings.home / FOLDER)).find(choice)
        except ModelMissing:
            return FoundModel(settled(choice.model.partition("@")[0], overrides=choice.traits))
        return None if isinstance(model, NoModel) else model

    async def remembered(self, record: ModelRecord) -> ModelChoice:
        """Return the model of a record, to run as the settings say. Raises as :meth:`wanted`."""
        choice = ModelChoice(
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
        return self._with_limits(choice)

    async def of_id(self, model: str) -> tuple[ModelChoice, bool]:
        """Return a model of which only the id is known, and whether it may be downloaded:

        only that of the settings.

        Raises ModelMissing if it is not an id, ConfigurationError as :meth:`wanted`.
        """
        choice = await self.wanted()
        named = choice.model
        if model == (named if choice.service else named.partition("@")[0]):
            return choice, True
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

    def record(self, choice: ModelChoice, model: FoundModel, dimension: int) -> ModelRecord:
        """Return the record of a model that was opened."""
        recipe = model.recipe
        named = model.service is not None or PurePath(choice.model).is_absolute()
        return ModelRecord(
            model=choice.model if named else f"{recipe.model}@{recipe.revision}",
            dimension=dimension,
            url=model.service.url if model.service else "",
            # The name of the variable: the key itself stays away.
            key=self._context.settings.model_key if model.service else "",
            loader=choice.loader,
            quantisation=recipe.quantisation,
            pooling=_POOLINGS[recipe.pooling],
            max_tokens=recipe.max_tokens,
            query=recipe.query,
            document=recipe.document,
            topic=recipe.topic,
            kept=recipe.dimension,
            output=recipe.output,
        )

    def reranker(self) -> ModelChoice:
        """Return the reranker of the settings."""
        return self._with_limits(ModelChoice(self._named(self._context.settings.reranker)))

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
        self, choice: ModelChoice, installer: PackageInstaller, told: Told | None = None
    ) -> FoundModel | NoModel:
        """Return the model, which is downloaded, or installed if it comes as a package.

        Raises as :meth:`ModelFinder.find` and :meth:`PackageInstaller.get`.
        """
        async with self.finder() as finder:
            package = PACKAGES.get(choice.model) if choice.service is None else None
            if package is not None:
                if package.needs_runtime and not finder.runs():
                    raise models_extra_missing()
                await installer.get(package, told, offline=finder.hub.place.offline)
            return await finder.find(choice, told)

    def installer(self) -> PackageInstaller:
        """Return the installer of packages of this home. Use one at a time."""
        return PackageInstaller(str(self._context.home / FOLDER), self._context.environment)

    async def look(self, choice: ModelChoice) -> FoundModel | NoModel | str:
        """Return the model without downloading or starting anything; its id if it has to be downloaded.

        Raises as :meth:`ModelFinder.find`.
        """
        async with self.finder() as finder, self.finder(offline=True) as here:
            try:
                return await here.find(choice)
            except ModelMissing:
                local = finder.hub.place.offline or choice.service or choice.model in ("auto", "none")
                if local or not finder.runs() or not is_model_id(choice.model.partition("@")[0]):
                    raise
                return choice.model

    async def for_tools(self) -> list[tuple[ModelChoice, FoundModel, int]]:
        """Return the model on this machine that compares tools with queries, and its dimension; none: [].

        They do not depend on the model of the settings. Nothing is downloaded or started.
        """
        async with self.finder(offline=True) as finder:
            for model, dimension in _FOR_TOOLS:
                choice = self._with_limits(ModelChoice(model))
                with contextlib.suppress(ModelError):
                    installed = await finder.find(choice)
                    if isinstance(installed, FoundModel):
                        return [(choice, installed, dimension)]
        return []

    def _described(self) -> ModelChoice:
        """Return the model of the settings, without the server that it may be at."""
        settings = self._context.settings
        model = settings.model
        if not settings.model_url and (listed := known_model(model)) is not None:
            model = listed.id
        choice = ModelChoice(
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
        return self._with_limits(choice)

    def _with_limits(self, choice: ModelChoice) -> ModelChoice:
        settings = self._context.settings
        return replace(
            choice,
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
        secret = self._variables().get(name)
        if not secret:
            raise ConfigurationError(
                say(
                    "The variable {name} of the setting model_key is not set. Add {name}=… to {path}.",
                    name=name,
                    path=self._context.home / "secrets.env",
                )
            )
        return secret

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
    choice: ModelChoice, model: FoundModel
) -> tuple[Literal["server", "folder", "hub", "package"], str]:
    """Return the kind of source of a model, and its URL or folder."""
    if model.service is not None:
        return "server", model.service.url
    assert model.spec is not None
    if PurePath(choice.model).is_absolute():
        return "folder", model.spec.folder
    # A commit has forty digits; what came with a package is known by its checksum.
    return ("hub" if len(model.recipe.revision) == 40 else "package"), model.spec.folder


def _prefix(prefix: str) -> str | None:
    return None if prefix == "auto" else prefix.replace("\\n", "\n")
