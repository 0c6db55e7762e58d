"""The application: sign-in, routes of all pages, events, and what surrounds the content of a page."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tabane.errors import (
    BadArguments,
    CallerError,
    Forbidden,
    RateLimited,
    TabaneError,
    Unauthorized,
    UnknownName,
    upgraded,
)
from tabane.messages import Lang, Message, say
from tabane.messages.page_words import for_page
from tabane.operations import LOCAL, Access, Caller, Face
from tabane.web import headers
from tabane.web.headers import KEPT, NOT_KEPT
from tabane.web.hub import VISIT, HubEvent, Visit, WebHub
from tabane.web.page import (
    FileDownload,
    Fragment,
    Json,
    Notice,
    PageAnswer,
    PageRequest,
    PageRoute,
    RawJson,
    Redirect,
    WholePage,
    read_body,
)
from tabane.web.pages import (
    activity,
    approvals,
    assistants,
    audit,
    changes,
    documents,
    flows,
    health,
    home,
    jobs,
    keys,
    palette,
    posts,
    questions,
    search,
    servers,
    settings,
    tools,
    usage,
)
from tabane.web.paths import APP_SANDBOX
from tabane.web.rendering import Assets, TemplateRenderer
from tabane.web.sessions import LONGEST, FoundSession
from tabane.wire.sse import KEEP_ALIVE

AREAS = (
    home,
    search,
    palette,
    activity,
    usage,
    audit,
    health,
    questions,
    approvals,
    changes,
    flows,
    assistants,
    servers,
    tools,
    posts,
    documents,
    jobs,
    keys,
    settings,
)
"""The modules with pages, in the order in which their routes are tried."""


def page_routes() -> tuple[PageRoute, ...]:
    """Return the routes of all areas."""
    return tuple(route for area in AREAS for route in area.ROUTES)


PAGE_HEADER = "tabane-page"
"""Has the secret that the page keeps. Another site cannot send it, and another port does not get it."""

MOST_SIGN_IN = 32 << 10
"""Bytes of a request to sign in."""


class SignInAttempt(msgspec.Struct, forbid_unknown_fields=True):
    """The credential of a browser: the code of a link, or a key; or neither."""

    code: str = ""
    key: str = ""


class SignIn:
    """Signs browsers in and out, and finds who a request is from."""

    def __init__(self, hub: WebHub) -> None:
        self._hub = hub

    async def found(self, request: Request) -> FoundSession | None:
        """Return the session of a request; None if it shows none that is valid."""
        cookie, page = request.cookies.get(self._hub.cookie, ""), request.headers.get(PAGE_HEADER, "")
        return await self._hub.sessions.find(cookie, page) if cookie and page else None

    async def sign_in(self, request: Request) -> Response:
        """Answer a POST with a code or key: the page's secret as JSON, and the cookie."""
        visit: Visit = request.scope[VISIT]
        try:
            access = await self._access_of(await _read_attempt(request), visit)
        except TabaneError as error:
            status = 429 if isinstance(error, RateLimited) else 401
            return JSONResponse({"error": error.text(visit.lang)}, status, NOT_KEPT)
        begun = await self._hub.sessions.begin(access.holder)
        self._hub.signed_in(access, visit.source)
        response = JSONResponse({"page": begun.page}, 200, NOT_KEPT)
        response.set_cookie(
            self._hub.cookie,
            begun.cookie,
            max_age=int(LONGEST),
            httponly=True,
            secure=visit.secure,
            samesite="strict",
        )
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the session of a request."""
        found = await self.found(request)
        if found is not None:
            await self._hub.sessions.end(found.session)
        response = JSONResponse({"signed_in": False}, 200, NOT_KEPT)
        response.delete_cookie(self._hub.cookie, httponly=True, samesite="strict")
        return response

    async def _access_of(self, attempt: SignInAttempt, visit: Visit) -> Access:
        """Raise Unauthorized for a link that was used or is too old, and for a wrong key."""
        if attempt.code:
            if not self._hub.links.use(attempt.code):
                raise Unauthorized(
                    say("This link was used already, or is too old. Run tabane open again for a new one.")
                )
            return LOCAL
        if attempt.key:
            access = await self._hub.identify(attempt.key.strip(), visit.source)
            if access.holder.startswith("oauth:"):
                raise Unauthorized(say("Sign in with an API key or a link; access tokens are for programs."))
            return access
        if visit.open:
            return LOCAL
        raise Unauthorized(say("Sign in with a link from tabane open, or with an API key."))


async def _read_attempt(request: Request) -> SignInAttempt:
    body = await read_body(request, MOST_SIGN_IN)
    try:
        return msgspec.json.decode(body or b"{}", type=SignInAttempt)
    except msgspec.MsgspecError as error:
        raise BadArguments(say("The form cannot be read: {reason}", reason=error)) from None


def caller_of(found: FoundSession, lang: Lang) -> Caller:
    """Return the caller of a request in a session."""
    session = f"web:{found.session.id}"
    return Caller(found.session.holder, Face.WEB, session, for_page(lang), client="web", access=found.access)


def language_of(headers: Mapping[str, Any], default: Lang) -> Lang:
    """Return the language that a person chose in the page, else the one of the browser."""
    chosen = headers.get("tabane-lang")
    return "ja" if chosen == "ja" else "en" if chosen == "en" else default


MOST_NAME = 64
"""Characters of the id that a page gives a request."""

LOOK = 2.0
"""Seconds between two checks that the session has not ended."""

QUIET = 15.0
"""Seconds of silence, after which a comment is sent for the proxies on the way."""

MOST_STREAMS = 512
"""Streams at the same time."""


_EVENT = b"id: %b\nevent: %b\ndata: %b\n\n"


class EventStreams:
    """The open streams of events."""

    def __init__(self, hub: WebHub) -> None:
        self._hub = hub
        self.count = 0

    @property
    def full(self) -> bool:
        """Return whether no further stream may be opened."""
        return self.count >= MOST_STREAMS

    def answer(self, request: Request, found: FoundSession, visit: Visit) -> StreamingResponse:
        """Return the stream of a browser, from the event after the last one that it has seen."""
        after = request.headers.get("last-event-id") or None
        body = self._events(found, after, visit)
        # In the headers: as a type, it would get a charset, which the format does not have.
        stream = {"content-type": "text/event-stream", "x-accel-buffering": "no"}
        return StreamingResponse(body, 200, {**NOT_KEPT, **stream})

    async def _events(self, found: FoundSession, after: str | None, visit: Visit) -> AsyncIterator[bytes]:
        self.count += 1
        try:
            yield b": open\n\n"
            async for batch in self._batches(found, after, visit):
                lines = [_EVENT % (each.id.encode(), each.topic.encode(), each.data) for each in batch]
                yield b"".join(lines) or KEEP_ALIVE
        finally:
            self.count -= 1

    async def _batches(
        self, found: FoundSession, after: str | None, visit: Visit
    ) -> AsyncIterator[Sequence[HubEvent]]:
        """Yield the events in batches, and an empty batch after :data:`QUIET` seconds.

        Ends with the session, or if the hub ends its streams.
        """
        batches = self._hub.feed.follow(after, found.access)
        waiting: asyncio.Task[Sequence[HubEvent]] | None = None
        quiet = 0.0
        try:
            while not visit.ended() and self._hub.sessions.is_live(found.session, found.access):
                waiting = waiting or asyncio.ensure_future(anext(batches))
                done, _ = await asyncio.wait({waiting}, timeout=LOOK)
                if done:
                    batch, waiting, quiet = waiting.result(), None, 0.0
                    yield batch
                elif (quiet := quiet + LOOK) >= QUIET:
                    quiet = 0.0
                    yield []
        except StopAsyncIteration:
            return
        finally:
            if waiting is not None:
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                    await waiting
            if (close := getattr(batches, "aclose", None)) is not None:
                await close()


class NavigationEntry(NamedTuple):
    """A page in the navigation. It is shown to those who may use the operation ``needs``; "" is everybody.

    ``topic``: the event after which the number beside it, at ``path/-/count``, is another; "" without one.
    """

    path: str
    label: Message
    icon: str
    needs: str
    group: str
    topic: str = ""


ENTRIES = (
    NavigationEntry("/", say("Home"), "home", "", "top"),
    NavigationEntry("/search", say("Search"), "search", "search_everything", "top"),
    NavigationEntry("/activity", say("Activity"), "activity", "list_live_calls", "hub"),
    NavigationEntry("/questions", say("Questions"), "question", "list_questions", "hub", "questions"),
    NavigationEntry("/approvals", say("Approvals"), "check", "list_approvals", "hub", "approvals"),
    NavigationEntry("/flows", say("Flow policy"), "filter", "list_flow_trails", "hub"),
    NavigationEntry("/assistants", say("Assistants"), "link", "list_assistants", "hub"),
    NavigationEntry("/servers", say("Servers"), "servers", "list_servers", "hub"),
    NavigationEntry("/changes", say("Changes"), "changes", "list_definition_changes", "hub", "definitions"),
    NavigationEntry("/tools", say("Tools"), "tools", "search_tools", "hub"),
    NavigationEntry("/posts", say("Posts"), "posts", "get_database_stats", "archive"),
    NavigationEntry("/documents", say("Documents"), "documents", "list_documents", "archive"),
    NavigationEntry("/reader", say("Reader"), "reader", "read_url_content", "archive"),
    NavigationEntry("/jobs", say("Jobs"), "jobs", "list_jobs", "admin"),
    NavigationEntry("/usage", say("Usage"), "usage", "get_usage_stats", "admin"),
    NavigationEntry("/audit", say("Audit log"), "audit", "query_audit_logs", "admin"),
    NavigationEntry("/keys", say("API keys"), "keys", "keys_list", "admin"),
    NavigationEntry("/profiles", say("Profiles"), "profiles", "profiles_list", "admin"),
    NavigationEntry("/models", say("Models"), "tag", "list_models", "admin"),
    NavigationEntry("/settings", say("Settings"), "settings", "hub_status", "admin"),
    NavigationEntry("/health", say("Health"), "health", "health_check", "admin"),
)

GROUPS = {
    "top": None,
    "hub": say("Hub"),
    "archive": say("Archive"),
    "admin": say("Administration"),
}


def visible(may: Callable[[str], bool]) -> list[NavigationEntry]:
    """Return the entries that somebody sees. ``may`` tells whether an operation is allowed."""
    return [entry for entry in ENTRIES if not entry.needs or may(entry.needs)]


PREFERENCES = (say("Preferences"), "person", "/preferences")

SHORTCUTS: Mapping[str, str] = {
    "h": "/",
    "a": "/approvals",
    "s": "/servers",
    "t": "/tools",
    "p": "/posts",
    "d": "/documents",
    "r": "/reader",
    "c": "/activity",
    "e": "/settings",
}
"""Keys that open a page after g."""


def shortcuts(entries: Sequence[NavigationEntry]) -> list[tuple[str, NavigationEntry]]:
    """Return the pages of somebody that have a key, in the order of the keys."""
    by_path = {entry.path: entry for entry in entries}
    return [(key, by_path[path]) for key, path in SHORTCUTS.items() if path in by_path]


log = logging.getLogger(__name__)

Answer = Callable[[Request], Awaitable[Response]]

FROM_HTMX = "hx-request"
"""Header of requests that want content. Others are navigation, and get the empty page around it."""

WHOLE = "tabane-whole"
"""Header of a request for content together with the navigation around it."""


class InternalFailure(TabaneError):
    """A page failed for a reason that is nobody's fault but ours."""


