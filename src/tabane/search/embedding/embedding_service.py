"""Embedder over a server with OpenAI's ``/v1/embeddings``: Ollama, vLLM, TEI, and others.

A request that may succeed later (no connection, 408, 429, 5xx) is repeated after a pause that doubles, or
after the time that the server asks for with Retry-After. A batch that is too large for the server (413) is
halved.
"""

from __future__ import annotations

import array
import asyncio
import math
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from tabane.errors import ModelError, ModelUnavailable
from tabane.messages import say
from tabane.search.embedding.batching import slices
from tabane.search.embedding.embedder import Kind, clean, together
from tabane.search.embedding.patience import AGAIN, asked_pause
from tabane.search.embedding.recipe import Recipe

if TYPE_CHECKING:
    import aiohttp

_TEXTS, _CHARACTERS = 32, 60_000  # of a request: TEI takes 32 texts unless it is told otherwise
_UNDER_WAY = 4
_LONGEST_ANSWER = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class EmbeddingService:
    """Address of the server: ``url`` ends before ``/embeddings``, ``key`` is sent as a bearer token.

    ``timeout`` is the seconds for one request, ``attempts`` the number of tries, ``pause`` the seconds after
    the first, ``longest_pause`` the longest pause, also if the server asks for more.
    """

    url: str
    key: str | None = None
    timeout: float = 120.0
    attempts: int = 5
    pause: float = 0.5
    longest_pause: float = 60.0

    def __repr__(self) -> str:
        return f"Service({self.url!r})"  # a key is nobody's to read


class _ResponseVector(msgspec.Struct):
    index: int
    embedding: list[float]


class _EmbeddingsResponse(msgspec.Struct):
    data: list[_ResponseVector]


class _BatchTooLarge(Exception):
    pass


