"""The application: routes of all pages, and what surrounds their content."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tabane.errors import (
    CallerError,
    Forbidden,
    RateLimited,
    TabaneError,
    Unauthorized,
    UnknownName,
    upgraded,
)
from tabane.messages import Message, say
from tabane.web import app_sandbox, navigation
from tabane.web.assets import Assets
from tabane.web.events import EventStreams
from tabane.web.headers import KEPT, NOT_KEPT
from tabane.web.hub import VISIT, Visit, WebHub
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
)
from tabane.web.page_table import page_routes
from tabane.web.paths import APP_SANDBOX
from tabane.web.rendering import TemplateRenderer
from tabane.web.sign_in import PAGE_HEADER, SignIn, caller_of, language_of

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
        body = self._renderer.render("layout/shell.html", lang, _nothing, {"version": self._hub.version})
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
            domains = app_sandbox.domains_of(request.query_params.multi_items())
        except ValueError as error:
            return PlainTextResponse(str(error), 400, NOT_KEPT)
        return Response(app_sandbox.DOCUMENT, 200, app_sandbox.headers(domains), "text/html")

    # -- pages -----------------------------------------------------------------------------------

    def _route(self, route: PageRoute) -> Route:
        async def answered(request: Request) -> Response:
            if (
                route.method == "GET"
                and FROM_HTMX not in request.headers
                and PAGE_HEADER not in request.headers
            ):
                return self._shell(request)
            found = await self._sign_in.found(request)
            if found is None:
                return _unauthorized(request)
            caller = caller_of(found, language_of(request.headers, _visit(request).lang))
            asked = PageRequest(request, self._hub, caller, found.session)
            event = self._hub.feed.last
            try:
                answer = await route.handler(asked)
                return self._response(request, asked, answer, event)
            except TabaneError as error:
                return self._failure(request, asked, error, route.method)
            except ClientDisconnect:
                return Response(status_code=499)
            except Exception as error:
                log.exception("the page %s failed", request.url.path)
                failure = upgraded(error) or InternalFailure(
                    say("The page failed. The reason is in the hub's log: tabane logs")
                )
                return self._failure(request, asked, failure, route.method)

        return Route(route.path, answered, methods=[route.method])

    def _response(self, request: Request, asked: PageRequest, answer: PageAnswer, event: str) -> Response:
        """Return the answer. ``event`` is the id of the last event before the page was made."""
        match answer:
            case WholePage():
                response = self._page(request, asked, answer)
                response.headers["tabane-event"] = event
                return response
            case Fragment():
                response = self._html(request, answer.template, answer.context, answer.status, asked)
                _tell(response, answer.events, answer.retarget)
                return response
            case Notice():
                return self._notice(request, asked, answer.message, answer.kind, answer.status, answer.events)
            case Redirect():
                response = Response(status_code=204, headers=NOT_KEPT)
                response.headers["tabane-location"] = answer.url
                if answer.message is not None:
                    response.headers["tabane-notice"] = quote(answer.message.render(asked.lang))
                return response
            case FileDownload():
                name = f"attachment; filename*=UTF-8''{quote(answer.name, safe='')}"
                headers = {**NOT_KEPT, "content-disposition": name}
                return Response(answer.data, 200, headers, answer.type)
            case Json():
                return JSONResponse(answer.value, answer.status, NOT_KEPT)
            case RawJson():
                return Response(answer.body, 200, NOT_KEPT, "application/json")

    def _page(self, request: Request, asked: PageRequest, page: WholePage) -> Response:
        whole = WHOLE in request.headers
        context: dict[str, Any] = {
            **page.context,
            "page_title": page.title.render(asked.lang),
            "page_module": page.module,
            "page_template": page.template,
        }
        if whole:
            context |= {
                "frame_entries": navigation.visible(asked.may),
                "frame_groups": navigation.GROUPS,
                "frame_who": asked.access.label or asked.access.holder,
                "frame_version": self._hub.version,
            }
        template = "layout/whole.html" if whole else "layout/content.html"
        response = self._html(request, template, context, page.status, asked)
        if page.module:
            response.headers["tabane-module"] = page.module
        return response

    def _notice(
        self,
        request: Request,
        asked: PageRequest,
        message: Message,
        kind: str,
        status: int = 200,
        events: tuple[str, ...] = (),
    ) -> Response:
        context = {"message": message.render(asked.lang), "kind": kind}
        response = self._html(request, "layout/notice.html", context, status, asked)
        _tell(response, events, "#notices", "beforeend")
        return response

    def _failure(self, request: Request, asked: PageRequest, error: TabaneError, method: str) -> Response:
        status = _status(error)
        if isinstance(error, Unauthorized):
            return _unauthorized(request)
        if request.headers.get("accept", "").startswith("application/json"):
            return JSONResponse({"error": error.text(asked.lang)}, status, NOT_KEPT)
        if method != "GET" or asked.partial:
            return self._notice(request, asked, error.message, "error", status)
        title = say("Not found") if status == 404 else say("This page cannot be shown")
        page = WholePage("layout/error.html", title, {"message": error.text(asked.lang)}, status=status)
        return self._page(request, asked, page)

    def _html(
        self,
        request: Request,
        template: str,
        context: Any,
        status: int = 200,
        asked: PageRequest | None = None,
    ) -> Response:
        lang = asked.lang if asked else language_of(request.headers, _visit(request).lang)
        may = asked.may if asked else _nothing
        body = self._renderer.render(template, lang, may, context)
        return Response(body, status, NOT_KEPT, "text/html")

    async def _http_error(self, request: Request, error: Exception) -> Response:
        status = cast("HTTPException", error).status_code
        if status == 404 and request.method == "GET" and FROM_HTMX not in request.headers:
            return self._shell(request)
        if status == 404:
            found = await self._sign_in.found(request)
            if found is None:
                return _unauthorized(request)
            caller = caller_of(found, language_of(request.headers, _visit(request).lang))
            asked = PageRequest(request, self._hub, caller, found.session)
            text = say("There is no page at {path}.", path=request.url.path)
            return self._failure(request, asked, UnknownName(text), request.method)
        return PlainTextResponse(f"{status}", status, NOT_KEPT)


def _visit(request: Request) -> Visit:
    return cast("Visit", request.scope[VISIT])


def _nothing(operation: str) -> bool:
    return False


def _unauthorized(request: Request) -> Response:
    lang = language_of(request.headers, _visit(request).lang)
    text = say("Your session has ended. Sign in again.").render(lang)
    return JSONResponse({"error": text}, 401, NOT_KEPT)


def _status(error: TabaneError) -> int:
    if isinstance(error, Forbidden):
        return 403
    if isinstance(error, UnknownName):
        return 404
    if isinstance(error, RateLimited):
        return 429
    if isinstance(error, InternalFailure):
        return 500
    return 422 if isinstance(error, CallerError) else 502


def _tell(response: Response, events: tuple[str, ...], retarget: str = "", swap: str = "") -> None:
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
