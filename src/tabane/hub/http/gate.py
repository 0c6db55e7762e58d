"""Access over HTTP: checks of host, origin and token, and the caller of a request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tabane.hub.http.request import JSON_HEAD, HeaderList, HttpReply, HttpRequest, RefusedRequest, refusal
from tabane.hub.rpc.permission import LOCAL, LOOPBACK, LoopbackAccess
from tabane.messages import Lang, language
from tabane.operations import Caller, Face
from tabane.settings import Settings
from tabane.wire.http import allowed_host, allowed_origin, bearer, offered, own_origin, same_token

METHODS = b"GET, POST, DELETE, OPTIONS"
HEADERS = (
    b"accept, authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, "
    b"mcp-session-id"
)
"""What a page may send. Mirrored arguments have names of their own: those that it asks for are added."""

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

_NO_OTHER_PAGE = (None, "none", "same-origin")


class HttpGate:
    """Checks each request first, with any path, and identifies its sender.

    There are three kinds of pages. A *listed* page (setting ``origins``) may read what is public, and needs
    the token for everything else. The hub's *own* page, whose origin is the host of the request, needs the
    token for everything; a session that signed in, with a header against forged requests, will count as the
    token in :meth:`_is_own_page` once there is such a page. All other pages are refused.

    ``token`` is what clients have to show, None if they need not. ``token_path`` is its file, ``lang`` the
    value of the variable LANG.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        port: int,
        token: str | None,
        token_path: Path,
        lang: str | None,
    ) -> None:
        self._settings, self._port = settings, port
        self._token, self._token_path, self._default_lang = token, token_path, lang

    def check(self, request: HttpRequest) -> None:
        """Raise RefusedRequest: 400 for a repeated header, 421 for another host, 403 for another page."""
        request.extra += GUARDS
        for name in SINGLE:
            if name in request.repeated:
                raise refusal(403 if name == "origin" else 400, f"{name}: a request has this header once")
        host = request.headers.get("host")
        if not allowed_host(host, self._port, (self._settings().host,)):
            # The name may be an attacker's: its DNS may lead here.
            raise refusal(421, "Host: this hub is reached as 127.0.0.1 or localhost")
        self._check_page(request)

    def _check_page(self, request: HttpRequest) -> None:
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site")
        request.page = origin is not None or site is not None
        if origin is None:
            if site not in _NO_OTHER_PAGE:
                # An image, a script, a frame or a link: browsers send no origin for these.
                raise refusal(403, "Sec-Fetch-Site: other pages may not use this hub in that way")
            return
        if not (allowed_origin(origin, self._settings().origins) or self._is_own_page(request)):
            raise refusal(
                403, "Origin: pages from there may not use this hub; the setting origins allows them"
            )
        request.extra += _headers_for_origin(origin)

    def _is_own_page(self, request: HttpRequest) -> bool:
        """Return whether a page of the hub itself asks, with the token. The host was checked already."""
        own = own_origin(request.headers.get("origin"), request.headers.get("host"))
        return own and self._fits(_token_in(request))

    def check_token(self, request: HttpRequest) -> None:
        """Raise RefusedRequest (401) if the token is missing or wrong."""
        if self._fits(bearer(request.headers.get("authorization"))):
            return
        raise self._without_token("authorization" in request.headers)

    def knows(self, request: HttpRequest) -> bool:
        """Return whether the token is in a header or subprotocol.

        Raises RefusedRequest (401) for a wrong one.
        """
        shown = _token_in(request)
        if self._fits(shown):
            return True
        if shown is not None:
            raise self._without_token(True)
        return False

    def _fits(self, shown: str | None) -> bool:
        return self._token is None or same_token(shown, self._token)

    def _without_token(self, shown: bool) -> RefusedRequest:
        challenge = b'Bearer realm="tabane"' + (b', error="invalid_token"' if shown else b"")
        text = f"the token of the hub is needed: Authorization: Bearer, with what {self._token_path} holds"
        return refusal(401, text, (b"www-authenticate", challenge), data={"token": str(self._token_path)})

    def caller(self, request: HttpRequest, session: str) -> Caller:
        """Return the caller of an MCP client over HTTP: this machine's user, because the token was shown."""
        looks = self._only_looks(request)
        return Caller(LOCAL, Face.MCP, session, self._lang(request), looks=looks)

    def program(self, request: HttpRequest, session: str, known: bool) -> Caller:
        """Return the caller of a program over TCP: this machine's user if it shows the token."""
        lang = self._lang(request)
        if known:
            return Caller(LOCAL, Face.RPC, session, lang, looks=self._only_looks(request))
        ends = [request.scope.get("client"), request.scope.get("server")]

        def uid() -> int | None:
            from tabane.hub.rpc.tcp_peers import (  # only needed by a caller that stops the hub
                SocketAddress,
                uid_of_peer,
            )

            peer, own = ((SocketAddress(*end[:2]) if end and end[1] else None) for end in ends)
            return uid_of_peer(peer, own) if peer and own else None

        access = LoopbackAccess(
            lambda: self._settings().open_archive, lambda: self._token_path, uid, page=request.page
        )
        return Caller(LOOPBACK, Face.RPC, session, lang, access=access)

    def _only_looks(self, request: HttpRequest) -> bool:
        """Return whether a web page without a token asks a hub without a token: it may change nothing."""
        return request.page and self._token is None

    def _lang(self, request: HttpRequest) -> Lang:
        first = request.headers.get("accept-language", "").partition(",")[0].partition(";")[0].strip()
        return language(self._settings().lang, first, self._default_lang)

    def preflight(self, request: HttpRequest) -> RefusedRequest:
        """Answer a browser that asks whether a page may send a request. Only listed pages are named."""
        if "origin" not in request.headers:
            return RefusedRequest(HttpReply(204, b"", [(b"allow", METHODS)]))
        wanted = request.headers.get("access-control-request-headers", "").lower().split(",")
        mirrored = [name.strip() for name in wanted if name.strip().startswith("mcp-param-")]
        allowed = b", ".join([HEADERS, *(name.encode("latin-1") for name in mirrored if _is_name(name))])
        headers: HeaderList = [
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", allowed),
            (b"access-control-max-age", PREFLIGHT_AGE),
        ]
        if request.headers.get("access-control-request-private-network") == "true":
            headers.append((b"access-control-allow-private-network", b"true"))
        return RefusedRequest(HttpReply(204, b"", headers))


def _headers_for_origin(origin: str) -> HeaderList:
    return [
        (b"access-control-allow-origin", origin.strip().encode("latin-1")),
        (b"access-control-expose-headers", EXPOSED),
        (b"vary", b"origin"),
    ]


def _token_in(request: HttpRequest) -> str | None:
    """Return the token in a request; "" if the request contains something else instead."""
    if "authorization" in request.headers:
        return bearer(request.headers["authorization"]) or ""
    protocols = offered(request.headers.get("sec-websocket-protocol"))
    return next((one.removeprefix(TOKEN) for one in protocols if one.startswith(TOKEN)), None)


def _is_name(text: str) -> bool:
    return text.isascii() and all(c.isalnum() or c in "-_" for c in text)


def json_reply(status: int, body: bytes) -> HttpReply:
    return HttpReply(status, body, JSON_HEAD)