class ServedEmbedder:
    """An :class:`~tabane.search.embedding.embedder.Embedder` over HTTP. Made by :meth:`open`."""

    def __init__(self, recipe: Recipe, service: EmbeddingService, session: aiohttp.ClientSession) -> None:
        self.recipe = recipe
        self.dimension = 0
        self._service, self._session = service, session
        self._room = asyncio.Semaphore(_UNDER_WAY)
        self._urgent = asyncio.Semaphore(_UNDER_WAY)
        self._sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    @classmethod
    async def open(cls, recipe: Recipe, service: EmbeddingService) -> ServedEmbedder:
        """Ask the server for one vector, whose dimension all others must have. Raises as embed does."""
        import aiohttp

        headers = {"Authorization": f"Bearer {service.key}"} if service.key else {}
        limits = aiohttp.ClientTimeout(total=service.timeout, sock_connect=min(service.timeout, 10))
        session = aiohttp.ClientSession(headers=headers, timeout=limits, trust_env=True)
        embedder = cls(recipe, service, session)
        try:
            embedder.dimension = len((await embedder.embed(["a"], "query"))[0]) // 4
        except BaseException:
            await session.close()
            raise
        return embedder

    @property
    def fingerprint(self) -> str:
        return self.recipe.fingerprint(self.dimension)

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        """Return one vector for each text.

        Raises ModelUnavailable if the server does not answer after all attempts.

        Raises ModelError if it refuses the request, or does not return one vector of this dimension for each
        text.
        """
        prefix = self.recipe.prefix(kind)
        prepared = [prefix + clean(text) for text in texts]
        found: list[bytes] = [b""] * len(prepared)
        room = self._urgent if kind == "query" else self._room
        parts = slices([len(text) for text in prepared], _TEXTS, _CHARACTERS)
        await together(self._part(prepared, part, found, room) for part in parts)
        return found

    async def close(self) -> None:
        await self._session.close()

    async def _part(
        self, texts: Sequence[str], part: Sequence[int], found: list[bytes], room: asyncio.Semaphore
    ) -> None:
        async with room:
            vectors = await self._vectors([texts[position] for position in part])
        for position, vector in zip(part, vectors, strict=True):
            found[position] = vector

    async def _vectors(self, texts: Sequence[str]) -> list[bytes]:
        try:
            body = await self._answer(texts)
        except _BatchTooLarge:
            if len(texts) == 1:
                raise ModelError(
                    say(
                        "The embedding server does not accept a text of {size} characters.",
                        size=len(texts[0]),
                    )
                ) from None
            half = len(texts) // 2
            return [*await self._vectors(texts[:half]), *await self._vectors(texts[half:])]
        return await asyncio.to_thread(self._read, body, len(texts))

    async def _answer(self, texts: Sequence[str]) -> bytes:
        reason, wait = "", 0.0
        for attempt in range(self._service.attempts):
            if attempt:
                await self._sleep(wait)
            wait = min(self._service.pause * 2**attempt, self._service.longest_pause)
            reason, asked, body = await self._try(texts)
            if body is not None:
                return body
            wait = min(max(wait, asked), self._service.longest_pause)
        raise ModelUnavailable(
            say(
                "The embedding server at {url} does not respond: {reason}.",
                url=self._service.url,
                reason=reason,
            )
        )

    async def _try(self, texts: Sequence[str]) -> tuple[str, float, bytes | None]:
        """Return why there is no answer, the seconds that the server asks to wait, and the answer."""
        import aiohttp

        url = f"{self._service.url.rstrip('/')}/embeddings"
        wanted = {"model": self.recipe.model, "input": list(texts), "encoding_format": "float"}
        try:
            async with self._session.post(
                url, data=msgspec.json.encode(wanted), headers={"Content-Type": "application/json"}
            ) as answer:
                if answer.status == 200:
                    return "", 0, await self._body(answer)
                return await self._declined(answer)
        except (aiohttp.ClientError, TimeoutError) as error:
            return str(error) or type(error).__name__, 0, None

    async def _declined(self, answer: aiohttp.ClientResponse) -> tuple[str, float, None]:
        if answer.status == 413:
            raise _BatchTooLarge
        if answer.status in AGAIN:
            return f"HTTP {answer.status}", asked_pause(answer.headers), None
        said = (await answer.content.read(2000)).decode("utf-8", "replace")[:300]
        raise ModelError(
            say(
                "The embedding server at {url} refused the request (HTTP {status}): {reason}",
                url=self._service.url,
                status=answer.status,
                reason=said,
            )
        )

    async def _body(self, answer: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for chunk in answer.content.iter_chunked(1 << 16):
            body += chunk
            if len(body) > _LONGEST_ANSWER:
                raise self._wrong(f"more than {_LONGEST_ANSWER} bytes")
        return bytes(body)

    def _read(self, body: bytes, count: int) -> list[bytes]:
        try:
            found = sorted(
                msgspec.json.decode(body, type=_EmbeddingsResponse).data, key=lambda vector: vector.index
            )
        except msgspec.DecodeError as error:
            raise self._wrong(str(error)) from None
        if [vector.index for vector in found] != list(range(count)):
            raise self._wrong(f"{len(found)} vectors for {count} texts")
        return [self._unit(vector.embedding) for vector in found]

    def _unit(self, vector: Sequence[float]) -> bytes:
        kept = vector[: self.recipe.dimension or None]
        norm = math.hypot(*kept)
        if not kept or not math.isfinite(norm):
            raise self._wrong("a vector without finite components")
        if self.dimension not in (0, len(kept)):
            raise self._wrong(f"{len(kept)} components in place of {self.dimension}")
        packed = array.array("f", [component / (norm or 1) for component in kept])
        if sys.byteorder == "big":
            packed.byteswap()
        return packed.tobytes()

    def _wrong(self, reason: str) -> ModelError:
        return ModelError(
            say(
                "The embedding server at {url} sent a response that is not valid: {reason}.",
                url=self._service.url,
                reason=reason,
            )
        )
