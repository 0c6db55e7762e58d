"""Embedder over a server with OpenAI's ``/v1/embeddings``: Ollama, vLLM, TEI, and others.

A request that may succeed later (no connection, 408, 429, 5xx) is repeated after a pause that doubles, or
after the time that the server asks for with Retry-After. A request that is too large for the server
(413), or that takes longer than its timeout, is halved, and so is one that the server refuses (400, 422),
until the text that is the cause is alone. What a server can bear is remembered while it is open.

Pace of requests to an embedding server: texts of a request and requests at once, learned from answers.
"""

from __future__ import annotations

import array
import asyncio
import math
import os
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from tabane.errors import ModelError, ModelUnavailable, UpstreamError
from tabane.messages import say
from tabane.net.http_failures import HttpFailure, ResponseTooLong
from tabane.search.embedding.embedder import Kind, Take, clean, collect_vectors, together
from tabane.search.embedding.model_files import Recipe
from tabane.search.embedding.process_requests import AGAIN, asked_pause

if TYPE_CHECKING:
    from tabane.net.fetching import Fetched, HttpFetcher

FIRST_TEXTS = 4
"""Texts of the first request. A fast server gets the most after three answers, a slow one is not overrun."""

COMFORTABLE = 2.0
"""Seconds that a request should take at most: a query that waits behind it still gets its answer in time."""

_PARTS = 8  # of the timeout: a request that takes one of them is not quick either