class WebApp:
    """An ASGI application. Each request has a :class:`~tabane.web.hub.Visit` in its scope."""

    def __init__(self, hub: WebHub) -> None:
        self._hub = hub
        self._assets = Assets()
        self._renderer = TemplateRenderer(self._assets)
        self._sign_in = SignIn(hub)
        self._streams = EventStreams(hub)
        routes = [self._route(route) for route in page_routes()]
        self._app = Starlette(
            routes=[
                Route("/static/{version}/{name:path}", self._static),
                Route("/favicon.ico", self._favicon),
                Route("/sign-in", self._sign_in_page, methods=["GET"]),
                Route("/sign-in", self._sign_in.sign_in, methods=["POST"]),
                Route("/sign-out", self._sign_in.sign_out, methods=["POST"]),
                Route("/events", self._events),
                Route(APP_SANDBOX, self._app_sandbox),
                *routes,
            ],
            exception_handlers={HTTPException: self._http_error},
        )

    @property
    def streams(self) -> int:
        """Return the number of browsers that follow the hub."""
        return self._streams.count

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    # -- around the pages ------------------------------------------------------------------------

    async def _static(self, request: Request) -> Response:
        asset = self._assets.get(request.path_params["name"])
        if asset is None:
            return PlainTextResponse("not found", 404, NOT_KEPT)
        headers = dict(KEPT) | {"vary": "accept-encoding"}
        if asset.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(asset.packed, 200, headers | {"content-encoding": "gzip"}, asset.type)
        return Response(asset.body, 200, headers, asset.type)

    async def _favicon(self, request: Request) -> Response:
        asset = self._assets.get("icon.svg")
        assert asset is not None  # it is part of the package
        return Response(asset.body, 200, KEPT, asset.type)

    async def _sign_in_page(self, request: Request) -> Response:
        if FROM_HTMX not in request.headers:
            return self._shell(request)
        return self._html(request, "layout/sign_in.html", {"open": _visit(request).open})

    def _shell(self, request: Request) -> Response:
        """Return the page without any data: its script fetches the content, with the secret it keeps."""
        lang = language_of(request.headers, _visit(request).lang)
        body = self._renderer.render("layout/shell.html", lang, _may_nothing, {"version": self._hub.version})
        return Response(body, 200, NOT_KEPT, "text/html")

    async def _events(self, request: Request) -> Response:
        found = await self._sign_in.found(request)
        if found is None:
            return _unauthorized(request)
        if self._streams.full:
            return PlainTextResponse("too many streams", 503, {**NOT_KEPT, "retry-after": "10"})
        return self._streams.answer(request, found, _visit(request))

    async def _app_sandbox(self, request: Request) -> Response:
        """Return the frame around an app. It has no data, and nobody has to sign in for it."""
        try:
            domains = headers.domains_of(request.query_params.multi_items())
        except ValueError as error:
            return PlainTextResponse(str(error), 400, NOT_KEPT)
        return Response(headers.DOCUMENT, 200, headers.headers(domains), "text/html")

    # -- pages -----------------------------------------------------------------------------------

    def _route(self, route: PageRoute) -> Route:
        async def respond(request: Request) -> Response:
            if (
                route.method == "GET"
                and FROM_HTMX not in request.headers
                and PAGE_HEADER not in request.headers
            ):
                return self._shell(request)
            page_request = await self._page_request(request)
            if page_request is None:
                return _unauthorized(request)
            return await packed(request, await self._answer(request, page_request, route))

        return Route(route.path, respond, methods=[route.method])

    async def _answer(self, request: Request, page_request: PageRequest, route: PageRoute) -> Response:
        event = self._hub.feed.last
        try:
            answer = await route.handler(page_request)
            return self._response(request, page_request, answer, event)
        except TabaneError as error:
            return self._failure(request, page_request, error, route.method)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:
            log.exception("the page %s failed", request.url.path)
            failure = upgraded(error) or InternalFailure(
                say("The page failed. The reason is in the hub's log: tabane logs")
            )
            return self._failure(request, page_request, failure, route.method)

    async def _page_request(self, request: Request) -> PageRequest | None:
        """Return the request of somebody who signed in; None if nobody did."""
        found = await self._sign_in.found(request)
        if found is None:
            return None
        caller = caller_of(found, language_of(request.headers, _visit(request).lang))
        if name := request.headers.get("tabane-request", "")[:MOST_NAME]:
            caller = msgspec.structs.replace(caller, request=name)  # the page finds its call in the events
        return PageRequest(request, self._hub, caller, found.session)

    def _response(
        self, request: Request, page_request: PageRequest, answer: PageAnswer, event: str
    ) -> Response:
        """Return the answer. ``event`` is the id of the last event before the page was made."""
        match answer:
            case WholePage():
                response = self._page(request, page_request, answer)
                response.headers["tabane-event"] = event
                return response
            case Fragment():
                response = self._html(request, answer.template, answer.context, answer.status, page_request)
                _set_htmx_headers(response, answer.events, answer.retarget)
                return response
            case Notice():
                return self._notice(
                    request, page_request, answer.message, answer.kind, answer.status, answer.events
                )
            case Redirect():
                response = Response(status_code=204, headers=NOT_KEPT)
                response.headers["tabane-location"] = answer.url
                if answer.message is not None:
                    response.headers["tabane-notice"] = quote(answer.message.render(page_request.lang))
                return response
            case FileDownload():
                name = f"attachment; filename*=UTF-8''{quote(answer.name, safe='')}"
                headers = {**NOT_KEPT, "content-disposition": name}
                if answer.message is not None:
                    headers["tabane-notice"] = quote(answer.message.render(page_request.lang))
                return Response(answer.data, 200, headers, answer.type)
            case Json():
                return JSONResponse(answer.value, answer.status, NOT_KEPT)
            case RawJson():
                return Response(answer.body, 200, NOT_KEPT, "application/json")

    def _page(self, request: Request, page_request: PageRequest, page: WholePage) -> Response:
        whole = WHOLE in request.headers
        context: dict[str, Any] = {
            **page.context,
            "page_title": page.title.render(page_request.lang),
            "page_module": page.module,
            "page_template": page.template,
        }
        if whole:
            context |= self._frame(page_request)
        template = "layout/whole.html" if whole else "layout/content.html"
        response = self._html(request, template, context, page.status, page_request)
        if page.module:
            response.headers["tabane-module"] = page.module
        return response

    def _frame(self, request: PageRequest) -> dict[str, Any]:
        """Return what the template of the navigation and the palette needs."""
        entries = visible(request.may)
        pages = [*((entry.label, entry.icon, entry.path) for entry in entries), PREFERENCES]
        commands = [*palette.action_entries(request), *palette.page_entries(pages, request.lang)]
        groups = {name: label.render(request.lang) for name, label in palette.GROUPS.items()}
        return {
            "frame_entries": entries,
            "frame_groups": GROUPS,
            "frame_palette": {"groups": groups, "entries": commands},
            "frame_shortcuts": [(key, entry.path, entry.label) for key, entry in shortcuts(entries)],
            "frame_holder": request.access.holder,
            "frame_who": request.access.label or request.access.holder,
            "frame_version": self._hub.version,
        }

    def _notice(
        self,
        request: Request,
        page_request: PageRequest,
        message: Message,
        kind: str,
        status: int = 200,
        events: tuple[str, ...] = (),
    ) -> Response:
        context = {"message": message.render(page_request.lang), "kind": kind}
        response = self._html(request, "layout/notice.html", context, status, page_request)
        _set_htmx_headers(response, events, "#notices", "beforeend")
        return response

    def _failure(
        self, request: Request, page_request: PageRequest, error: TabaneError, method: str
    ) -> Response:
        status = _status_of(error)
        if isinstance(error, Unauthorized):
            return _unauthorized(request)
        if request.headers.get("accept", "").startswith("application/json"):
            return JSONResponse({"error": error.text(page_request.lang)}, status, NOT_KEPT)
        if method != "GET" or page_request.partial:
            return self._notice(request, page_request, error.message, "error", status)
        if isinstance(error, Forbidden):
            return self._page(request, page_request, _forbidden_page(request.url.path, page_request, error))
        title = say("Not found") if status == 404 else say("This page cannot be shown")
        missing = request.url.path if status == 404 else ""
        areas = (each for each in visible(page_request.may) if each.path != "/")
        area = next((each for each in areas if missing.startswith(f"{each.path}/")), None)
        context = {"message": error.text(page_request.lang), "area": area}
        page = WholePage("layout/error.html", title, context, status=status)
        return self._page(request, page_request, page)

    def _html(
        self,
        request: Request,
        template: str,
        context: Any,
        status: int = 200,
        page_request: PageRequest | None = None,
    ) -> Response:
        lang = page_request.lang if page_request else language_of(request.headers, _visit(request).lang)
        may = page_request.may if page_request else _may_nothing
        body = self._renderer.render(template, lang, may, context)
        return Response(body, status, NOT_KEPT, "text/html")

    def _not_found(self, request: Request, page_request: PageRequest) -> Response:
        path = request.url.path
        if request.method != "GET" or page_request.partial:
            text = say("There is no page at {path}.", path=path)
            return self._failure(request, page_request, UnknownName(text), request.method)
        words = " ".join(path.replace("-", " ").replace("/", " ").split())
        context = {"path": path, "words": words, "places": visible(page_request.may)[:8]}
        page = WholePage("layout/not_found.html", say("Not found"), context, status=404)
        return self._page(request, page_request, page)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        status = cast("HTTPException", error).status_code
        if status == 404 and request.method == "GET" and FROM_HTMX not in request.headers:
            return self._shell(request)
        if status == 404:
            page_request = await self._page_request(request)
            if page_request is None:
                return _unauthorized(request)
            return await packed(request, self._not_found(request, page_request))
        return PlainTextResponse(f"{status}", status, NOT_KEPT)


