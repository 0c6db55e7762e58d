"""HTTP requests of logins: within limits of time and bytes, and only to places that a server may name.

A server names the addresses of its metadata and of its authorization server. So these requests use HTTPS, and
go to public addresses: a server on the internet must not make the hub ask the network around it. A server on
this computer or in a private network may name others there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import msgspec

from tabane import __version__
from tabane.errors import TabaneError
from tabane.messages import Message, say
from tabane.net.routes import context, proxy_for
from tabane.net.target import is_loopback
from tabane.servers.server import Server, target_of
from tabane.upstreams.logins.login_book import LoginNetwork
from tabane.upstreams.logins.metadata import is_safe, origin_of
from tabane.upstreams.logins.oauth_messages import import_library

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

TIMEOUT = 15.0
"""Seconds for one request, from the name of the host to the end of the answer."""

LARGEST = 128 << 10
"""Bytes of an answer."""

MOST_REDIRECTS = 3
"""Redirects of a request for metadata. They have to stay at the same origin."""

_HEADERS = {
    "Accept": "application/json",
    # A compressed answer could be far larger than it was on its way.
    "Accept-Encoding": "identity",
    "User-Agent": f"tabane/{__version__}",
}
_REDIRECTS = frozenset((301, 302, 303, 307, 308))


class LoginRequestFailed(Exception):
    """A request that was not answered as it should be."""

    def __init__(self, why: Message) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class LoginAnswer:
    """An answer: its status, and the object in its body; empty if the body is no JSON object."""

    status: int
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)
    challenges: tuple[str, ...] = ()

    def error(self) -> str:
        """Return the code of an OAuth error; empty if there is none."""
        code = self.document.get("error")
        return code if isinstance(code, str) and len(code) < 100 and code.isprintable() else ""

    def explanation(self) -> str:
        """Return the error in words, on one line and cut; empty if there is none."""
        words = self.document.get("error_description")
        text = " ".join(words.split())[:200] if isinstance(words, str) else ""
        return text if text.isprintable() else ""


class LoginHttp:
    """Sends the requests of one login. Use it as an asynchronous context manager.

    ``server`` is the one that is logged in to: its authorities and its proxy are used, not its certificate.
    """

    def __init__(self, server: Server, network: LoginNetwork) -> None:
        self._server, self._network = server, network
        self._own = urlsplit(server.url).hostname or ""
        self._named = {self._own, urlsplit(server.login_options.issuer).hostname or ""}
        self.loopback = is_loopback(self._own)
        self._session: ClientSession | None = None
        self._private = self.loopback

    async def __aenter__(self) -> LoginHttp:
        await asyncio.to_thread(_import)
        import aiohttp

        target = target_of(self._server)._replace(cert=None, key=None)
        trusted = await asyncio.to_thread(context, target, self._network.environment)
        self._private = await self._is_private()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trusted, resolver=_resolver(self._refuse), limit=4),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            timeout=aiohttp.ClientTimeout(total=TIMEOUT),
            auto_decompress=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, url: str) -> LoginAnswer:
        """Return the answer to a request for metadata. Raises LoginRequestFailed."""
        origin = origin_of(url)
        for _ in range(MOST_REDIRECTS + 1):
            answer, location = await self._send("GET", url, {})
            if not location:
                return answer
            url = urljoin(url, location)
            if origin_of(url) != origin:
                raise LoginRequestFailed(
                    say(
                        "{place} redirects to another site, {other}", place=origin, other=origin_of(url)[:200]
                    )
                )
        raise LoginRequestFailed(say("{place} redirects too many times", place=origin))

    async def look(self, url: str) -> LoginAnswer:
        """Return status and challenges of the answer to a request without credentials, not its body."""
        async with asyncio.timeout(TIMEOUT):
            options = {"headers": {"Accept": "application/json, text/event-stream"}}
            answer, _ = await self._send("GET", url, options, read=False, own=True)
            return answer

    async def post(self, url: str, form: str, headers: Mapping[str, str]) -> LoginAnswer:
        """Send a form, and return the answer. Redirects are not followed. Raises LoginRequestFailed."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        answer, _ = await self._send("POST", url, {"data": form.encode(), "headers": headers})
        return answer

    async def post_json(self, url: str, document: Mapping[str, Any]) -> LoginAnswer:
        """Send a document, and return the answer as :meth:`post` does."""
        headers = {"Content-Type": "application/json"}
        body = msgspec.json.encode(document)
        answer, _ = await self._send("POST", url, {"data": body, "headers": headers})
        return answer

    async def _send(
        self, method: str, url: str, options: Mapping[str, Any], *, read: bool = True, own: bool = False
    ) -> tuple[LoginAnswer, str]:
        """Return the answer, and the address to which it redirects."""
        from aiohttp import ClientError

        place = origin_of(url)
        if not own:
            self._check(url)
        assert self._session is not None
        try:
            async with self._session.request(
                method, url, allow_redirects=False, proxy=self._proxy(url), **options
            ) as response:
                location = response.headers.get("Location", "") if response.status in _REDIRECTS else ""
                challenges = tuple(response.headers.getall("WWW-Authenticate", ()))
                document = await _document(response) if read and not location else {}
                return LoginAnswer(response.status, document, challenges), location[:4_000]
        except TimeoutError:
            raise LoginRequestFailed(
                say("{place} did not answer within {seconds:g} s", place=place, seconds=TIMEOUT)
            ) from None
        except _AnswerRefused as refused:
            raise LoginRequestFailed(say("{place} {why}", place=place, why=refused.why)) from None
        except (ClientError, OSError, ValueError) as error:
            raise LoginRequestFailed(_unreached(place, error)) from None

    # -- where a request may go ------------------------------------------------------------------

    def _check(self, url: str) -> None:
        if not is_safe(url, loopback=self.loopback):
            raise LoginRequestFailed(
                say("{place} is not asked, since its URL is not a safe one: HTTPS is required",
                    place=origin_of(url)[:200])
            )  # fmt: skip
        host = urlsplit(url).hostname or ""
        if (why := self._literal_fault(host)) is not None:
            raise LoginRequestFailed(_refused(host, why))

    def _literal_fault(self, host: str) -> Message | None:
        try:
            ip_address(host)
        except ValueError:
            # A name for this computer is not asked of anybody.
            return self._refuse(host, "127.0.0.1") if is_loopback(host) else None
        return self._refuse(host, host)

    def _refuse(self, host: str, address: str) -> Message | None:
        """Return why a host with that address is not asked; None if it may be."""
        if host in self._named:
            return None
        why = self._network.address_fault(address)
        if why is None:
            return None
        found = ip_address(address.partition("%")[0])
        # What answers at link-local addresses hands out a cloud machine's keys.
        unfit = found.is_link_local or (found.is_loopback and not self.loopback)
        return why if unfit or not self._private else None

    async def _is_private(self) -> bool:
        """Return whether the server itself is not on the internet. If that is unknown, it counts as there."""
        if self.loopback:
            return True
        if self._proxy(self._server.url):
            return False
        import socket

        try:
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(TIMEOUT):
                found = await loop.getaddrinfo(self._own, None, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError, UnicodeError):
            return False
        addresses = {str(entry[4][0]) for entry in found}
        return all(self._network.address_fault(address) is not None for address in addresses)

    def _proxy(self, url: str) -> str | None:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        if is_loopback(host):
            return None
        return self._server.proxy or proxy_for(parts.scheme, host, port, self._network.environment)


