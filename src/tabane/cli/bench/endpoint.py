"""A model behind an OpenAI-compatible chat completions endpoint with calls of tools.

A request that may succeed later (no connection, 408, 429, 5xx) is repeated after a pause that doubles, or
after the time that the server asks for with Retry-After.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from tabane.cli.bench.transcripts import Message, ModelAnswer
from tabane.errors import ModelError, ModelUnavailable
from tabane.messages import say
from tabane.search.embedding.answer_body import bounded_body
from tabane.search.embedding.patience import AGAIN, asked_pause
from tabane.wire import json

if TYPE_CHECKING:
    import aiohttp

_LONGEST_ANSWER = 8 << 20  # bytes
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class ChatService:
    """``url`` ends before ``/chat/completions``; ``key`` is sent as a bearer token.

    ``timeout`` is the seconds for one request, ``attempts`` the number of tries, ``pause`` the seconds after
    the first, ``longest_pause`` the longest pause, also if the server asks for more. ``most_tokens`` is the
    limit of one answer.
    """

    url: str
    model: str
    key: str | None = None
    timeout: float = 120.0
    attempts: int = 5
    pause: float = 0.5
    longest_pause: float = 60.0
    most_tokens: int = 2048

    def __repr__(self) -> str:
        return f"ChatService({self.shown!r}, {self.model!r})"  # without the key

    @property
    def shown(self) -> str:
        """Return the URL without what may be secret: user, password and query."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class ChatEndpoint:
    """Asks a service, one request after the other, while the block runs."""

    def __init__(self, service: ChatService) -> None:
        self._service = service
        self._limit = "max_tokens"
        self._session: aiohttp.ClientSession | None = None
        self._runner = asyncio.Runner()

    def __enter__(self) -> ChatEndpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            self._runner.run(self._session.close())
        self._runner.close()

    def answer(self, task: str, messages: Sequence[Message], tools: Sequence[Message]) -> ModelAnswer:
        """Return the next message of the model.

        Raises ModelUnavailable if the server does not answer after all attempts, ModelError if it refuses the
        request or its answer is not valid.
        """
        return self._runner.run(self._answer(messages, tools))

    async def _answer(self, messages: Sequence[Message], tools: Sequence[Message]) -> ModelAnswer:
        reason, wait = "", 0.0
        for attempt in range(self._service.attempts):
            if attempt:
                await asyncio.sleep(wait)
            wait = min(self._service.pause * 2**attempt, self._service.longest_pause)
            reason, asked, body = await self._try(messages, tools)
            if body is not None:
                return self._read(body)
            wait = min(max(wait, asked), self._service.longest_pause)
        raise ModelUnavailable(
            say("The model at {url} does not respond: {reason}.", url=self._service.shown, reason=reason)
        )

    async def _try(
        self, messages: Sequence[Message], tools: Sequence[Message]
    ) -> tuple[str, float, bytes | None]:
        """Return why there is no answer, the seconds that the server asks to wait, and the answer."""
        import aiohttp

        wanted = {
            "model": self._service.model,
            "messages": list(messages),
            "tools": list(tools),
            self._limit: self._service.most_tokens,
            "stream": False,
        }
        url = f"{self._service.url.rstrip('/')}/chat/completions"
        try:
            async with self._opened().post(
                url, data=json.encode(wanted), headers={"Content-Type": "application/json"}
            ) as answer:
                body = await self._body(answer)
                if answer.status == 200:
                    return "", 0, body
                return self._declined(answer, body)
        except (aiohttp.ClientError, TimeoutError) as error:
            return str(error) or type(error).__name__, 0, None

    def _declined(self, answer: aiohttp.ClientResponse, body: bytes) -> tuple[str, float, None]:
        if answer.status in AGAIN:
            return f"HTTP {answer.status}", asked_pause(answer.headers), None
        if answer.status == 400 and self._limit == "max_tokens" and b"max_completion_tokens" in body:
            self._limit = "max_completion_tokens"  # newer models of OpenAI refuse the older name
            return f"HTTP {answer.status}", 0, None
        raise ModelError(
            say(
                "The model at {url} refused the request (HTTP {status}): {reason}",
                url=self._service.shown,
                status=answer.status,
                reason=body.decode("utf-8", "replace")[:_LONGEST_REASON],
            )
        )

    async def _body(self, answer: aiohttp.ClientResponse) -> bytes:
        body = await bounded_body(answer, _LONGEST_ANSWER)
        if body is None:
            raise self._wrong(f"more than {_LONGEST_ANSWER} bytes")
        return body

    def _read(self, body: bytes) -> ModelAnswer:
        try:
            answer: Any = json.decode(body)
            message = answer["choices"][0]["message"]
            usage = answer.get("usage") or {}
        except (json.InvalidJson, LookupError, TypeError, AttributeError) as error:
            raise self._wrong(str(error) or type(error).__name__) from None
        if not isinstance(message, dict):
            raise self._wrong("choices[0].message is not an object")
        total = usage.get("total_tokens") if isinstance(usage, dict) else None
        return ModelAnswer(message, total if isinstance(total, int) else None)

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            service = self._service
            headers = {"Authorization": f"Bearer {service.key}"} if service.key else {}
            limits = aiohttp.ClientTimeout(total=service.timeout, sock_connect=min(service.timeout, 10))
            self._session = aiohttp.ClientSession(headers=headers, timeout=limits, trust_env=True)
        return self._session

    def _wrong(self, reason: str) -> ModelError:
        return ModelError(
            say(
                "The model at {url} sent a response that is not valid: {reason}.",
                url=self._service.shown,
                reason=reason,
            )
        )
