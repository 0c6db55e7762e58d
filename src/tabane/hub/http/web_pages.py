"""The web page over HTTP. Its application is loaded with the first request for a page."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from tabane.build import this_build
from tabane.errors import RateLimited, Unauthorized
from tabane.hub.http.authentication import Authenticator, RefusedCredential, UncheckedCredential
from tabane.hub.http.gate import HttpGate
from tabane.hub.http.request import HttpRequest, refusal
from tabane.hub.http.sources import source_of
from tabane.messages import say
from tabane.operations import Access, Door
from tabane.web.hub import VISIT, LiveFeed, Visit
from tabane.web.sessions import WebSessions
from tabane.web.sign_in_links import SignInLinks

if TYPE_CHECKING:
    from tabane.hub.http.door import HttpDoor
    from tabane.web.app import WebApp
    from tabane.web.markdown import MarkdownRenderer

SESSIONS = "web-sessions.json"
_APP = "tabane.web.app"


class WebPages:
    """Answers requests for pages. ``draining`` tells whether the hub takes no new request.

    ``environ`` is the environment of the hub, for its worker processes.
    """

    def __init__(
        self,
        hub_door: HttpDoor,
        gate: HttpGate,
        authenticator: Authenticator,
        draining: Callable[[], bool],
        environ: Mapping[str, str],
    ) -> None:
        self._http, self._gate, self._authenticator, self._draining = hub_door, gate, authenticator, draining
        self._environ = environ
        self._markdown: MarkdownRenderer | None = None
        self._loading: asyncio.Task[WebApp] | None = None
        self._app: WebApp | None = None
        self._closed = False

    # -- requests --------------------------------------------------------------------------------

    @property
    def streams(self) -> int:
        """Return the number of browsers that follow the hub."""
        return self._app.streams if self._app else 0

    async def answer(self, request: HttpRequest) -> None:
        """Answer a request for a page. Raises RefusedRequest."""
        if self._draining():
            raise refusal(503, "The hub is stopping.", (b"retry-after", b"1"))
        if self._app is None:
            self._loading = self._loading or asyncio.ensure_future(self._load())
            self._app = await asyncio.shield(self._loading)
        visit = Visit(
            source_of(request.origin.address),
            self._gate.language(request),
            request.origin.tls,
            self._authenticator.token is None and request.origin.local,
            lambda: self._closed or self._draining(),
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

    # -- the hub, as the page uses it ------------------------------------------------------------

    @property
    def door(self) -> Door:
        return self._http.rpc

    @property
    def feed(self) -> LiveFeed:
        return self._http.hub.audit.live

    @cached_property
    def sessions(self) -> WebSessions:
        path = self._http.settings.home / SESSIONS
        return WebSessions(path, time.time, self._http.identities.restore)

    @property
    def markdown(self) -> MarkdownRenderer:
        if self._markdown is None:
            from tabane.web.markdown import MarkdownRenderer

            self._markdown = MarkdownRenderer(self._environ, errors=2)
        return self._markdown

    @property
    def links(self) -> SignInLinks:
        return self._http.links

    @property
    def cookie(self) -> str:
        return f"tabane-{self._http.port}"

    @property
    def version(self) -> str:
        return this_build().name

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
        self._http.identities.on_signed_in(access.holder, source)