SMALLEST_PACKED = 1 << 10
"""Bytes of an answer from which on it is compressed."""

PACKED_ASIDE = 64 << 10
"""Bytes from which on that is done in a thread."""

_PACKED_TYPES = ("text/html", "application/json")


async def packed(request: Request, response: Response) -> Response:
    """Compress an answer to a page's request with gzip, if the browser takes that and it is worth it.

    The length of a compressed answer may tell something of it to whoever chooses a part of it and sees its
    length (BREACH). Nobody else can do the former: only the page itself knows the secret that its requests
    need, other sites get an answer without data, and that one, :meth:`WebApp._shell`, is not compressed. Nor
    has any answer the cookie or the page's secret; the one of a sign-in does not come here.
    """
    body = bytes(response.body)
    accepted = "gzip" in request.headers.get("accept-encoding", "")
    if len(body) < SMALLEST_PACKED or not (response.media_type or "").startswith(_PACKED_TYPES):
        return response
    response.headers["vary"] = f"{response.headers['vary']}, accept-encoding"
    if accepted:
        if len(body) < PACKED_ASIDE:
            response.body = gzip.compress(body, 6, mtime=0)
        else:
            response.body = await asyncio.to_thread(gzip.compress, body, 6, mtime=0)
        response.headers["content-encoding"] = "gzip"
        response.headers["content-length"] = str(len(response.body))
    return response


