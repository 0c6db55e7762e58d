"""HTTP port of a hub. It listens from the start, and loads the server with the first connection.

So a hub without clients over HTTP costs only a socket. A failure (a port that is taken, a token file
that others may read) is reported, and does not keep the hub from running.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import socket
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tabane.errors import ConfigurationError, HubError, TabaneError, upgraded
from tabane.hub.clients.server_access import ProjectAccess
from tabane.hub.http.authentication import HttpIdentities, KeyFinder, ProfileShelf, only_local
from tabane.hub.hub import Hub
from tabane.hub.people.access import HubAccess
from tabane.hub.people.oauth import HubOAuth
from tabane.hub.rpc.permission import load_token, token_file
from tabane.hub.rpc.tcp_peers import refusal
from tabane.messages import Message, say
from tabane.operations import Access, OperationTable
from tabane.settings import Settings
from tabane.settings.addresses import is_loopback_host
from tabane.web.paths import SIGN_IN
from tabane.web.sessions import SignInLinks

if TYPE_CHECKING:
    from tabane.hub.http.request import HttpRequest
    from tabane.hub.http.routing import RoutingMaker
    from tabane.hub.http.sources import ExposedPeer
    from tabane.hub.http.tls import TlsFiles

log = logging.getLogger(__name__)

BACKLOG = 1024

ENDING = 2.0
"""Seconds that clients have to read what they are still sent when the hub ends."""

MOST_FILES = 16_384
"""Open files that are asked of the system."""

FILES_OF_OTHERS = 256
"""The open files that clients over HTTP leave for servers, bridges and logs."""

_SERVER = "tabane.hub.http.server"


class HttpWaits(NamedTuple):
    """Time limits for clients that send slowly, in seconds.

    ``head`` is from the first byte of a request to the end of its headers, ``body`` between two parts
    of its body; ``look`` is how often that is looked after. ``revoked`` is how often the hub looks for
    clients whose key was revoked or has expired. ``idle`` is how long a connection may be between two
    requests.
    """

    head: float = 10.0
    body: float = 30.0
    look: float = 5.0
    revoked: float = 1.0
    idle: float = 75.0


class ServerLinks(Protocol):
    """Links of other hubs to servers that this hub runs for the group."""

    def asked_by(self, request: HttpRequest) -> bool:
        """Return whether a request is for a link to a server."""
        ...

    def admit(self, request: HttpRequest) -> Any:
        """Admit a request of another hub, which is signed, to become a link. Raises RefusedRequest."""
        ...


class LoadedServer(Protocol):
    """The part of the door that is loaded with the first connection."""

    @property
    def connections(self) -> int: ...

    @property
    def busy(self) -> bool:
        """Return whether there is any client: a session, or a request that is not answered yet."""
        ...

    @property
    def exposed(self) -> Sequence[ExposedPeer]:
        """Return the peers whose requests are refused because they come without TLS."""
        ...

    async def listen(self, listening: socket.socket) -> None: ...
    def drain(self) -> None: ...
    async def idle(self) -> None: ...
    async def close(self, limit: float) -> None: ...


class HttpDoor:
    """Serves a hub over HTTP. ``problem`` says why it does not.

    ``table`` has the operations that programs may call, if those are more than the hub's own. ``identities``
    are those besides the token; without, there is the local user alone. ``server_links`` admits other
    hubs to servers that this one runs for the group.
    """

    def __init__(
        self,
        hub: Hub,
        waits: HttpWaits = HttpWaits(),  # noqa: B008  (it is frozen)
        table: OperationTable | None = None,
        identities: HttpIdentities | None = None,
        routing: RoutingMaker | None = None,
        server_links: ServerLinks | None = None,
    ) -> None:
        self.routing = routing
        """Makes what passes requests on to other hubs; None if this hub serves alone."""
        self.hub, self.loop, self.waits = hub, hub.loop, waits
        self.server_links = server_links
        self.identities = identities or HttpIdentities()
        self.tls: TlsFiles | None = None
        """The certificate of the port; None if it is served without TLS."""
        table = table or hub.table
        self.rpc = hub.door.over(table)
        """The door for calls of programs that come over TCP."""
        self.problem: Message | None = None
        self.token: str | None = None
        """The token that clients have to show; None if they need none."""
        self.port = 0
        self.refused_port: int | None = None
        """The port that should be listened at and cannot be."""
        self.used = self.loop.time()
        self._started = time.monotonic()
        self.links = SignInLinks(self.loop.time)
        """The links that sign a browser in to the web page."""
        self._listening: socket.socket | None = None
        self._closed = False
        self._server: LoadedServer | None = None
        self._loading: asyncio.Task[None] | None = None

    # -- life --------------------------------------------------------------------------------------

    def open(self) -> None:
        """Listen. Never raises: see ``problem``."""
        try:
            if self.settings.http_token:
                self.token = load_token(self.settings.home)
            self._check_reach()
            if self.settings.tls_certificate is not None:
                from tabane.hub.http.tls import TlsFiles  # only needed by a hub with TLS

                self.tls = TlsFiles(self.loop, self.settings)
            self._listening = self._bind()
        except TabaneError as error:
            self.problem = error.message
        except OSError as error:
            self.refused_port = self.settings.port
            self.problem = refusal(self.settings.host, self.settings.port, error)
        if self._listening is None:
            log.warning("%s", self.problem)
            return
        self._begin(self._listening)

    def _begin(self, listening: socket.socket) -> None:
        self.port = listening.getsockname()[1]
        self.loop.add_reader(listening, self._begin_loading)
        log.info("MCP over HTTP at %s", self.url)

    def try_port(self) -> bool:
        """Listen at the port that could not be had before. Return whether that succeeds now."""
        if self.refused_port is None or self._closed:
            return False
        try:
            self._listening = self._bind()
        except OSError:
            return False
        self.refused_port = self.problem = None
        self._begin(self._listening)
        return True

    async def look_again(self) -> None:
        """Name the process that has a refused port now. Look in a thread: there may be many processes."""
        if self.refused_port is not None:
            host = self.settings.host
            problem = await asyncio.to_thread(refusal, host, self.refused_port)
            if self.refused_port is not None:
                self.problem = problem

    async def close(self) -> None:
        """End what is open, and listen no more."""
        self._closed = True
        if self._loading:
            await asyncio.wait([self._loading])
        if self._server:
            await self._server.close(ENDING)
        elif self._listening:
            self.loop.remove_reader(self._listening)
        if self._listening:
            self._listening.close()
            self._listening = None
        if self.tls:
            self.tls.close()

    def drain(self) -> None:
        """Begin nothing new for programs: requests that come now are answered with an error."""
        if self._server:
            self._server.drain()

    async def idle(self) -> None:
        """Wait until what programs asked for was answered, and the answers taken."""
        if self._server:
            await self._server.idle()

    def touch(self) -> None:
        """Note that a client is connected, or was until now."""
        self.used = self.loop.time()

    # -- its state ---------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """Return the current settings: they follow the file while the hub runs."""
        return self.hub.settings

    @property
    def token_path(self) -> Path:
        """File with the token that clients have to show."""
        return token_file(self.settings.home)

    @property
    def url(self) -> str | None:
        """Return the URL of MCP; None if it is not served."""
        if not self._listening:
            return None
        host, scheme = self.settings.host, "https" if self.tls else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}/mcp"

    @property
    def root(self) -> str | None:
        """Return the URL of the hub as browsers see it, without a slash at the end; None if not served."""
        url = self.url
        return None if url is None else self.settings.public_url.rstrip("/") or url.removesuffix("/mcp")

    def sign_in_link(self) -> str:
        """Return a URL that signs one browser in to the web page. Raises HubError if that is not served."""
        if not self.settings.web:
            raise HubError(say("The web page is turned off by the setting web."))
        root = self.root
        if root is None:
            raise HubError(self.problem or say("The hub does not serve HTTP (the setting http)."))
        return f"{root}{SIGN_IN}#{self.links.make()}"

    @property
    def uptime(self) -> float:
        """Seconds since the hub was started."""
        return time.monotonic() - self._started

    @property
    def connections(self) -> int:
        """Number of open connections over HTTP."""
        return self._server.connections if self._server else 0

    @property
    def busy(self) -> bool:
        """Return whether there is any client: a session, or a request that is not answered yet."""
        return self._server is not None and self._server.busy

    def report(self, lang: str) -> dict[str, Any]:
        """Return what status shows: ``http`` is the URL, ``http_token`` the file, ``http_problem`` a text.

        ``http_port_refused`` is the port at which the hub cannot listen. ``http_exposed`` has the peers whose
        requests are refused because they come without TLS.
        """
        found: dict[str, Any] = {"http": self.url}
        if self.url and self.token is not None:
            found["http_token"] = str(self.token_path)
        if self.problem:
            found["http_problem"] = self.problem.render("ja" if lang == "ja" else "en")
        if self.tls and self.tls.problem:
            found["tls_problem"] = self.tls.problem.render("ja" if lang == "ja" else "en")
        if self.refused_port is not None:
            found["http_port_refused"] = self.refused_port
        if self._server and self._server.exposed:
            found["http_exposed"] = [peer._asdict() for peer in self._server.exposed]
        return found

    # -- the first connection ----------------------------------------------------------------------

    def _check_reach(self) -> None:
        """Raise ConfigurationError if others could reach the port, and nobody of them could come in."""
        if is_loopback_host(self.settings.host) or self.identities.exist():
            return
        raise ConfigurationError(
            say(
                "HTTP is not available: host is {host}, which other machines can reach, but there is no "
                "API key and no OAuth server. Create a key with tabane keys create NAME --allow PATTERN, "
                "then run tabane restart.",
                host=self.settings.host,
            )
        )

    def _bind(self) -> socket.socket:
        """Return a socket that listens. Raises OSError."""
        host, port = self.settings.host, self.settings.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Named as TCP, so that asyncio turns Nagle's algorithm off: else each answer waits 40 ms.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setblocking(False)
            # Connections of the last hub in TIME_WAIT are no reason to wait.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1" if host == "localhost" else host, port))
            listening.listen(BACKLOG)
        except OSError:
            listening.close()
            raise
        return listening

    def _begin_loading(self) -> None:
        if self._listening:
            self.loop.remove_reader(self._listening)
            self._loading = self.loop.create_task(self._load(self._listening))

    async def _load(self, listening: socket.socket) -> None:
        """Import the server in a thread, so that calls in flight do not wait for it."""
        try:
            module = await asyncio.to_thread(importlib.import_module, _SERVER)
        except ImportError as error:
            # An installation that was upgraded, broken, or taken away, since the hub started.
            old = upgraded(error)
            broken = say("HTTP is not available: {reason}. Reinstall Tabane.", reason=error)
            self.problem = old.message if old else broken
            log.exception("%s", self.problem)
            listening.close()
            self._listening = None
            return
        self._server = module.HttpServer(self.loop, self, allow_files() - FILES_OF_OTHERS)
        await self._server.listen(listening)


def allow_files() -> int:
    """Raise the limit of open files as far as is allowed and useful: each client is one. Return the limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_FILES
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


