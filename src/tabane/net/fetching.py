"""Requests whose whole answer is wanted: within limits of time and bytes, to origins that may be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from yarl import URL

from tabane import __version__
from tabane.messages import say
from tabane.net.http_connections import HttpConnections, HttpResponse
from tabane.net.http_failures import HttpConnectionBroken, HttpFailure, HttpUnreachable
from tabane.net.http_responses import body as whole_body
from tabane.net.routes import (
    REDIRECTS,
    UNCHANGED,
    AddressPolicy,
    Route,
    basic_authorization,
    context,
    environment_proxy,
    is_same_origin,
    origin_text,
    parse_proxy,
    redirect_url,
)
from tabane.net.target import Target

if TYPE_CHECKING:
    from ssl import SSLContext

    from multidict import CIMultiDict

MOST_CONNECTIONS = 16
"""Connections to one origin."""

MOST_ORIGINS = 16
"""Origins to which connections are kept."""

MOST_REDIRECTS = 3
"""Redirects of a request that are followed, if its caller wants any to be followed."""

_OK = frozenset((200,))
_NONE: Mapping[str, str] = MappingProxyType({})


class Fetched(NamedTuple):
    """An answer. ``body`` is whole if its status was wanted, else its beginning."""

    status: int
    headers: CIMultiDict[str]
    body: bytes


class HttpFetcher:
    """Fetches answers over kept connections, without cookies.

    ``tls`` makes the TLS context; it is called in a thread, with the first https:// URL. ``proxy_of`` returns
    the URL of the proxy for a URL, None if its host is asked directly; then ``policy`` judges its addresses.
    ``headers`` go with each request. To be used inside one running loop.
    """

    def __init__(
        self,
        tls: Callable[[], SSLContext],
        proxy_of: Callable[[str], str | None],
        *,
        policy: AddressPolicy | None = None,
        headers: Mapping[str, str] = _NONE,
    ) -> None:
        self._make_context, self._proxy_of, self._policy = tls, proxy_of, policy
        self._headers = {"User-Agent": f"tabane/{__version__}", **headers}
        self._context: SSLContext | None = None
        self._origins: dict[tuple[URL, URL | None], HttpConnections] = {}
        self._closed = False

    async def fetch(
        self,
        url: str,
        *,
        limit: int,
        seconds: float,
        headers: Mapping[str, str] = _NONE,
        form: bytes | None = None,
        wanted: Container[int] = _OK,
        shown: int = 0,
        packed: bool = False,
        redirects: bool = False,
    ) -> Fetched:
        """Return the answer to a GET, or to a POST of ``form``.

        Of a status that is not ``wanted``, at most ``shown`` bytes of the body are read. ``packed`` asks for
        a compressed body, which could be far larger than on its way; ``limit`` counts the bytes that it is
        unpacked to. With ``redirects``, up to 3 are followed, within the origin. Raises TimeoutError if the
        answer takes longer than ``seconds``, :class:`~tabane.net.http_failures.ResponseTooLong`,
        HttpFailure, UpstreamError if the certificates cannot be read or a redirect cannot be parsed, and
        ValueError for a header that cannot be sent.
        """
        try:
            at = URL(url).with_fragment(None)
            if at.scheme not in ("http", "https") or not at.host:
                raise ValueError
        except ValueError:
            raise HttpUnreachable(say("the URL cannot be used")) from None
        if not packed:
            headers = {**headers, "Accept-Encoding": "identity"}
        async with asyncio.timeout(seconds):
            response = await self._follow(at, headers, form, redirects)
            whole = response.status in wanted
            coding = response.headers.get("Content-Encoding", "identity").lower()
            try:
                if coding != "identity" and not packed and (whole or shown):
                    why = say("answers with a compressed body, which was not requested")
                    raise HttpFailure(say("{place} {why}", place=at.host, why=why))
                if whole:
                    found = await whole_body(response, limit)
                else:
                    found = await _beginning(response, shown)
                return Fetched(response.status, response.headers, found)
            finally:
                response.release()

    async def _follow(
        self, at: URL, headers: Mapping[str, str], form: bytes | None, redirects: bool
    ) -> HttpResponse:
        """Return the response after redirects within the origin. Raises HttpFailure for others."""
        if at.user is not None and not any(name.lower() == "authorization" for name in headers):
            headers = {**headers, "Authorization": basic_authorization(at.user, at.password)}
        for _ in range(MOST_REDIRECTS + 1 if redirects else 1):
            connections = await self._connections(at)
            response = await connections.send(
                "GET" if form is None else "POST", at.raw_path_qs, headers, form
            )
            location = response.headers.get("Location") if response.status in REDIRECTS else None
            if location is None or not redirects or (form is not None and response.status not in UNCHANGED):
                return response
            response.release()
            target = redirect_url(at, location)
            if not is_same_origin(at, target):
                here, there = origin_text(at), origin_text(target)[:200]
                raise HttpFailure(say("{place} redirects to another site, {other}", place=here, other=there))
            at = target
        raise HttpFailure(say("{place} redirects too many times", place=origin_text(at)))

    async def _connections(self, at: URL) -> HttpConnections:
        try:
            named = self._proxy_of(str(at))
            proxy = parse_proxy(named) if named else None
        except ValueError:
            raise HttpUnreachable(
                say("the proxy URL must start with http:// or https://; other proxies are not supported.")
            ) from None
        if self._context is None and "https" in (at.scheme, proxy.scheme if proxy else ""):
            self._context = await asyncio.to_thread(self._make_context)
        if self._closed:
            raise HttpConnectionBroken(say("the connection was closed"))
        key = (at.origin(), proxy)
        found = self._origins.pop(key, None) or HttpConnections(
            at, self._headers, Route(self._tls, proxy, self._policy), most=MOST_CONNECTIONS
        )
        self._origins[key] = found
        while len(self._origins) > MOST_ORIGINS:
            self._origins.pop(next(iter(self._origins))).close_when_idle()
        return found

    def _tls(self) -> SSLContext:
        assert self._context is not None  # made before the first connection that needs it
        return self._context

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        for connections in self._origins.values():
            connections.close()


async def _beginning(response: HttpResponse, most: int) -> bytes:
    found = bytearray()
    with suppress(HttpConnectionBroken):  # what has arrived says enough
        while len(found) < most and (part := await response.content.readany()):
            found += part
    return bytes(found[:most])


def environment_fetcher(
    environment: Mapping[str, str], headers: Mapping[str, str], ca: str | None = None
) -> HttpFetcher:
    """Return a fetcher with the proxies of the environment, its authorities, and those in the file ``ca``."""
    return HttpFetcher(
        lambda: context(Target("", "", 0, ca=ca), environment),
        lambda url: environment_proxy(url, environment),
        headers=headers,
    )


def bearer(key: str | None) -> dict[str, str]:
    """Return the headers of JSON for a service that takes ``key`` as a bearer token."""
    return {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
