"""Access over HTTP: checks of host, page and identity, and the caller of a request."""

from __future__ import annotations

import logging
import math

from tabane.access.oauth.refusals import AuthorizationServerUnavailable, TokenRefused, challenge
from tabane.catalog.gateway import Gateway
from tabane.hub.clients.server_access import ProjectAccess, ServerAccess, inner_access
from tabane.hub.context import HubContext
from tabane.hub.http.authentication import (
    KEY_PREFIX,
    Authenticator,
    RefusedCredential,
    UncheckedCredential,
)
from tabane.hub.http.request import JSON_HEAD, HeaderList, HttpReply, HttpRequest, RefusedRequest, refusal
from tabane.hub.http.sources import AmbiguousOrigin, ExposedPeer, TrustedProxies, source_of
from tabane.hub.rpc.permission import LOOPBACK, LoopbackAccess, token_file
from tabane.messages import Lang, language
from tabane.operations import Caller, Face
from tabane.operations.caller import LOCAL, METRICS, Access
from tabane.settings.addresses import WILDCARDS, in_url, networks
from tabane.text.nearest_names import nearest
from tabane.web.paths import is_web_path
from tabane.wire.http import allowed_host, allowed_origin, bearer, offered, own_origin

log = logging.getLogger(__name__)

LOGIN_RETURN = "/oauth/callback"
"""Open to everybody: a return is known by its state, which only that browser has, and is used once."""

METHODS = b"GET, POST, DELETE, OPTIONS"
HEADERS = (
    b"accept, authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, "
    b"mcp-session-id"
)
"""Headers that a page may send. Mirrored arguments have own names: those that it asks for are added."""

EXPOSED = b"mcp-session-id, retry-after, www-authenticate"
PREFLIGHT_AGE = b"7200"


SUBPROTOCOL = "tabane.rpc"
TOKEN = "tabane.token."
"""The subprotocol in which a page sends the token, since it cannot set headers."""

SINGLE = ("host", "origin", "authorization", "content-type", "sec-fetch-site")
"""Headers that a request may have only once. With two, another reader could use the other one."""