class HubIdentities(HttpIdentities):
    """Identities of one hub: its API keys, and those of its OAuth server. Attempts are in the audit log.

    Whoever opens the port sets ``door``.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.door: HttpDoor | None = None
        self._oauth = HubOAuth(hub.context, self._resource_url)
        tokens = self._oauth if self._oauth.active else None
        super().__init__(KeysOnUse(hub.access), tokens, ProfilesOnUse(hub.access))

    async def close(self) -> None:
        """Close the connection to the OAuth server."""
        await self._oauth.close()

    def resource_metadata(self) -> tuple[str, bytes] | None:
        return self._oauth.metadata()

    def exist(self) -> bool:
        if self._hub.settings.advertise:
            return True  # the keys of the group come with it
        try:
            return self._oauth.active or self._hub.access.keys.exist()
        except TabaneError:
            return False  # the file of keys cannot be used, so no key is known

    def restore(self, holder: str) -> Access | None:
        local = only_local(holder)
        if local is not None or not holder.startswith("key:"):
            return local
        try:
            found = self._hub.access.keys.with_id(holder.removeprefix("key:"))
        except TabaneError:
            return None  # the file of keys cannot be used, so no key is known
        # Whoever has a key works in no folder of this machine.
        return ProjectAccess(found, self._hub.gateway) if found else None

    def signed_in(self, holder: str, source: str) -> None:
        self._hub.audit.event("access", "sign_in", "ok", "web", holder=holder, source=source)

    def refused(self, source: str, reason: str) -> None:
        self._hub.audit.event("access", "sign_in", "refused", reason, holder="", source=source)

    def _resource_url(self) -> str:
        public = self._hub.settings.public_url.rstrip("/")
        return f"{public}/mcp" if public else (self.door.url if self.door else None) or ""


class KeysOnUse(KeyFinder):
    """The API keys of a hub. They are loaded when somebody shows one."""

    def __init__(self, access: HubAccess) -> None:
        self._access = access

    def find(self, secret: str) -> Access | None:
        return self._access.keys.find(secret)


class ProfilesOnUse(ProfileShelf):
    """The profiles of a hub. They are loaded when somebody names one."""

    def __init__(self, access: HubAccess) -> None:
        self._access = access

    def names(self) -> Collection[str]:
        """Return the names of all profiles."""
        return self._access.profiles.names()

    def narrowed(self, access: Access, name: str) -> Access:
        return self._access.profiles.narrowed(access, name)
