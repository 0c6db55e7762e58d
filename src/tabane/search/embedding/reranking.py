"""Reranking by a cross-encoder on this machine: choice, files and process."""

from __future__ import annotations

import array
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from tabane.errors import ModelMissing
from tabane.extras import extra_command
from tabane.messages import say
from tabane.search.embedding.batching import slices
from tabane.search.embedding.embedder import clean, together
from tabane.search.embedding.model_files import checksum_of, describing_of, paths_of, scoring_files
from tabane.search.embedding.model_finder import ModelFinder
from tabane.search.embedding.model_hub import Told
from tabane.search.embedding.process import ModelProcess, cores
from tabane.search.embedding.process_requests import ModelSpec
from tabane.search.embedding.recipe import own_traits, settled

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
    """A :class:`~tabane.search.models.Reranker` over a process. Made by :meth:`FoundReranker.open`."""

    def __init__(self, process: ModelProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int | None:
        """Return the id of the running process."""
        return self._process.pid

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
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