class _AnswerRefused(Exception):
    def __init__(self, why: Message) -> None:
        super().__init__(why)
        self.why = why


class _HostRefused(OSError):
    """A host whose address must not be asked."""

    def __init__(self, host: str, why: Message) -> None:
        super().__init__(str(why))
        self.why = _refused(host, why)


def _import() -> None:
    import aiohttp  # noqa: F401

    import_library()


def _resolver(refuse: Callable[[str, str], Message | None]) -> Any:
    """Return a resolver that knows only hosts that may be asked. Connections go to what it has checked."""
    from aiohttp.resolver import ThreadedResolver

    class GuardedResolver(ThreadedResolver):
        async def resolve(self, host: str, port: int = 0, *args: Any, **kwargs: Any) -> Any:
            found = await super().resolve(host, port, *args, **kwargs)
            allowed = [entry for entry in found if refuse(host, entry["host"]) is None]
            if not allowed and found:
                why = refuse(host, found[0]["host"]) or say("private")
                raise _HostRefused(host, why)
            return allowed

    return GuardedResolver()


def _refused(host: str, why: Message) -> Message:
    return say(
        "{host} is not asked, because its address is not public ({why}) and that of the server is",
        host=host[:200],
        why=why,
    )


def _unreached(place: str, error: Exception) -> Message:
    cause: Any = error
    while cause is not None:
        if isinstance(cause, _HostRefused):
            return cause.why
        cause = cause.__cause__ or getattr(cause, "os_error", None)
    if isinstance(error, TabaneError):
        return error.message
    detail = getattr(error, "os_error", error)
    text = " ".join(str(getattr(detail, "strerror", None) or type(detail).__name__).split())
    return say("{place} cannot be reached: {reason}", place=place, reason=text.partition("://")[0][:200])


async def _document(response: ClientResponse) -> Mapping[str, Any]:
    """Return the object in a body. Raises _AnswerRefused if the body is too long or compressed."""
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _AnswerRefused(say("answers with a compressed body, which was not requested"))
    body = bytearray()
    async for part in response.content.iter_chunked(1 << 14):
        body += part
        if len(body) > LARGEST:
            raise _AnswerRefused(say("answers with more than {limit} KiB", limit=LARGEST >> 10))
    try:
        found = msgspec.json.decode(bytes(body))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
