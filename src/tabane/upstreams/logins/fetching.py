"""HTTP requests of logins: within limits of time and bytes, and only to places that a server may name.

A server names the addresses of its metadata and of its authorization server. So these requests use HTTPS, and
go to public addresses: a server on the internet must not make the hub ask the network around it. A server on
this computer or in a private network may name others there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from tabane.errors import TabaneError
from tabane.messages import Message, say
from tabane.net.fetching import HttpFetcher
from tabane.net.http_failures import HttpFailure, ResponseTooLong
from tabane.net.routes import context, environment_proxy
from tabane.net.target import is_loopback
from tabane.servers.server import Server, target_of
from tabane.upstreams.logins.login_book import LoginNetwork
from tabane.upstreams.logins.metadata import is_safe, origin_of
from tabane.upstreams.logins.oauth_messages import import_library

if TYPE_CHECKING:
    from ssl import SSLContext


TIMEOUT = 15.0
"""Seconds for one request, from the name of the host to the end of the answer."""

LARGEST = 128 << 10
"""Bytes of an answer."""

_READ = frozenset((*range(200, 300), *range(400, 600)))
"""Statuses whose bodies are read: errors of OAuth are in bodies too."""


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
        self._fetcher: HttpFetcher | None = None
        self._private = self.loopback

    async def __aenter__(self) -> LoginHttp:
        await asyncio.to_thread(import_library)
        self._private = await self._is_private()
        self._fetcher = HttpFetcher(
            self._tls, self._proxy, policy=self._refuse_host, headers={"Accept": "application/json"}
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._fetcher is not None:
            self._fetcher.close()

    def _tls(self) -> SSLContext:
        return context(target_of(self._server)._replace(cert=None, key=None), self._network.environment)

    async def get(self, url: str) -> LoginAnswer:
        """Return the answer to a request for metadata. Raises LoginRequestFailed.

        Redirects within the origin are followed.
        """
        return await self._send(url, {}, redirects=True)

    async def look(self, url: str) -> LoginAnswer:
        """Return status and challenges of the answer to a request without credentials, not its body."""
        headers = {"Accept": "application/json, text/event-stream"}
        return await self._send(url, headers, wanted=(), own=True)

    async def post(self, url: str, form: str, headers: Mapping[str, str]) -> LoginAnswer:
        """Send a form, and return the answer. Redirects are not followed. Raises LoginRequestFailed."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        return await self._send(url, headers, form.encode())

    async def post_json(self, url: str, document: Mapping[str, Any]) -> LoginAnswer:
        """Send a document, and return the answer as :meth:`post` does."""
        headers = {"Content-Type": "application/json"}
        return await self._send(url, headers, msgspec.json.encode(document))

    async def _send(
        self,
        url: str,
        headers: Mapping[str, str],
        form: bytes | None = None,
        wanted: Container[int] = _READ,
        *,
        redirects: bool = False,
        own: bool = False,
    ) -> LoginAnswer:
        place = origin_of(url)
        if not own:
            self._check(url)
        assert self._fetcher is not None
        try:
            found = await self._fetcher.fetch(
                url,
                limit=LARGEST,
                seconds=TIMEOUT,
                headers=headers,
                form=form,
                wanted=wanted,
                redirects=redirects,
            )
        except TimeoutError:
            raise LoginRequestFailed(
                say("{place} did not answer within {seconds:g} s", place=place, seconds=TIMEOUT)
            ) from None
        except ResponseTooLong:
            why = say("answers with more than {limit} KiB", limit=LARGEST >> 10)
            raise LoginRequestFailed(say("{place} {why}", place=place, why=why)) from None
        except HttpFailure as failure:
            raise LoginRequestFailed(failure.problem) from None
        except TabaneError as error:
            raise LoginRequestFailed(error.message) from None
        except ValueError:
            raise LoginRequestFailed(say("the URL cannot be used")) from None
        challenges = tuple(found.headers.getall("WWW-Authenticate", ()))
        return LoginAnswer(found.status, _document(found.body), challenges)

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

    def _refuse_host(self, host: str, address: str) -> Message | None:
        why = self._refuse(host, address)
        return None if why is None else _refused(host, why)

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
        if is_loopback(urlsplit(url).hostname or ""):
            return None
        return self._server.proxy or environment_proxy(url, self._network.environment)


def _refused(host: str, why: Message) -> Message:
    return say(
        "{host} is not asked, because its address is not public ({why}) and that of the server is",
        host=host[:200],
        why=why,
    )


def _document(body: bytes) -> Mapping[str, Any]:
    """Return the object in a body; empty if it is none."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
