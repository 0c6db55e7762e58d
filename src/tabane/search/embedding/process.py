"""The embedding process, which runs one model, and the embedder that uses it."""

from __future__ import annotations

import array
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence

import msgspec

from tabane.errors import ModelError, ModelMissing, ModelUnavailable, WorkerEnded, WorkerUnavailable
from tabane.messages import say
from tabane.search.embedding.embedder import BYTES, Kind, Take, clean, collect_vectors, slices, together
from tabane.search.embedding.model_files import Recipe
from tabane.search.embedding.process_requests import EmbeddingRequest, ModelSpec
from tabane.workers.resident import DEATHS, EndedByRequest, RequestRefused, ResidentWorker
from tabane.workers.worker import STARTS, Program, module

PROGRAM = module("tabane.search.embedding.worker")
"""The command of the embedding process."""

_SILENCE = 600.0


class ModelProcess:
    """A process that runs one model, while there is work for it.

    ``silence`` is the seconds after which a process that owes an answer and says nothing is assumed to hang,
    and killed. ``errors`` is the descriptor its stderr goes to, None for nowhere. Use it on one event loop
    only.
    """

    def __init__(
        self,
        spec: ModelSpec,
        environ: Mapping[str, str],
        *,
        silence: float = _SILENCE,
        errors: int | None = None,
    ) -> None:
        self.spec = spec
        # Threads of BLAS spin while they wait for each other: ten times slower where cores are busy.
        blas = 1 if spec.loader in ("use", "joined") else spec.threads
        counts = dict.fromkeys(("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(blas))
        quiet = {"TOKENIZERS_PARALLELISM": "true", "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        # With an arena for each thread, glibc holds 30 MB more of what was freed, and is not faster.
        memory = {"MALLOC_ARENA_MAX": "1"}
        program = Program(PROGRAM, {**environ, **counts, **quiet, **memory}, errors=errors)
        self._resident = ResidentWorker(program, msgspec.msgpack.encode(spec), silence=silence)
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Return the id of the running process."""
        return self._resident.pid

    @property
    def busy(self) -> bool:
        """Return whether it works on texts that somebody waits for."""
        return self._resident.busy

    async def dimension(self) -> int:
        """Load the model, and return the components of a vector. If that fails, the process is closed.

        Raises as :meth:`ask`.
        """
        try:
            return msgspec.msgpack.decode(await self._resident.greeting(), type=int)
        except (RequestRefused, WorkerEnded, WorkerUnavailable) as error:
            reason = self._error(error)
            await self.close()
            raise reason from None
        except BaseException:
            await self.close()
            raise

    async def ask(self, texts: Sequence[str], *, urgent: bool = False, query: str = "") -> bytes:
        """Return the vectors of the texts, one after the other. ``urgent`` ones do not wait for others.

        A model that scores returns one component each: of the text, read together with ``query``.

        Raises ModelMissing if a package is not installed, ModelUnavailable if the process keeps ending,
        ModelError if the model cannot be loaded or refuses the texts.
        """
        body = msgspec.msgpack.encode(EmbeddingRequest(list(texts), query))
        try:
            return await self._resident.ask(body, urgent=urgent)
        except (RequestRefused, WorkerEnded, WorkerUnavailable) as error:
            raise self._error(error) from None

    async def close(self) -> None:
        """End the process; its requests fail."""
        self._closed = True
        await self._resident.close()

    def _error(self, error: RequestRefused | WorkerEnded | WorkerUnavailable) -> ModelError:
        if isinstance(error, RequestRefused):
            reason = error.reason
            if not error.opening:
                return ModelError(say("The embedding model refused the texts: {reason}.", reason=reason))
            if error.package:
                return ModelMissing(
                    say(
                        "The embedding model needs the package {package}, which is not installed.",
                        package=error.package,
                    )
                )
            return ModelError(say("The embedding model cannot be loaded: {reason}.", reason=reason))
        if self._closed:
            return ModelUnavailable(say("The embedding process is stopping."))
        if isinstance(error, EndedByRequest):
            return ModelError(
                say("The embedding process crashed {times} {times:time|times} on these texts.", times=DEATHS)
            )
        if isinstance(error, WorkerEnded):
            return ModelUnavailable(
                say("The embedding process ended {times} {times:time|times}.", times=STARTS)
            )
        return ModelUnavailable(say("The embedding process cannot be used: {reason}.", reason=error.message))


def cores() -> int:
    """Return the default number of threads of a model: one for each core of this process, at most four."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, 4)


_TEXTS, _CHARACTERS = 64, 30_000  # handed to the process at once: what was embedded is stored as often
_UNDER_WAY = 2  # such parts: one that runs, one that waits, so that the process never does
_QUERIES = 16  # texts; more at once are no question that somebody waits for


class LocalEmbedder:
    """An :class:`~tabane.search.embedding.embedder.Embedder` over a process."""

    def __init__(self, recipe: Recipe, process: ModelProcess, dimension: int) -> None:
        self.recipe = recipe
        self.dimension = dimension
        self.fingerprint = recipe.fingerprint(dimension)
        self._process = process
        self._room = asyncio.Semaphore(_UNDER_WAY)

    @property
    def pid(self) -> int | None:
        """Return the id of the running process. An idle one ends, and is started again."""
        return self._process.pid

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        """Return one vector for each text. Queries overtake documents."""
        if kind != "query" or len(texts) > _QUERIES:
            return await collect_vectors(self, texts, kind)
        prefix = self.recipe.prefix(kind)
        prepared = [prefix + clean(text) for text in texts]
        return self._cut(await self._process.ask(prepared, urgent=True))

    async def embed_parts(self, texts: Sequence[str], take: Take, kind: Kind = "document") -> None:
        """Embed texts, and hand over each part when it is ready."""
        prefix = self.recipe.prefix(kind)
        prepared = [prefix + clean(text) for text in texts]

        async def embed(part: Sequence[int]) -> None:
            async with self._room:
                answer = await self._process.ask([prepared[position] for position in part])
            await take(part, self._cut(answer))

        await together(map(embed, slices([len(text) for text in prepared], _TEXTS, _CHARACTERS)))

    async def close(self) -> None:
        """End the process."""
        await self._process.close()

    def _cut(self, vectors: bytes) -> list[bytes]:
        width = self.dimension * BYTES
        return [vectors[start : start + width] for start in range(0, len(vectors), width)]


_PAIRS_CHARACTERS = 500_000  # handed to the process at once


class LocalReranker:
    """A :class:`~tabane.search.source.Reranker` over a process."""

    def __init__(self, process: ModelProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int | None:
        """Return the id of the running process."""
        return self._process.pid

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well each text answers the query, in 0..1."""
        question, prepared = clean(query), [clean(text) for text in texts]
        scores = [0.0] * len(prepared)

        async def score_part(part: Sequence[int]) -> None:
            components = array.array("f")
            components.frombytes(
                await self._process.ask([prepared[place] for place in part], urgent=True, query=question)
            )
            if sys.byteorder == "big":
                components.byteswap()
            for place, score in zip(part, components, strict=True):
                scores[place] = score

        parts = slices([len(text) for text in prepared], _TEXTS, _PAIRS_CHARACTERS)
        await together(score_part(part) for part in parts)
        return scores

    async def close(self) -> None:
        """End the process. Calls under way fail; may be called twice."""
        await self._process.close()