class RequestPace:
    """Room for requests to one server.

    ``texts`` is how many a request may carry. It doubles with each quick answer until one takes longer than
    it should. It halves with each timeout, after which it grows by one at a time. Several requests run at the
    same time only while all answers are quick. ``timeout`` is the seconds of one request.
    """

    def __init__(self, most_texts: int, most_requests: int, timeout: float) -> None:
        self.texts, self.requests = min(FIRST_TEXTS, most_texts), 1
        self.unanswered = 0
        """Timeouts since the last answer."""
        self._most_texts, self._most_requests = most_texts, most_requests
        self._goal = min(COMFORTABLE, timeout / _PARTS)
        self._careful = False  # there was a timeout
        self._running = 0
        self._room = asyncio.Condition()

    @asynccontextmanager
    async def request(self) -> AsyncIterator[None]:
        """Wait until one more request may run, and count it during the block."""
        async with self._room:
            while self._running >= self.requests:
                await self._room.wait()
            self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            async with self._room:
                self._room.notify_all()

    def answered(self, texts: int, seconds: float) -> None:
        """Learn from an answer to a request with so many texts."""
        self.unanswered = 0
        fitting = max(1, int(texts * self._goal / max(seconds, 1e-6)))
        if seconds > self._goal:
            self.texts, self.requests = min(self.texts, fitting), 1
        elif texts >= self.texts:
            grown = self.texts + 1 if self._careful else 2 * self.texts
            self.texts = max(self.texts, min(grown, fitting, self._most_texts))
            if 2 * seconds <= self._goal:
                self.requests = min(self.requests + 1, self._most_requests)

    def timed_out(self, texts: int) -> None:
        """Learn that a request with so many texts got no answer in time."""
        self.unanswered += 1
        self.texts, self.requests, self._careful = max(1, min(self.texts, texts // 2)), 1, True

    def declined(self) -> None:
        """Learn that the server asks for fewer requests."""
        self.requests = 1


_TEXTS, _CHARACTERS = 32, 60_000  # of a request: TEI takes 32 texts unless it is told otherwise
_UNDER_WAY = 4
_LONGEST_ANSWER = 64 * 1024 * 1024
_SHOWN = 2000  # bytes of the body of an error


@dataclass(frozen=True, slots=True)
class EmbeddingService:
    """Address of the server: ``url`` ends before ``/embeddings``, ``key`` is sent as a bearer token.

    ``timeout`` is the seconds for one request, ``attempts`` the number of tries, ``pause`` the seconds after
    the first, ``longest_pause`` the longest pause, also if the server asks for more.
    """

    url: str
    key: str | None = field(default=None, repr=False)
    timeout: float = 120.0
    attempts: int = 5
    pause: float = 0.5
    longest_pause: float = 60.0


class _ResponseVector(msgspec.Struct):
    index: int
    embedding: list[float]


class _EmbeddingsResponse(msgspec.Struct):
    data: list[_ResponseVector]


class _BatchRefused(Exception):
    """The server refuses a request because of its texts: with fewer of them, it may not."""

    def __init__(self, error: ModelError) -> None:
        super().__init__(str(error))
        self.error = error


class _BatchTooSlow(Exception):
    """A request with several texts got no answer in time: with fewer, it may."""


_SLOW = (408, 504)
"""Statuses of a server, or of a proxy before it, that waited too long for an answer."""

_OF_A_TEXT = (400, 422)
"""Statuses of servers that refuse a text, such as one that is longer than their model accepts."""

_FAILURES = 2  # in a row, after which a server is left alone


class ServedEmbedder:
    """An :class:`~tabane.search.embedding.embedder.Embedder` over HTTP. Made by :meth:`open`."""

    def __init__(self, recipe: Recipe, service: EmbeddingService, fetcher: HttpFetcher) -> None:
        self.recipe = recipe
        self.dimension = 0
        self._service, self._fetcher = service, fetcher
        self._pace = RequestPace(_TEXTS, _UNDER_WAY, service.timeout)
        self._urgent = asyncio.Semaphore(_UNDER_WAY)
        self._sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self._clock: Callable[[], float] = time.monotonic

    @classmethod
    async def open(cls, recipe: Recipe, service: EmbeddingService) -> ServedEmbedder:
        """Ask the server for one vector, whose dimension all others must have. Raises as embed does."""
        from tabane.net.fetching import bearer, environment_fetcher

        fetcher = environment_fetcher(os.environ, bearer(service.key))
        embedder = cls(recipe, service, fetcher)
        try:
            embedder.dimension = len((await embedder.embed(["a"], "query"))[0]) // 4
        except BaseException:
            fetcher.close()
            raise
        return embedder

    @property
    def fingerprint(self) -> str:
        """Return the name of everything that vectors depend on."""
        return self.recipe.fingerprint(self.dimension)

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        """Return one vector for each text.

        Raises ModelUnavailable if the server does not answer after all attempts, ModelError if it refuses the
        request, or does not return one vector of this dimension for each text.
        """
        if kind == "query":
            prefix = self.recipe.prefix(kind)
            try:
                async with self._urgent:
                    return await self._vectors([prefix + clean(text) for text in texts])
            except _BatchRefused as refused:
                raise refused.error from None
        return await collect_vectors(self, texts, kind)

    async def embed_parts(self, texts: Sequence[str], take: Take, kind: Kind = "document") -> None:
        """Embed texts, and call ``take`` after each request.

        Raises as :meth:`embed`. A text that the server cannot embed does not keep it from embedding the
        others; after two failures in a row, no other request is begun.
        """
        prefix = self.recipe.prefix(kind)
        prepared = [prefix + clean(text) for text in texts]
        work = _WaitingTexts(prepared)

        async def requests() -> None:
            while work.goes_on:
                try:
                    await self._next(work, take)
                except ModelError as error:
                    work.failed(error)

        await together(requests() for _ in range(min(_UNDER_WAY, len(prepared))))
        if work.error is not None:
            raise work.error

    async def close(self) -> None:
        """Close the connections to the server."""
        self._fetcher.close()

    async def _next(self, work: _WaitingTexts, take: Take) -> None:
        """Embed as many of the waiting texts as a request may have; put them back if they are too many."""
        async with self._pace.request():
            part = work.take(self._pace.texts)
            if not part:
                return
            texts = [work.texts[position] for position in part]
            try:
                vectors = await self._vectors(texts, paced=True)
            except _BatchTooSlow:
                self._pace.timed_out(len(part))
                work.put_back(part)
                return
            except _BatchRefused as refused:
                if len(part) == 1:
                    raise refused.error from None
                half = len(part) // 2
                work.put_back(part[:half], part[half:])
                return
        work.in_a_row = 0
        await take(part, vectors)

    async def _vectors(self, texts: Sequence[str], *, paced: bool = False) -> list[bytes]:
        """Return the vectors of one request. ``paced``: learn from the answer, and raise _BatchTooSlow."""
        reason, wait = "", 0.0
        # A server that let several larger requests time out already is not asked as often again.
        attempts = max(1, self._service.attempts - (self._pace.unanswered if paced else 0))
        for attempt in range(attempts):
            if attempt:
                await self._sleep(wait)
            wait = min(self._service.pause * 2**attempt, self._service.longest_pause)
            began = self._clock()
            reason, pause, body = await self._try(texts, paced and len(texts) > 1)
            if body is not None:
                if paced:
                    self._pace.answered(len(texts), self._clock() - began)
                return await asyncio.to_thread(self._read, body, len(texts))
            if paced:
                self._pace.declined()
            wait = min(max(wait, pause), self._service.longest_pause)
        raise ModelUnavailable(
            say(
                "The embedding server at {url} does not respond: {reason}.",
                url=self._service.url,
                reason=reason,
            )
        )

    async def _try(self, texts: Sequence[str], divisible: bool) -> tuple[str, float, bytes | None]:
        """Return why there is no answer, the seconds that the server asks to wait, and the answer.

        Raises _BatchTooSlow for a timeout if the texts are ``divisible``.
        """
        url = f"{self._service.url.rstrip('/')}/embeddings"
        wanted = {"model": self.recipe.model, "input": list(texts), "encoding_format": "float"}
        try:
            answer = await self._fetcher.fetch(
                url,
                limit=_LONGEST_ANSWER,
                seconds=self._service.timeout,
                form=msgspec.json.encode(wanted),
                shown=_SHOWN,
                packed=True,
                redirects=True,
            )
        except ResponseTooLong:
            raise self._wrong(f"more than {_LONGEST_ANSWER} bytes") from None
        except TimeoutError as error:
            if divisible:
                raise _BatchTooSlow from None  # not of the connection, which fewer texts do not hasten
            return type(error).__name__, 0, None
        except HttpFailure as failure:
            return str(failure.problem), 0, None
        except UpstreamError as error:
            return str(error), 0, None
        if answer.status == 200:
            return "", 0, answer.body
        if divisible and answer.status in _SLOW:
            raise _BatchTooSlow
        return self._declined(answer, texts)

    def _declined(self, answer: Fetched, texts: Sequence[str]) -> tuple[str, float, None]:
        if answer.status == 413:
            raise _BatchRefused(
                ModelError(
                    say(
                        "The embedding server does not accept a text of {size} {size:character|characters}.",
                        size=max(map(len, texts)),
                    )
                )
            )
        if answer.status in AGAIN:
            return f"HTTP {answer.status}", asked_pause(answer.headers), None
        said = answer.body.decode("utf-8", "replace")[:300]
        error = ModelError(
            say(
                "The embedding server at {url} refused the request (HTTP {status}): {reason}",
                url=self._service.url,
                status=answer.status,
                reason=said,
            )
        )
        raise _BatchRefused(error) if answer.status in _OF_A_TEXT else error

    def _read(self, body: bytes, count: int) -> list[bytes]:
        try:
            vectors = msgspec.json.decode(body, type=_EmbeddingsResponse).data
        except msgspec.DecodeError as error:
            raise self._wrong(str(error)) from None
        vectors.sort(key=lambda vector: vector.index)
        if [vector.index for vector in vectors] != list(range(count)):
            raise self._wrong(f"{len(vectors)} vectors for {count} texts")
        return [self._unit(vector.embedding) for vector in vectors]

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


class _WaitingTexts:
    """Positions of texts that have no vector yet, in parts that may be requested together; longest first."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.error: ModelError | None = None
        self.in_a_row = 0
        positions = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
        self._parts = deque([positions] if positions else [])

    @property
    def goes_on(self) -> bool:
        return bool(self._parts) and self.in_a_row < _FAILURES

    def take(self, most: int) -> list[int]:
        """Take the texts of the next request: at most ``most``, and not too many characters."""
        if not self.goes_on:
            return []
        part, room, count = self._parts.popleft(), _CHARACTERS, 0
        while count < min(most, len(part)) and (not count or len(self.texts[part[count]]) <= room):
            room -= len(self.texts[part[count]])
            count += 1
        if count < len(part):
            self._parts.appendleft(part[count:])
        return part[:count]

    def put_back(self, *parts: list[int]) -> None:
        self._parts.extendleft(reversed(parts))

    def failed(self, error: ModelError) -> None:
        self.error = self.error or error
        self.in_a_row += 1
