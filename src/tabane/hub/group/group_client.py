"""HTTP client towards the other hubs of a group: one request is passed on, and its response streamed back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from tabane.group.membership import HubGroup
from tabane.group.signatures import ForwardedRequest, body_digest, signed
from tabane.group.state import GroupMember
from tabane.hub.http.request import HeaderList, HttpReply, HttpRequest, RequesterGone, refusal
from tabane.wire.http import accepted
from tabane.wire.trace_context import TRACEPARENT, TRACESTATE

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

log = logging.getLogger(__name__)

FORWARDED = "tabane-forwarded"
"""The header with the signature of a request that another hub of the group has checked."""

MOVED = "tabane-moved"
"""The header of the answer of a hub that does not have what a request is for any more."""

MOST = 4096
"""Requests that are passed on at the same time."""

CONNECT_TIMEOUT = 3.0
QUIET = 45.0
"""Seconds that a stream may be silent: hubs send a comment after 15."""

KEEP_ALIVE = 30.0
"""Seconds that an idle connection is kept: less than the 75 after which a hub closes it."""

WHOLE = 64 << 10
"""Bytes of a response up to which it is read before it is sent on."""

Outcome = Literal["answered", "unreachable", "moved"]

_PASSED = frozenset(
    (
        "accept",
        "accept-language",
        "authorization",
        "content-type",
        "last-event-id",
        TRACEPARENT,
        TRACESTATE,
    )
)
_RETURNED = frozenset((b"content-type", b"cache-control", b"mcp-session-id", b"retry-after", b"allow"))


def signed_headers(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the headers that another hub needs. The signature covers them."""
    for name, value in pairs:
        if name in _PASSED or name.startswith("mcp-"):
            yield name, value


def _passed_headers(request: HttpRequest) -> Iterator[tuple[str, str]]:
    """Yield those of a request. Of credentials, only an access token of OAuth is passed on: it says what its
    holder may do.
    """
    token = request.access is not None and request.access.holder.startswith("oauth:")
    return (pair for pair in signed_headers(request.pairs) if token or pair[0] != "authorization")


class GroupClient:
    """Passes requests on. Made inside the running loop; its connections are kept between requests."""

    def __init__(self, group: HubGroup) -> None:
        self._group = group
        self._session: ClientSession | None = None
        self._open = 0

    async def pass_on(self, request: HttpRequest, member: GroupMember, body: bytes) -> Outcome:
        """Answer a request with the response of another hub, unless that one cannot be reached, or does not
        have what the request is for: then nothing was done. Raises RefusedRequest and RequesterGone.
        """
        if self._open >= MOST:
            raise refusal(503, "too many requests are passed on to other hubs", (b"retry-after", b"1"))
        self._open += 1
        work = asyncio.ensure_future(self._answered(request, member, body))
        request.line.on_lost = _canceller(work)
        try:
            return await work
        except asyncio.CancelledError:
            if work.cancelled():
                raise RequesterGone from None
            work.cancel()
            raise
        finally:
            self._open -= 1
            request.line.on_lost = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _answered(self, request: HttpRequest, member: GroupMember, body: bytes) -> Outcome:
        from aiohttp import ClientConnectorError, ClientError, ConnectionTimeoutError

        try:
            response = await self._sent(request, member, body)
        except (ClientConnectorError, ConnectionTimeoutError):
            return "unreachable"
        except (ClientError, TimeoutError) as error:
            raise _broken(member, error) from None
        async with response:
            if MOVED in response.headers:
                return "moved"
            try:
                await _return(request, response)
            except (ClientError, TimeoutError) as error:
                if not request.status:
                    raise _broken(member, error) from None
                request.line.transport.abort()  # the client sees that its response is not complete
                raise RequesterGone from None
        return "answered"

    async def _sent(self, request: HttpRequest, member: GroupMember, body: bytes) -> ClientResponse:
        from aiohttp import ClientTimeout
        from multidict import CIMultiDict
        from yarl import URL

        if self._session is None:
            self._session = client_session()
        headers = list(_passed_headers(request))
        signature = self._signature(request, member, headers, body)
        streams = accepted(request.headers.get("accept")).events
        return await self._session.request(
            request.method,
            URL(member.address + request.raw_path, encoded=True),
            data=body or None,
            headers=CIMultiDict([*headers, (FORWARDED, signature)]),
            allow_redirects=False,
            timeout=ClientTimeout(
                total=None, sock_connect=CONNECT_TIMEOUT, sock_read=QUIET if streams else None
            ),
        )

    def _signature(
        self, request: HttpRequest, member: GroupMember, headers: list[tuple[str, str]], body: bytes
    ) -> str:
        group, access = self._group, request.access
        assert access is not None  # identified before
        said = ForwardedRequest(
            group.me.id,
            member.id,
            group.next_number(),
            group.now,
            access.holder,
            request.page,
            body_digest(body),
        )
        return signed(group.key, said, request.method, request.raw_path, headers)


def client_session() -> ClientSession:
    """Return a client for requests to other hubs, which adds no headers that a signature would miss."""
    from aiohttp import ClientSession, DummyCookieJar, TCPConnector

    return ClientSession(
        connector=TCPConnector(limit=MOST, keepalive_timeout=KEEP_ALIVE),
        cookie_jar=DummyCookieJar(),
        skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        auto_decompress=False,
    )


async def _return(request: HttpRequest, response: ClientResponse) -> None:
    """Send the response of another hub to the client as it comes."""
    headers: HeaderList = [
        (name.lower(), value) for name, value in response.raw_headers if name.lower() in _RETURNED
    ]
    length = response.content_length
    if response.status == 204 or (length is not None and length <= WHOLE):
        await request.reply(HttpReply(response.status, await response.read(), headers))
        return
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    await request.start(response.status, [*headers, *request.extra])
    async for chunk in response.content.iter_any():
        await request.send(chunk, more=True)
    await request.send(b"", more=False)


def _broken(member: GroupMember, error: BaseException) -> Exception:
    log.warning("hub %s at %s did not answer: %s", member.id, member.address, error or type(error).__name__)
    text = "The hub that works on this request has gone. It is not known whether the request took effect."
    return refusal(502, text)


def _canceller(work: asyncio.Future[Outcome]) -> Callable[[], None]:
    def cancel() -> None:
        work.cancel()

    return cancel
