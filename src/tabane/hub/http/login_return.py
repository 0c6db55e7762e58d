"""The address of the hub to which browsers return from a login at a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tabane.hub.http.request import HttpReply, HttpRequest
from tabane.messages import Lang
from tabane.upstreams.logins.callback_page import CallbackPage, page_language

LOGIN_RETURN = "/oauth/callback"
"""Open to everybody: a return is known by its state, which only that browser has, and is used once."""

FinishLogin = Callable[[str, Lang], Awaitable[CallbackPage]]
"""Takes the query of the URL to which a browser returned, and returns the page for it."""


async def login_return(request: HttpRequest, finish: FinishLogin) -> HttpReply:
    """Return the page for a browser that returns from a login."""
    lang = page_language(request.headers.get("accept-language", ""))
    page = await finish(request.scope.get("query_string", b"").decode("latin-1"), lang)
    headers = [(name.encode(), value.encode()) for name, value in CallbackPage.HEADERS.items()]
    headers = [
        (name, value) for name, value in headers if name != b"x-content-type-options"
    ]  # the gate sends it
    return HttpReply(200 if page.fine else 400, page.html(), headers)
