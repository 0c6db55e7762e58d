"""Logins of servers that require one: begin, watch, finish with a pasted URL, log out."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tabane.messages import say
from tabane.web.page import Fragment, Notice, PageRequest, PageRoute
from tabane.web.question_forms import shown_link

LINKS = ("url", "verification_url_complete", "verification_url")
"""Members of a login that has begun with a link for the browser, the best first."""


async def login_state(request: PageRequest) -> Fragment:
    """Return the state of a login, as it is now."""
    return Fragment("servers/login.html", await _context(request))


async def start(request: PageRequest) -> Fragment:
    """Begin a login, and show the link to open, or the code to enter on another device."""
    flow = request.query.get("flow") or None
    begun = await request.call(
        "start_login", server=request.path("name"), flow=flow, redirect="hub", restart=True
    )
    address = next((begun[name] for name in LINKS if begun.get(name)), "")
    # A client that acts for itself is logged in at once, without a link.
    context = {"code": begun.get("user_code") or "", "link": shown_link(str(address)) if address else None}
    return Fragment("servers/login.html", {**await _context(request), **context}, events=("servers",))


async def waiting(request: PageRequest) -> Fragment:
    """Return that a login is awaited, or what became of it in place of the whole card."""
    context = await _context(request)
    if context["login"]["state"] == "waiting":
        return Fragment("servers/login_waiting.html")
    return Fragment("servers/login.html", context, retarget="#server-login-state", events=("servers",))


async def finish(request: PageRequest) -> Fragment:
    """Finish a login with the URL to which the browser returned, for a browser of another machine."""
    given = (await request.form()).get("redirected_url", "").strip()
    await request.call("finish_login", redirected_url=given)
    return Fragment("servers/login.html", await _context(request), events=("servers",))


async def logout(request: PageRequest) -> Notice:
    """Revoke and forget the tokens of a server."""
    name = request.path("name")
    found = await request.call("logout_server", server=name)
    said = say("{server!n}: the login was deleted here.", server=name)
    if found.get("revoked"):
        said = say("{server!n}: the login was deleted here, and revoked there.", server=name)
    return Notice(said, events=("servers", "login-over"))


async def _context(request: PageRequest) -> dict[str, Any]:
    name = request.path("name")
    login = await request.call("get_login", server=name)
    return {
        "login": login,
        "name": name,
        "url": f"/servers/{quote(name, safe='/')}",
        "code": "",
        "link": None,
    }


_ONE = "/servers/{name:path}/-/login"

ROUTES = (
    PageRoute(_ONE, login_state),
    PageRoute(f"{_ONE}/waiting", waiting),
    PageRoute(f"{_ONE}/start", start, "POST"),
    PageRoute(f"{_ONE}/finish", finish, "POST"),
    PageRoute(f"{_ONE}/out", logout, "POST"),
)
