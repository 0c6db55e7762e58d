"""Token counts by a model's own tokenizer, from a process beside the hub. It blocks.

Tokenizers stay out of the hub: one of many languages takes more memory than the hub itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError

import msgspec

from tabane.errors import WorkerError
from tabane.search.embedding.batching import slices
from tabane.search.embedding.embedder import clean
from tabane.search.embedding.model_spec import TokenizerSpec
from tabane.workers.resident import RequestRefused, ResidentWorker
from tabane.workers.worker import Program, module

PROGRAM = module("tabane.search.embedding.worker.counting")
"""The command of the process that counts tokens."""

IDLE = 60.0
"""Seconds without a text after which the process ends."""

_SILENCE = 60.0  # seconds in which a part is counted, or the process is assumed to hang
_TEXTS, _CHARACTERS = 4096, 500_000  # of a part


class TokenCounter:
    """Counts with the tokenizer in this file. The process is started on demand, and ends by itself.

    Several threads may use it, with or without an event loop of their own: the process is watched on a thread
    of the counter. ``errors`` is the descriptor its stderr goes to.
    """

    def __init__(
        self,
        tokenizer: str,
        environ: Mapping[str, str],
        errors: int | None = None,
        *,
        idle: float = IDLE,
        silence: float = _SILENCE,
    ) -> None:
        environ = {**environ, "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        opening = msgspec.msgpack.encode(TokenizerSpec(tokenizer, idle))
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
        found = [0] * len(texts)
        for part in slices([len(text) for text in texts], _TEXTS, _CHARACTERS):
            body = msgspec.msgpack.encode([clean(texts[place]) for place in part])
            tokens = msgspec.msgpack.decode(self._ask(body), type=list[int])
            for place, size in zip(part, tokens, strict=True):
                found[place] = size
        return found

    def close(self) -> None:
        """End the process. What is being counted fails."""
        with self._turn:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(self._resident.close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()

    def _ask(self, body: bytes) -> bytes:
        loop = self._running()
        try:
            return asyncio.run_coroutine_threadsafe(self._resident.ask(body), loop).result()
        except (RequestRefused, WorkerError, CancelledError) as error:
            raise OSError(f"{type(error).__name__}: {error}") from None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._turn:
            if self._closed:
                raise OSError("closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), daemon=True)
                self._thread.start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
