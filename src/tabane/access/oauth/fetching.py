"""Requests to the authorization server: within limits of time and bytes, without redirects."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tabane import __version__
from tabane.settings.addresses import is_this_machine

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

MOST_CONNECTIONS = 16

_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_HEADERS = {
    "Accept": "application/json",
    # A compressed answer could be far larger than it was on its way.
    "Accept-Encoding": "identity",
    "User-Agent": f"tabane/{__version__}",
}


class FetchFailed(Exception):
    """A request that was not answered as expected. Its text is for the log. ``status`` is 0 without one."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class AuthorizationServerRequests(Protocol):
    """A request to an authorization server."""

    async def get(self, url: str, limit: int) -> bytes:
        """Return the body of an answer with status 200, of ``limit`` bytes at most. Raises FetchFailed."""
        ...

    async def post(self, url: str, form: Mapping[str, str], authorization: str, limit: int) -> bytes:
        """Send a form, and return the body as :meth:`get` does. Raises FetchFailed."""
        ...


class AuthorizationServerHttp:
    """HTTP requests to one authorization server. ``timeout`` is in seconds, for a whole request.

    ``environment`` is the hub's: it names proxies and, with ``SSL_CERT_FILE``, a bundle of authorities.
    The HTTP client is imported at the first request.
    """

    def __init__(self, timeout: float, ca: Path | None, environment: Mapping[str, str]) -> None:
        self._timeout, self._ca, self._environment = timeout, ca, environment
        self._opening: asyncio.Task[ClientSession] | None = None

    async def get(self, url: str, limit: int) -> bytes:
        """Return the body of an answer with status 200, of ``limit`` bytes at most. Raises FetchFailed."""
        return await self._send_request("GET", url, limit, {})

    async def post(self, url: str, form: Mapping[str, str], authorization: str, limit: int) -> bytes:
        """Send a form, and return the body as :meth:`get` does. Raises FetchFailed."""
        return await self._send_request(
            "POST", url, limit, {"data": form, "headers": {"Authorization": authorization}}
        )

    async def close(self) -> None:
        """Close every connection."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        await asyncio.wait([opening])
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().close()

    async def _send_request(self, method: str, url: str, limit: int, options: Mapping[str, Any]) -> bytes:
        try:
            async with asyncio.timeout(self._timeout):
                if self._opening is None or (self._opening.done() and self._opening.exception()):
                    self._opening = asyncio.ensure_future(self._open_session())
                # Shielded: one request that is given up does not end the session for the others.
                session = await asyncio.shield(self._opening)
                proxy = proxy_of(url, self._environment)
                async with session.request(
                    method, url, allow_redirects=False, proxy=proxy, **options
                ) as response:
                    return await _read_body(response, limit)
        except TimeoutError:
            raise FetchFailed(f"{_url_for_log(url)}: no answer within {self._timeout:g} s") from None
        except FetchFailed as failed:
            raise FetchFailed(f"{_url_for_log(url)}: {failed}", failed.status) from None
        except (OSError, ValueError, RuntimeError, ssl.SSLError) as error:
            raise FetchFailed(f"{_url_for_log(url)}: {_error_reason(error)}") from None
        except Exception as error:
            if not type(error).__module__.startswith("aiohttp"):
                raise
            raise FetchFailed(f"{_url_for_log(url)}: {_error_reason(error)}") from None

    async def _open_session(self) -> ClientSession:
        # The import and the reading of all authorities take noticeable time.
        aiohttp, trusted = await asyncio.to_thread(
            _import_client, self._ca, self._environment.get("SSL_CERT_FILE")
        )
        session: ClientSession = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=MOST_CONNECTIONS, ssl=trusted),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            auto_decompress=False,
        )
        return session


def proxy_of(url: str, environment: Mapping[str, str]) -> str | None:
    """Return the proxy that the environment names for a URL; None if there is none."""
    from urllib.parse import urlsplit
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    parts = urlsplit(url)
    named = {
        name.lower().removesuffix("_proxy"): value
        for name, value in environment.items()
        if name.lower() in ("http_proxy", "https_proxy", "no_proxy")
    }
    if is_this_machine(parts.hostname or "") or proxy_bypass_environment(
        f"{parts.hostname}:{parts.port or 443}", named
    ):
        return None
    return named.get(parts.scheme) or None


def _import_client(ca: Path | None, bundle: str | None) -> tuple[Any, ssl.SSLContext]:
    import aiohttp

    trusted = ssl.create_default_context()
    files = [str(path) for path in (bundle, ca) if path]
    if not trusted.cert_store_stats()["x509_ca"]:
        # A Python that was built elsewhere does not know where this system keeps them.
        files += [path for path in _BUNDLES if os.path.exists(path)][:1]
    for path in files:
        trusted.load_verify_locations(cafile=path)
    return aiohttp, trusted


async def _read_body(response: ClientResponse, limit: int) -> bytes:
    """Return the body. Raises FetchFailed for another status than 200, and for too many bytes."""
    if response.status != 200:
        what = "redirects, which is refused" if 300 <= response.status < 400 else "answers"
        raise FetchFailed(f"the server {what} with status {response.status}", response.status)
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise FetchFailed("the server answers with a compressed body, which was not asked for")
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_chunked(1 << 14):
        size += len(part)
        if size > limit:
            raise FetchFailed(f"the answer has more than {limit} bytes")
        parts.append(part)
    return b"".join(parts)


def _url_for_log(url: str) -> str:
    """Return a URL without what may be secret in it."""
    return url.partition("?")[0].partition("#")[0]


def _error_reason(error: Exception) -> str:
    # The text of some errors quotes the whole URL, their message does not.
    text = " ".join(str(getattr(error, "message", "") or error).split())
    return text.partition("://")[0][:200] or type(error).__name__
