"""The ASGI application: routes requests over HTTP, those for web pages included.

The application of the web pages is loaded with the first request for a page.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, get_args

from msgspec import UNSET

from tabane.build import this_build
from tabane.errors import RateLimited, Unauthorized, upgraded
from tabane.hub.http.authentication import Authenticator, RefusedCredential, UncheckedCredential
from tabane.hub.http.gate import (
    HEALTH,
    LOGIN_RETURN,
    METHODS,
    READY,
    HttpGate,
    json_reply,
)
from tabane.hub.http.legacy import HttpSessions, ResumableSession
from tabane.hub.http.metrics import TEXT, HttpMetrics
from tabane.hub.http.modern import SingleRequests
from tabane.hub.http.programs import RPC, SOCKETS, HttpPrograms
from tabane.hub.http.request import (
    BodyTooLarge,
    HttpReply,
    HttpRequest,
    PostedMessage,
    Receive,
    RefusedRequest,
    RequesterGone,
    Scope,
    Send,
    refusal,
)
from tabane.hub.http.sources import source_of
from tabane.messages import say
from tabane.operations import Access, Door
from tabane.settings import Mode
from tabane.upstreams.logins.redirect_listener import CallbackPage, page_language
from tabane.web.hub import VISIT, LiveFeed, PostUploads, Visit, WebHub
from tabane.web.paths import is_page_wanted, is_web_path
from tabane.web.sessions import SignInLinks, WebSessions
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era, ProtocolRefusal
from tabane.wire.http import AcceptedTypes, accepted, era_of, is_json, legacy_version, may_post
from tabane.wire.json import InvalidJson, JsonRpcFrame

if TYPE_CHECKING:
    from tabane.hub.http.door import HttpDoor
    from tabane.hub.http.routing import RequestRouting
    from tabane.web.app import WebApp
    from tabane.web.markdown import MarkdownRenderer

log = logging.getLogger(__name__)

SESSIONS = "web-sessions.json"
_APP = "tabane.web.app"


class WebPages(WebHub):
    """Answers requests for the web page, whose application is loaded with the first of them."""

    def __init__(self, hub_door: HttpDoor, gate: HttpGate, authenticator: Authenticator) -> None:
        self._http, self._gate, self._authenticator = hub_door, gate, authenticator
        self._markdown: MarkdownRenderer | None = None
        self._loading: asyncio.Task[WebApp] | None = None
        self._app: WebApp | None = None
        self._closed = False

    # -- requests ----------------------------------------------------------------------------------

    @property
    def streams(self) -> int:
        """Return the number of browsers that follow the hub."""
        return self._app.streams if self._app else 0

    async def answer(self, request: HttpRequest) -> None:
        """Answer a request for a page. Raises RefusedRequest."""
        if self._http.hub.sessions.draining:
            raise refusal(503, "The hub is stopping.", (b"retry-after", b"1"))
        if self._app is None:
            self._loading = self._loading or asyncio.ensure_future(self._load())
            self._app = await asyncio.shield(self._loading)
        visit = Visit(
            source_of(request.origin.address),
            self._gate.language(request),
            request.origin.tls,
            self._authenticator.token is None and request.origin.local,
            lambda: self._closed or self._http.hub.sessions.draining,
        )
        await request.pass_to(self._app, {VISIT: visit})

    async def close(self) -> None:
        """End the streams and the worker processes."""
        self._closed = True
        if self._markdown is not None:
            await self._markdown.close()

    async def _load(self) -> WebApp:
        """Import the application in a thread, so that calls in flight do not wait for it."""
        module = await asyncio.to_thread(importlib.import_module, _APP)
        self._http.hub.audit.live.attach()
        app: WebApp = module.make_app(self)
        return app

    # -- the hub, as the page uses it --------------------------------------------------------------

    @property
    def door(self) -> Door:
        return self._http.rpc

    @property
    def feed(self) -> LiveFeed:
        return self._http.hub.audit.live

    @cached_property
    def sessions(self) -> WebSessions:
        """Sessions of signed-in browsers, kept in the home over restarts."""
        path = self._http.settings.home / SESSIONS
        return WebSessions(path, time.time, self._http.identities.restore)

    @property
    def markdown(self) -> MarkdownRenderer:
        if self._markdown is None:
            from tabane.web.markdown import MarkdownRenderer

            self._markdown = MarkdownRenderer(self._http.hub.environment, errors=2)
        return self._markdown

    @property
    def uploads(self) -> PostUploads:
        return self._http.hub.posts.uploads

    @property
    def links(self) -> SignInLinks:
        """Links that sign a browser in, each once."""
        return self._http.links

    @property
    def cookie(self) -> str:
        return f"tabane-{self._http.port}"

    @property
    def version(self) -> str:
        return this_build().name

    def holds(self, source: Literal["posts", "documents", "pages"]) -> bool:
        hub = self._http.hub
        there = {"posts": hub.posts.there, "documents": hub.documents.there, "pages": hub.reader.there}
        return there[source]

    def has_open(self, source: Literal["posts", "documents", "pages"]) -> bool:
        hub = self._http.hub
        opened = {"posts": hub.posts.is_open, "documents": hub.documents.is_open, "pages": hub.reader.is_open}
        return opened[source]

    async def identify(self, credential: str, source: str) -> Access:
        try:
            return await self._authenticator.identify(credential, source)
        except RefusedCredential as refused:
            if refused.retry_after:
                seconds = refused.retry_after
                text = say("Too many attempts. Try again in {seconds:.0f} s.", seconds=seconds + 0.5)
                raise RateLimited(text, seconds) from None
            raise Unauthorized(
                refused.why.message
                if refused.why
                else say("This key is unknown, was revoked, or has expired.")
            ) from None
        except UncheckedCredential:
            text = say("Keys cannot be checked at the moment; see the hub's log: tabane logs")
            raise Unauthorized(text) from None

    def signed_in(self, access: Access, source: str) -> None:
        self._http.identities.signed_in(access.holder, source)


MCP = "/mcp"
PROFILES = "p"
"""Part of a path after which a profile is named: /mcp/p/team, or with a mode /mcp/p/team/full."""

SERVERS = "s"
"""Part of a path after which a server is named: /mcp/s/github, or within a profile /mcp/p/team/s/github."""

METADATA = "/.well-known/oauth-protected-resource"
"""The path at which clients look for the OAuth server (RFC 9728), also with the path of MCP behind it."""

BATCHED = "2025-03-26"
"""The one protocol version that has batches."""

_INITIALIZE = "initialize"
_CANCELLED = "notifications/cancelled"
_NOT_REQUESTS = frozenset({json.NO_OBJECT, json.NO_METHOD})


class McpPlace(NamedTuple):
    """The parts of the path of a request to MCP: mode, profile and server.

    The mode is None for that of the settings. With a server, the connection is to that server alone.
    """

    mode: Mode | None
    profile: str = ""
    server: str = ""


class HttpApp:
    """An ASGI application. It counts on :class:`~tabane.hub.http.server.HttpConnection` below it."""

    def __init__(
        self,
        door: HttpDoor,
        gate: HttpGate,
        sessions: HttpSessions,
        modern: SingleRequests,
        programs: HttpPrograms,
        metrics: HttpMetrics,
        web: WebPages,
        group: RequestRouting | None = None,
    ) -> None:
        self._door, self._hub, self._gate, self._group = door, door.hub, gate, group
        self._sessions, self._modern, self._programs, self._counts = sessions, modern, programs, metrics
        self._web = web
        self._pages: dict[str, Callable[[HttpRequest], Awaitable[HttpReply]]] = {
            HEALTH: self._healthz,
            READY: self._readyz,
            "/metrics": self._metrics,
            LOGIN_RETURN: self._login_return,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive, send)
        self._door.touch()
        try:
            await self._route(request)
        except RefusedRequest as turned:
            await request.reply(turned.reply)
        except BodyTooLarge:
            limit = self._programs.limit if request.path == RPC else self._hub.settings.max_line
            text = f"a message may have {limit} bytes here (see the setting max_line)"
            await request.reply(refusal(413, text).reply)
        except RequesterGone:
            return
        except Exception as error:
            log.exception("a request over HTTP failed")
            if not request.status:
                old = upgraded(error)
                text = str(old) if old else "internal error; see the hub's log: tabane logs"
                await request.reply(refusal(500, text, code=eras.INTERNAL_ERROR).reply)
        finally:
            self._counts.count(request)

    async def close(self) -> None:
        """End every response that is still open."""
        self._sessions.close()
        self._modern.close()
        self._programs.close()
        await self._web.close()
        if self._group is not None:
            await self._group.close()

    # -- where it goes -----------------------------------------------------------------------------

    async def _route(self, request: HttpRequest) -> None:
        place = _mcp_place(request.path)
        if place is None or self._group is None or not self._group.admits(request):
            self._gate.check(request)
        if place is not None:
            await self._mcp(request, place)
            return
        if request.headers.get("upgrade", "").lower() == "websocket" and request.path in SOCKETS:
            # It was not admitted at once: this identifies the client, or says why not.
            request.line.become(await self._programs.admit(request))
            return
        if request.path == RPC:
            await self._rpc(request)
            return
        if self._hub.settings.web and is_web_path(request.path):
            request.era = "web"
            await self._web.answer(request)
            return
        page = self._pages.get(request.path) or self._metadata_at(request.path)
        if page is None and self._hub.settings.web and is_page_wanted(request.method, request.headers):
            request.era = "web"
            await self._web.answer(request)  # which says so, with a search and links
            return
        if page is None:
            raise refusal(404, f"there is nothing at this path; MCP is at {MCP}, JSON-RPC at {RPC}")
        if request.method not in ("GET", "HEAD"):
            raise _not_allowed(b"GET, HEAD")
        await request.reply(await page(request))

    async def _rpc(self, request: HttpRequest) -> None:
        if request.method == "OPTIONS":
            raise self._gate.preflight(request)
        if request.method == "GET":
            raise refusal(426, "a message is posted here, or this is a WebSocket", (b"upgrade", b"websocket"))
        if request.method != "POST":
            raise _not_allowed(b"GET, POST, OPTIONS")
        request.era = "rpc"
        self._refuse_if_draining(None)
        await self._programs.post(request)

    async def _mcp(self, request: HttpRequest, place: McpPlace) -> None:
        if request.method == "OPTIONS":
            raise self._gate.preflight(request)
        if request.method not in ("GET", "POST", "DELETE"):
            raise _not_allowed(METHODS)
        if request.forwarded is None:
            await self._gate.require(request)
        else:
            await self._gate.trust(request, request.forwarded.holder)
        if place.profile:
            self._gate.enter_profile(request, place.profile)
        if place.server:
            self._gate.enter_server(request, place.server)
        mode = place.mode or self._hub.settings.mode
        if request.method == "POST":
            await self._post(request, mode)
            return
        version = request.headers.get("mcp-protocol-version")
        if era_of(version) is Era.MODERN and "mcp-session-id" not in request.headers:
            raise _not_allowed(b"POST, OPTIONS")
        request.era = "legacy"
        if self._group is not None and await self._group.passes(request, Era.LEGACY, None, b""):
            return
        session = self._find_session(request)
        if request.method == "DELETE":
            # Answered first: a client that leaves with calls in flight stops listening for them then.
            await request.reply(HttpReply(204))
            self._sessions.end(session, "its client ended it")
        elif not accepted(request.headers.get("accept")).events:
            raise refusal(406, "this is a stream: accept text/event-stream")
        else:
            self._refuse_if_draining(None)
            await session.listen(request)

    async def _post(self, request: HttpRequest, mode: Mode) -> None:
        kinds = accepted(request.headers.get("accept"))
        if not may_post(kinds):
            raise refusal(406, "accept both application/json and text/event-stream")
        if not is_json(request.headers.get("content-type")):
            raise refusal(415, "Content-Type: application/json is what is read here")
        message = _parse_body(await request.body(self._hub.settings.max_line))
        frame = message.first
        request.method_name = "batch" if message.batch else frame.method or "answer"
        enveloped = not message.batch and eras.has_envelope(message.meta)
        if "mcp-session-id" not in request.headers or enveloped:
            era = era_of(request.headers.get("mcp-protocol-version"), enveloped)
        else:
            era = Era.LEGACY
        request.era = era.value
        if self._group is not None and await self._group.passes(request, era, frame, message.line):
            return
        self._refuse_if_draining(frame)
        if era is Era.MODERN:
            if message.batch:
                raise refusal(400, "this version has no batches: send one message to a request")
            await self._post_modern(request, mode, message, kinds)
        else:
            await self._post_legacy(request, mode, message)

    async def _post_modern(
        self, request: HttpRequest, mode: Mode, message: PostedMessage, kinds: AcceptedTypes
    ) -> None:
        if self._group is not None and (line := self._group.unmarked(message.line)) is not message.line:
            message = _decoded(line, [json.decode_frame(line)], batch=False)
        await self._modern.post(request, mode, message, kinds)

    async def _post_legacy(self, request: HttpRequest, mode: Mode, message: PostedMessage) -> None:
        kinds = accepted(request.headers.get("accept"))
        ids = message.requests
        if message.first.method == _INITIALIZE and "mcp-session-id" not in request.headers and ids:
            if message.batch:
                raise refusal(400, "initialize is sent alone")
            _check_version(request, None)
            session = self._sessions.make(request, mode)
            await session.post(request, message, ids, kinds, fresh=True)
            if session.session.version is None:
                self._sessions.end(session, "its initialize was refused")
            elif self._group is not None:
                self._group.note(session, _INITIALIZE, message.line)
            return
        session = self._find_session(request)
        requests = [frame for frame in message.frames if frame.method is not UNSET and frame.id is not UNSET]
        if session.knows(ids) or len(ids) < len(requests):
            raise refusal(400, "the id of a request is in use already")
        if message.batch and session.session.version != BATCHED:
            raise refusal(400, f"only {BATCHED} has batches: send one message to a request")
        await session.post(request, message, ids, kinds)
        if self._group is not None and not message.batch:
            self._group.note(session, message.first.method, message.line)
        cancelled = _canceled_request(message)
        if cancelled is not None:
            session.cancelled(cancelled)

    def _find_session(self, request: HttpRequest) -> ResumableSession:
        """Return the session of a request.

        Raises RefusedRequest if there is none, or its version is unknown.
        """
        session = self._sessions.find(request.headers.get("mcp-session-id"), request.owner)
        _check_version(request, session.session.version)
        session.touch()
        return session

    def _refuse_if_draining(self, frame: JsonRpcFrame | None) -> None:
        """Raise RefusedRequest if the hub ends. An answer to a question of a running call is still taken."""
        if self._hub.sessions.draining and (frame is None or frame.method is not UNSET):
            request_id = None if frame is None or frame.id is UNSET else bytes(frame.id)
            text = "The hub is stopping. Send the request again in a moment."
            raise refusal(
                503,
                text,
                (b"retry-after", b"1"),
                code=eras.INTERNAL_ERROR,
                data={"reason": "draining"},
                request_id=request_id,
            )

    # -- pages -------------------------------------------------------------------------------------

    def _metadata_at(self, path: str) -> Callable[[HttpRequest], Awaitable[HttpReply]] | None:
        """Return the page with the OAuth metadata, if that path is its own and there is OAuth."""
        rest = path.removeprefix(METADATA)
        if rest == path or (rest and _mcp_place(rest) is None):
            return None
        metadata = self._gate.resource_metadata()
        if metadata is None:
            return None

        async def page(_: HttpRequest) -> HttpReply:
            return json_reply(200, metadata)

        return page

    async def _healthz(self, _: HttpRequest) -> HttpReply:
        return json_reply(200, b'{"status":"ok"}\n')

    async def _readyz(self, _: HttpRequest) -> HttpReply:
        if self._hub.sessions.draining or (self._group is not None and self._group.draining):
            return json_reply(503, b'{"status":"stopping"}\n')
        if self._group is not None and not self._group.joined:
            return json_reply(503, b'{"status":"starting"}\n')
        return json_reply(200, b'{"status":"ready"}\n')

    async def _login_return(self, request: HttpRequest) -> HttpReply:
        # A preview or a check of a link must not use up the answer.
        if request.method != "GET":
            raise _not_allowed(b"GET")
        logins = self._hub.gateway.logins
        assert logins is not None
        lang = page_language(request.headers.get("accept-language", ""))
        page = await logins.callback(request.scope.get("query_string", b"").decode("latin-1"), lang)
        headers = [(name.encode(), value.encode()) for name, value in CallbackPage.HEADERS.items()]
        # The gate sends x-content-type-options.
        headers = [(name, value) for name, value in headers if name != b"x-content-type-options"]
        return HttpReply(200 if page.fine else 400, page.html(), headers)

    async def _metrics(self, request: HttpRequest) -> HttpReply:
        named = self._gate.may_name(await self._gate.identify(request))
        hubs = None if self._group is None else self._group.hubs
        page = await self._counts.page(named=named, hubs=hubs)
        return HttpReply(200, page.encode(), [(b"content-type", TEXT), (b"cache-control", b"no-store")])


def _mcp_place(path: str) -> McpPlace | None:
    """Return the mode, profile and server that a path of MCP names; None for another path."""
    head, *rest = path.removeprefix("/").split("/")
    if head != MCP[1:] or len(rest) > 4:
        return None
    profile, rest = _name_after(rest, PROFILES)
    server, rest = _name_after(rest, SERVERS)
    if not rest:
        return McpPlace(None, profile, server)
    if server:
        return None
    mode = rest[0]
    return McpPlace(cast("Mode", mode), profile) if len(rest) == 1 and mode in get_args(Mode) else None


def _name_after(parts: list[str], what: str) -> tuple[str, list[str]]:
    """Return the name that follows ``what`` at the beginning of a path, and the rest of the path."""
    if len(parts) > 1 and parts[0] == what and parts[1]:
        return parts[1], parts[2:]
    return "", parts


def _parse_body(body: bytes) -> PostedMessage:
    """Parse the message of a body. Raises RefusedRequest if it is none."""
    batch = body.lstrip(b" \t\r\n")[:1] == b"["
    try:
        parts = [bytes(part) for part in json.elements(body)] if batch else [body]
        frames = [json.decode_frame(part) for part in parts]
    except InvalidJson as reason:
        shape = batch or str(reason) in _NOT_REQUESTS
        code = eras.INVALID_REQUEST if shape and _is_json(body) else eras.PARSE_ERROR
        raise refusal(400, f"not a JSON-RPC message: {reason}", code=code) from None
    if not frames:
        raise refusal(400, "an empty batch")
    for frame in frames:
        if frame.id is not UNSET and bytes(frame.id)[:1] not in b'"-0123456789':
            raise refusal(400, "id: a string or a number")
        request_id = None if frame.id is UNSET else bytes(frame.id)
        if frame.method is UNSET and frame.result is UNSET and frame.error is UNSET:
            raise refusal(400, "a request needs a method", request_id=request_id)
        if frame.method is not UNSET and frame.params is not UNSET and bytes(frame.params)[:1] != b"{":
            raise refusal(400, "params: an object", code=eras.INVALID_PARAMS, request_id=request_id)
    # Breaks between tokens would break the lines that messages are to servers on pipes.
    if b"\n" in body or b"\r" in body:
        body = body.replace(b"\n", b" ").replace(b"\r", b" ")
        if not batch:
            frames = [json.decode_frame(body)]
    return _decoded(body, frames, batch=batch)


def _decoded(line: bytes, frames: list[JsonRpcFrame], *, batch: bool) -> PostedMessage:
    first = frames[0]
    if batch or first.method is UNSET or first.params is UNSET:
        return PostedMessage(line, frames, batch, {}, {})
    params = json.fields(first.params)
    return PostedMessage(line, frames, batch, params, eras.take_meta(params))


def _is_json(body: bytes) -> bool:
    try:
        json.decode(body)
    except InvalidJson:
        return False
    return True


def _check_version(request: HttpRequest, negotiated: str | None) -> None:
    try:
        legacy_version(request.headers.get("mcp-protocol-version"), negotiated)
    except ProtocolRefusal as refused:
        raise refusal(400, refused.message, code=refused.code, data=refused.data) from None


def _not_allowed(methods: bytes) -> RefusedRequest:
    return refusal(405, "this method is not for this path", (b"allow", methods))


def _canceled_request(message: PostedMessage) -> bytes | None:
    """Return the id of the request that a message cancels; None if it cancels none."""
    frame = message.first
    if frame.method != _CANCELLED or frame.params is UNSET:
        return None
    name = json.fields(frame.params).get("requestId")
    return None if name is None else bytes(name)