GUARDS: HeaderList = [
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
"""Headers of every answer, so that no page can use it as a script, a style sheet or an image."""

HSTS = (b"strict-transport-security", b"max-age=31536000")
"""For a year, browsers use this name over HTTPS only. Sent over TLS alone, as the standard prescribes."""

HEALTH, READY = "/healthz", "/readyz"
"""Paths for load balancers, which ask without TLS."""

MOST_EXPOSED = 16
"""Peers without TLS that are remembered. The one that was quiet longest is forgotten first."""

_NO_OTHER_PAGE = (None, "none", "same-origin")


class HttpGate:
    """Checks each request first, with any path, and identifies its sender.

    There are three kinds of pages. A *listed* page (setting ``origins``) may read what is public, and needs
    a token or key for everything else. The hub's *own* page, whose origin is the host of the request, needs
    one for everything too, except at the paths of the web page: that has sessions of its own. All other pages
    are refused, except that they may link to the web page, which shows nothing before its script has run.

    A client over HTTP sees no server of a project before it has named its folders.
    """

    def __init__(
        self, context: HubContext, port: int, authenticator: Authenticator, gateway: Gateway
    ) -> None:
        self._context, self._port = context, port
        self._authenticator, self._gateway = authenticator, gateway
        self._token_path = token_file(context.home)
        self._proxies = TrustedProxies(())
        self._proxies_of: tuple[tuple[str, ...], bool] = ((), True)
        self._exposed: dict[str, ExposedPeer] = {}

    @property
    def proxies(self) -> TrustedProxies:
        """Return the proxies of the setting ``trusted_proxies``, which may change while the hub runs."""
        settings = self._context.settings
        proxy_settings = settings.trusted_proxies, settings.proxy_tls
        if proxy_settings != self._proxies_of:
            self._proxies = TrustedProxies(networks(proxy_settings[0]), plain=not settings.proxy_tls)
            # What was refused before may come in now.
            self._proxies_of, self._exposed = proxy_settings, {}
        return self._proxies

    def exposed(self) -> list[ExposedPeer]:
        """Return the peers whose requests are refused because they come without TLS."""
        return list(self._exposed.values()) if self.proxies else []

    # -- whether it may come in --------------------------------------------------------------------

    def check(self, request: HttpRequest) -> None:
        """Raise RefusedRequest: 400 for a repeated header, 421 for another host, 403 for another page.

        403 also for a request that crossed a network without TLS.
        """
        request.extra += GUARDS
        for name in SINGLE:
            if name in request.repeated:
                raise refusal(403 if name == "origin" else 400, f"{name}: a request has this header once")
        try:
            origin = self.proxies.origin(request.peer, request.tls, request.headers, request.pairs)
        except AmbiguousOrigin:
            text = "Forwarded and X-Forwarded-*: the proxy must send one of them, and remove the other"
            raise refusal(400, text) from None
        request.origin = origin
        if origin.tls:
            request.extra.append(HSTS)
        if not (origin.secure or self._is_health_check(request)):
            raise self._note_exposed(request)
        settings = self._context.settings
        names = [] if settings.host in WILDCARDS else [in_url(settings.host)]
        if settings.public_url:
            public = settings.public_url.partition("://")[2].rstrip("/").lower()
            # Clients leave the default port out, and it need not be the hub's own: a proxy may have it.
            has_port = ":" in public.rpartition("]")[2]
            names += [public] if has_port else [f"{public}:80", f"{public}:443", public]
        if not allowed_host(origin.host, self._port, [*names, *settings.hosts]):
            # The name may be an attacker's: its DNS may lead here.
            text = "Host: this hub is reached as 127.0.0.1 or localhost, or by a name in the setting hosts"
            raise refusal(421, text)
        self._check_page(request)

    @staticmethod
    def _is_health_check(request: HttpRequest) -> bool:
        """Return whether a load balancer asks, which may do so without TLS.

        A check with the headers of a forwarded request is refused as such a request is, so that the balancer
        finds out that it cannot be served here.
        """
        return request.path == HEALTH or (request.path == READY and not request.origin.claimed)

    def _note_exposed(self, request: HttpRequest) -> RefusedRequest:
        """Note a request that others could read on its way, and return its refusal."""
        peer, proxied = request.peer, request.origin.proxied
        before = self._exposed.pop(peer, None)
        self._exposed[peer] = ExposedPeer(peer, proxied, before.requests + 1 if before else 1)
        if len(self._exposed) > MOST_EXPOSED:
            del self._exposed[next(iter(self._exposed))]
        text = "this hub is used over HTTPS: what is sent without it, others can read"
        if proxied:
            text += "; this request reached the proxy without it (see the setting proxy_tls)"
        elif request.origin.claimed:
            text += f"; the proxy at {peer} is none of the setting trusted_proxies"
        return refusal(403, text)

    def _check_page(self, request: HttpRequest) -> None:
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site")
        request.page = origin is not None or site is not None
        if origin is None:
            if site not in _NO_OTHER_PAGE and not self._is_link(request):
                # An image, a script, a frame or a link: browsers send no origin for these.
                raise refusal(403, "Sec-Fetch-Site: other pages may not use this hub in that way")
            return
        listed = not self._is_web(request) and allowed_origin(origin, self._context.settings.origins)
        if not (listed or self._is_own_page(request)):
            raise refusal(
                403, "Origin: pages from there may not use this hub; the setting origins allows them"
            )
        request.extra += [
            (b"access-control-allow-origin", origin.strip().encode("latin-1")),
            (b"access-control-expose-headers", EXPOSED),
            (b"vary", b"origin"),
        ]

    def _is_own_page(self, request: HttpRequest) -> bool:
        """Return whether a page of the hub itself asks, with a token or key. The host was checked already."""
        if not own_origin(request.headers.get("origin"), request.origin.host, tls=request.origin.tls):
            return False
        if self._is_web(request):
            return True
        shown = token_in(request)
        if self._authenticator.token is None:
            return request.origin.local
        if shown is None:
            return False
        if self._known_access(shown) is not None:
            return True
        self._authenticator.attempts.note(source_of(request.origin.address), "token")
        return False

    def _is_web(self, request: HttpRequest) -> bool:
        """Return whether a request is one for the web page. A WebSocket at the same path is a program."""
        return self._context.settings.web and is_web_path(request.path) and "upgrade" not in request.headers

    def _is_link(self, request: HttpRequest) -> bool:
        """Return whether another page leads to the web page, or back from a login, in a tab of its own."""
        headers = request.headers
        opens = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return request.method == "GET" and opens and (self._is_web(request) or request.path == LOGIN_RETURN)

    # -- identity ----------------------------------------------------------------------------------

    def known(self, request: HttpRequest) -> Access | None:
        """Return whose request it is, as far as that is known without waiting. Nothing is counted."""
        shown = token_in(request)
        if self._needs_none(request, shown):
            return LOCAL
        return self._known_access(shown) if shown else None

    def _known_access(self, shown: str) -> Access | None:
        try:
            return self._authenticator.known(shown)
        except UncheckedCredential as unchecked:
            raise _refusal_unchecked(unchecked) from None

    async def identify(self, request: HttpRequest) -> Access | None:
        """Return whose request it is, and note it there; None if it shows nothing.

        Raises RefusedRequest: 401 for a value that nobody has, 429 after too many of them.
        """
        shown = token_in(request)
        if self._needs_none(request, shown):
            request.access = LOCAL
        elif shown is not None:
            try:
                source = source_of(request.origin.address)
                request.access = await self._authenticator.identify(shown, source)
            except RefusedCredential as refused:
                raise self._refusal_of(request, refused) from None
            except UncheckedCredential as unchecked:
                raise _refusal_unchecked(unchecked) from None
        return request.access

    async def require(self, request: HttpRequest) -> Access:
        """Return whose request it is. Raises RefusedRequest (401, 429) if that is not known."""
        access = await self.identify(request)
        if access is None:
            self._authenticator.attempts.missing()
            raise self._without_token(request, shown="authorization" in request.headers)
        return access

    async def trust(self, request: HttpRequest, holder: str) -> None:
        """Identify a request as another hub of the group has. Raises RefusedRequest if it has ended here."""
        if holder.startswith("oauth:"):
            # Its token came with it: the token says what its holder may do.
            if (await self.require(request)).holder != holder:
                raise self._without_token(request, shown=True)
            return
        restored = self._authenticator.identities.restore(holder)
        if restored is None:
            raise self._without_token(request, shown=True, key=holder.startswith("key:"))
        request.access = inner_access(restored)

    def enter_profile(self, request: HttpRequest, name: str) -> None:
        """Narrow an identified request to a profile.

        Raises RefusedRequest: 404 if there is none of that name.
        """
        shelf = self._authenticator.identities.profiles
        assert request.access is not None  # identified before
        names = shelf.names() if shelf else ()
        if shelf is None or name not in names:
            near = nearest(name, names)
            text = f"there is no profile {name[:64]}" + (f"; did you mean {', '.join(near)}?" if near else "")
            raise refusal(404, text)
        request.access, request.profile = shelf.narrowed(request.access, name), name

    def enter_server(self, request: HttpRequest, name: str) -> None:
        """Connect an identified request to one server alone.

        Raises RefusedRequest: 404 if there is none of that name, or the identity may not see it.
        """
        assert request.access is not None  # identified before
        if name not in self._gateway.servers or not request.access.sees_server(name):
            raise refusal(404, f"there is no server {name[:64]}; list the servers with: tabane servers list")
        request.access, request.server = ServerAccess(request.access, name), name

    def resource_metadata(self) -> bytes | None:
        """Return the OAuth metadata of the hub as a JSON document; None without OAuth."""
        found = self._authenticator.identities.resource_metadata()
        return found[1] if found else None

    def may_name(self, access: Access | None) -> bool:
        """Return whether metrics with the names of servers may be shown to an identity."""
        return access is not None and access.allows(METRICS)

    def _needs_none(self, request: HttpRequest, shown: str | None) -> bool:
        """Return whether the request is the local user's without a token, as ``http_token`` allows."""
        open_hub = self._authenticator.token is None and request.origin.local
        return open_hub and not (shown or "").startswith(KEY_PREFIX)

    def _refusal_of(self, request: HttpRequest, refused: RefusedCredential) -> RefusedRequest:
        if isinstance(refused.why, AuthorizationServerUnavailable):
            wait = b"%d" % math.ceil(refused.why.retry_after)
            return refusal(503, str(refused.why), (b"retry-after", wait))
        metadata = self._authenticator.identities.resource_metadata()
        if not refused.retry_after and metadata is not None and isinstance(refused.why, TokenRefused):
            header = (b"www-authenticate", challenge(metadata[0], refused.why).encode("latin-1", "replace"))
            return refusal(refused.why.status, str(refused.why), header)
        if not refused.retry_after:
            return self._without_token(request, shown=True, key=refused.key)
        seconds = math.ceil(refused.retry_after)
        text = f"too many attempts with a wrong key or token; try again in {seconds} s"
        return refusal(429, text, (b"retry-after", b"%d" % seconds), data={"retryAfterSeconds": seconds})

    def _without_token(self, request: HttpRequest, *, shown: bool, key: bool = False) -> RefusedRequest:
        challenge = b'Bearer realm="tabane"'
        metadata = self._authenticator.identities.resource_metadata()
        if metadata is not None:
            challenge += b', resource_metadata="%b"' % metadata[0].encode("latin-1", "replace")
        if shown:
            challenge += b', error="invalid_token"'
        header = (b"www-authenticate", challenge)
        if key:
            return refusal(401, "this API key is unknown, was revoked, or has expired", header)
        if not request.origin.local:
            return refusal(401, "a valid API key or token is needed: Authorization: Bearer", header)
        text = (
            "an API key or the token of the hub is needed: Authorization: Bearer, with the content of "
            f"{self._token_path}"
        )
        return refusal(401, text, header, data={"token": str(self._token_path)})

    def caller(self, request: HttpRequest, session: str, access: Access) -> Caller:
        """Return the caller of an MCP client over HTTP."""
        looks, access = self._only_looks(request), ProjectAccess(access, self._gateway)
        lang, server = self.language(request), request.server
        return Caller(access.holder, Face.MCP, session, lang, looks=looks, access=access, server=server)

    def program(self, request: HttpRequest, session: str, access: Access | None) -> Caller:
        """Return the caller of a program over TCP. Without an access, it is a program of this machine."""
        lang = self.language(request)
        if access is not None:
            looks, access = self._only_looks(request), ProjectAccess(access, self._gateway)
            return Caller(access.holder, Face.RPC, session, lang, looks=looks, access=access)
        if not request.origin.local:
            self._authenticator.attempts.missing()
            raise self._without_token(request, shown=False)
        ends = [request.scope.get("client"), request.scope.get("server")]

        def uid() -> int | None:
            from tabane.hub.rpc.tcp_peers import (  # only needed by a caller that stops the hub
                SocketAddress,
                uid_of_peer,
            )

            peer, own = ((SocketAddress(*end[:2]) if end and end[1] else None) for end in ends)
            return uid_of_peer(peer, own) if peer and own else None

        access = LoopbackAccess(self._context, uid, page=request.page)
        return Caller(LOOPBACK, Face.RPC, session, lang, access=access)

    def _only_looks(self, request: HttpRequest) -> bool:
        """Return whether a web page without a token asks a hub without a token: it may change nothing."""
        return request.page and self._authenticator.token is None

    def language(self, request: HttpRequest) -> Lang:
        """Return the language of an answer: that of the settings, else the one that the client prefers."""
        first = request.headers.get("accept-language", "").partition(",")[0].partition(";")[0].strip()
        return language(self._context.settings.lang, first, self._context.environment.get("LANG"))

    def preflight(self, request: HttpRequest) -> RefusedRequest:
        """Answer a browser that asks whether a page may send a request. Only listed pages are named."""
        if "origin" not in request.headers:
            return RefusedRequest(HttpReply(204, b"", [(b"allow", METHODS)]))
        allowed = HEADERS
        for name in request.headers.get("access-control-request-headers", "").lower().split(","):
            name = name.strip()
            plain = name.isascii() and all(c.isalnum() or c in "-_" for c in name)
            if plain and name.startswith("mcp-param-"):
                allowed += b", " + name.encode()
        headers: HeaderList = [
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", allowed),
            (b"access-control-max-age", PREFLIGHT_AGE),
        ]
        if request.headers.get("access-control-request-private-network") == "true":
            headers.append((b"access-control-allow-private-network", b"true"))
        return RefusedRequest(HttpReply(204, b"", headers))


def _refusal_unchecked(why: UncheckedCredential) -> RefusedRequest:
    log.error("a key or token cannot be checked: %s", why)
    text = "keys and tokens cannot be checked at the moment; see the hub's log: tabane logs"
    return refusal(503, text, (b"retry-after", b"5"))


def token_in(request: HttpRequest) -> str | None:
    """Return the token in a request; "" if the request contains something else instead."""
    if "authorization" in request.headers:
        return bearer(request.headers["authorization"]) or ""
    protocols = offered(request.headers.get("sec-websocket-protocol"))
    return next((one.removeprefix(TOKEN) for one in protocols if one.startswith(TOKEN)), None)


def json_reply(status: int, body: bytes) -> HttpReply:
    """Return a reply with a JSON body."""
    return HttpReply(status, body, JSON_HEAD)