def _forbidden_page(path: str, request: PageRequest, error: Forbidden) -> WholePage:
    """Return a page that says what may not be seen, what would allow it, and what else there is."""
    entry = next(
        (each for each in ENTRIES if each.path != "/" and f"{path}/".startswith(f"{each.path}/")), None
    )
    context = {
        "who": request.access.label or request.access.holder,
        "page_name": entry.label if entry else None,
        "needs": entry.needs if entry and not request.may(entry.needs) else "",
        "message": error.text(request.lang),
        "pages": [each for each in visible(request.may) if each.path != "/"],
    }
    return WholePage("layout/forbidden.html", say("Not allowed"), context, status=403)


def _visit(request: Request) -> Visit:
    return cast("Visit", request.scope[VISIT])


def _may_nothing(operation: str) -> bool:
    return False


def _unauthorized(request: Request) -> Response:
    lang = language_of(request.headers, _visit(request).lang)
    text = say("Your session has ended. Sign in again.").render(lang)
    return JSONResponse({"error": text}, 401, NOT_KEPT)


def _status_of(error: TabaneError) -> int:
    if isinstance(error, Forbidden):
        return 403
    if isinstance(error, UnknownName):
        return 404
    if isinstance(error, RateLimited):
        return 429
    if isinstance(error, InternalFailure):
        return 500
    return 422 if isinstance(error, CallerError) else 502


def _set_htmx_headers(
    response: Response, events: tuple[str, ...], retarget: str = "", swap: str = ""
) -> None:
    """Add the headers that htmx reads: events for the page, and another place for the content."""
    if events:
        response.headers["hx-trigger"] = json.dumps(dict.fromkeys(events, True))
    if retarget:
        response.headers["hx-retarget"] = retarget
        response.headers["hx-reswap"] = swap or "innerHTML"


def make_app(hub: WebHub) -> WebApp:
    """Return the application of a hub."""
    log.info("the web page is loaded")
    return WebApp(hub)
