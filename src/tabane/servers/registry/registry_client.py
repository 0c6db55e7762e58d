"""Requests to a registry's API, bounded in bytes and time. Kept answers are used if it is unreachable."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tabane.errors import ConfigurationError, UpstreamError, UpstreamUnavailable
from tabane.messages import Message, say
from tabane.net.target import Target, is_loopback
from tabane.servers.registry.answer_cache import AnswerCache
from tabane.servers.server import MAX_CONCURRENCY, is_web
from tabane.wire.json import InvalidJson, decode

if TYPE_CHECKING:
    from tabane.net.http_client import UpstreamHttpClient

LARGEST_ANSWER = 4 << 20
"""Bytes of one answer."""

PATIENCE = 20.0
"""Seconds for one request, from the connection to the last byte."""

OFF = "off"
"""Setting of the address if no registry may be asked."""

NOT_FOUND = 404
_UNCHANGED = 304
_OK = 200


@dataclass(frozen=True, slots=True)
class RegistryAnswer:
    """A decoded answer. ``problem`` is why a kept answer of that ``age`` (seconds) is given instead."""

    value: Any
    age: float = 0.0
    problem: Message | None = None


class RegistryUnavailable(UpstreamUnavailable):
    """The registry cannot be asked, and there is no kept answer."""


class RegistryNotFound(UpstreamError):
    """The registry has nothing at that address."""


def checked_address(url: str) -> str:
    """Return the address of a registry without a final slash. Raises ConfigurationError.

    What a registry answers is run, so it is asked over TLS, or on this computer.
    """
    if url.strip() in ("", OFF):
        raise ConfigurationError(say("The registry is turned off by the setting registry_url."))
    from urllib.parse import urlsplit

    parts = urlsplit(url) if is_web(url) else None
    if parts is None or parts.query or parts.fragment:
        raise ConfigurationError(say("The setting registry_url must be the https:// address of a registry."))
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ConfigurationError(
            say("The setting registry_url must begin with https://, because its servers are run here.")
        )
    return url.rstrip("/")


class RegistryClient:
    """Asks one registry. Made by :func:`registry_client`, inside the running loop."""

    def __init__(
        self, address: str, host: str, client: UpstreamHttpClient, cache: AnswerCache, patience: float
    ) -> None:
        self._patience = patience
        self._address, self._client, self._cache = address, client, cache
        self.host = host

    async def get(self, path: str, query: Mapping[str, str]) -> RegistryAnswer:
        """Return the answer to a request. ``path`` begins with a slash and is quoted.

        Raises RegistryNotFound and RegistryUnavailable.
        """
        from urllib.parse import urlencode

        url = self._address + path + (f"?{urlencode(query)}" if query else "")
        kept = await asyncio.to_thread(self._cache.get, url)
        if kept is not None and kept.is_fresh:
            with contextlib.suppress(InvalidJson):
                return RegistryAnswer(await _decoded(kept.body), kept.age)
        try:
            body, etag = await self._fetch(url, kept.etag if kept else "")
            if body is None and kept is not None:
                body, etag = kept.body, kept.etag
            value = await _decoded(body or b"")
        except InvalidJson:
            problem = say("{host} answers with something else than JSON.", host=self.host)
        except _NoAnswer as failure:
            problem = failure.problem
        else:
            await asyncio.to_thread(self._cache.put, url, body or b"", etag)
            return RegistryAnswer(value)
        if kept is not None:
            with contextlib.suppress(InvalidJson):
                return RegistryAnswer(await _decoded(kept.body), kept.age, problem)
        raise RegistryUnavailable(say("The registry cannot be asked: {problem}", problem=problem))

    async def _fetch(self, url: str, etag: str) -> tuple[bytes | None, str]:
        """Return body and ETag; None as body if it has not changed. Raises _NoAnswer, RegistryNotFound."""
        from yarl import URL

        from tabane.net.http_faults import HttpConnectionBroken, HttpUnreachable
        from tabane.net.http_responses import ResponseTooLong, body

        headers = {"Accept": "application/json"} | ({"If-None-Match": etag} if etag else {})
        try:
            async with asyncio.timeout(self._patience):
                response = await self._client.send("GET", headers, url=URL(url, encoded=True))
                try:
                    if response.status == _UNCHANGED and etag:
                        return None, etag
                    if response.status == NOT_FOUND:
                        raise RegistryNotFound(say("{host} does not have it.", host=self.host))
                    if response.status != _OK:
                        raise _NoAnswer(
                            say("{host} answers with HTTP {status}.", host=self.host, status=response.status)
                        )
                    return await body(response, LARGEST_ANSWER), response.headers.get("ETag", "")[:200]
                finally:
                    response.close()
        except TimeoutError:
            problem = say(
                "{host} gave no answer within {seconds:g} s.", host=self.host, seconds=self._patience
            )
        except ResponseTooLong:
            problem = say("the answer of {host} is longer than {limit} MiB.",
                          host=self.host, limit=LARGEST_ANSWER >> 20)  # fmt: skip
        except HttpUnreachable as error:
            problem = self._untrusted() if error.untrusted else error.problem
        except HttpConnectionBroken as error:
            problem = error.problem
        except UpstreamUnavailable as error:
            problem = error.message
        raise _NoAnswer(problem)

    def _untrusted(self) -> Message:
        return say(
            "the certificate of {host} is not trusted. If your own authority signed it, set SSL_CERT_FILE "
            "to its PEM file.",
            host=self.host,
        )


class _NoAnswer(Exception):
    def __init__(self, problem: Message) -> None:
        super().__init__(problem)
        self.problem = problem


async def _decoded(body: bytes) -> Any:
    # Megabytes of hostile JSON take tens of milliseconds.
    return await asyncio.to_thread(decode, body)


@contextlib.asynccontextmanager
async def registry_client(
    address: str, environment: Mapping[str, str], cache: AnswerCache, patience: float
) -> AsyncIterator[RegistryClient]:
    """Connect to a registry: with the proxies and the authorities of the environment, for the block.

    Raises ConfigurationError and UpstreamUnavailable.
    """
    address = checked_address(address)
    # On first use: this imports the HTTP client.
    from tabane.net.http_client import UpstreamHttpClient

    client = UpstreamHttpClient(Target("registry", address, MAX_CONCURRENCY), environment)
    try:
        plain = str(client.url.with_user(None).with_password(None)).rstrip("/")
        yield RegistryClient(plain, client.url.host or "", client, cache, patience)
    finally:
        await client.close()
