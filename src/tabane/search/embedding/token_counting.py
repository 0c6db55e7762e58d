"""Token counts of texts that are cut for a model: by its own tokenizer, or estimated.

Tokenizers stay out of the hub: one of many languages takes more memory than the hub itself. They run in a
process, and whoever counts waits for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass

import msgspec

from tabane.errors import WorkerError
from tabane.search.chunking import Estimate
from tabane.search.embedding.embedder import clean, slices
from tabane.search.embedding.minilm_encoder import MODEL as JOINED
from tabane.search.embedding.model_families import reads
from tabane.search.embedding.model_files import Recipe
from tabane.search.embedding.process_requests import TokenizerSpec
from tabane.search.embedding.universal_encoder import MODEL as USE
from tabane.search.embedding.universal_encoder import REVISION as USE_REVISION
from tabane.search.embedding.universal_encoder import VOCABULARY
from tabane.workers.resident import RequestRefused, ResidentWorker
from tabane.workers.worker import Program, module

PROGRAM = module("tabane.search.embedding.worker.token_counting")
"""The command of the process that counts tokens."""

IDLE = 60.0
"""Seconds without a text after which the process ends."""

_SILENCE = 60.0  # seconds in which a part is counted, or the process is assumed to hang
_TEXTS, _CHARACTERS = 4096, 500_000  # of a part


class TokenCounter:
    """Counts with the tokenizer in this file. The process is started on demand, and ends by itself.

    ``kept`` is the folder where a vocabulary that had to be parsed is stored.

    Several threads may use it, with or without an event loop of their own: the process is watched on a thread
    of the counter. ``errors`` is the descriptor its stderr goes to.
    """

    def __init__(
        self,
        tokenizer: str,
        environ: Mapping[str, str],
        errors: int | None = None,
        *,
        kept: str = "",
        idle: float = IDLE,
        silence: float = _SILENCE,
    ) -> None:
        environ = {**environ, "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        opening = msgspec.msgpack.encode(TokenizerSpec(tokenizer, idle, kept))
        self._resident = ResidentWorker(Program(PROGRAM, environ, errors=errors), opening, silence=silence)
        self._turn = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Return the id of the running process."""
        return self._resident.pid

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, without special ones. Raises OSError if they cannot be counted."""
        sizes = [0] * len(texts)
        for part in slices([len(text) for text in texts], _TEXTS, _CHARACTERS):
            body = msgspec.msgpack.encode([clean(texts[place]) for place in part])
            tokens = msgspec.msgpack.decode(self._ask(body), type=list[int])
            for place, size in zip(part, tokens, strict=True):
                sizes[place] = size
        return sizes

    def close(self) -> None:
        """End the process. What is being counted fails."""
        with self._turn:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(self._resident.close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()

    def _ask(self, body: bytes) -> bytes:
        with self._turn:
            if self._closed:
                raise OSError("closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
                self._thread.start()
            loop = self._loop
        try:
            return asyncio.run_coroutine_threadsafe(self._resident.ask(body), loop).result()
        except (RequestRefused, WorkerError, CancelledError) as error:
            raise OSError(f"{type(error).__name__}: {error}") from None


log = logging.getLogger(__name__)

TARGET = 512
"""Tokens of a chunk where the model takes more, or nothing is known of one.

500 questions to 3,000 paragraphs of Japanese Wikipedia (JaQuAD), searched by words, nDCG@10: .951 where the
paragraphs are whole and in chunks of so many tokens by the estimate; .941 where they have a third of that.
"""

_SPECIAL = 2  # tokens that models put around a text
_TITLE = 16  # for the name of what it is from, which is embedded with it
_FAR = 4  # capacities: what is estimated to have more is cut anyway, and not worth counting

_RULES = 1
"""Counts up when texts are cut in another way: part of the name of each measure with a tokenizer."""

_ESTIMATE_RULES = 2
"""The same for estimates. It also counts up when the estimate changes, which moves few cuts of the others."""


@dataclass(frozen=True, slots=True)
class TokenizerMeasure:
    """A :class:`~tabane.search.chunking.Measure` with a model's own tokenizer.

    Text that the model cannot read is measured by the estimate, on the scale of :data:`TARGET`: the model
    loses nothing, and keyword search finds short chunks less well. If the tokenizer fails, the estimate is
    used too, and the log says so.
    """

    capacity: int
    name: str
    model: str
    counter: TokenCounter
    estimate: Estimate

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        return self.counts([text])[0]

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text."""
        sizes = self.estimate.counts(texts)
        exact = []
        for place, text in enumerate(texts):
            if not reads(self.model, text):
                sizes[place] = -(-sizes[place] * self.capacity // TARGET)
            elif sizes[place] <= self.capacity * _FAR:
                exact.append(place)
        try:
            tokens = self.counter.counts([texts[place] for place in exact])
        except OSError as error:
            log.warning("tokens of %s are estimated: %s", self.model, error)
            return sizes
        for place, size in zip(exact, tokens, strict=True):
            sizes[place] = size
        return sizes


def room_of(recipe: Recipe) -> int:
    """Return the tokens of a text that a model accepts beside its prefix and title: at most the target."""
    prefix = Estimate(1, "").count(recipe.document)
    longest = recipe.max_tokens - _SPECIAL - prefix
    return max(min(TARGET, longest - min(_TITLE, longest // 8)), 1)


def estimated(recipe: Recipe | None) -> Estimate:
    """Return the estimate for a model whose tokenizer is not here, or for keyword search without a model."""
    capacity = room_of(recipe) if recipe else TARGET
    return Estimate(capacity, f"{_ESTIMATE_RULES}:estimate/{capacity}")


def tokenizer_in(folder: str) -> str | None:
    """Return the tokenizer beside a model; None if its format needs the model's own code."""
    paths = (os.path.join(folder, name) for name in ("tokenizer.json", VOCABULARY))
    return next(filter(os.path.isfile, paths), None)


def exact(recipe: Recipe, counter: TokenCounter) -> TokenizerMeasure:
    """Return the measure of a model whose tokenizer is here."""
    estimate = estimated(recipe)
    # The joined model counts as the Universal Sentence Encoder does: documents are not cut again for it.
    model, revision = (USE, USE_REVISION) if recipe.model == JOINED else (recipe.model, recipe.revision)
    files = hashlib.sha256(revision.encode()).hexdigest()[:12]
    name = f"{_RULES}:{model}@{files}/{estimate.capacity}"
    return TokenizerMeasure(estimate.capacity, name, recipe.model, counter, estimate)
