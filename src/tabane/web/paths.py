"""Paths that belong to the web page. Pure, and imported before the page is."""

from __future__ import annotations

from collections.abc import Mapping

SIGN_IN = "/sign-in"
STATIC = "/static"
EVENTS = "/events"

AREAS = frozenset(
    {
        "", "activity", "approvals", "assistants", "audit", "documents", "flows", "health", "home", "jobs",
        "keys", "palette", "posts", "preferences", "profiles", "models", "questions", "reader", "search",
        "servers", "settings", "changes", "tools", "usage",
    }
)  # fmt: skip
"""First parts of the paths of pages; "" is the home page."""

APP_SANDBOX = "/app-sandbox"

_OTHERS = frozenset({"sign-in", "sign-out", "static", "events", "favicon.ico", "app-sandbox"})


def is_web_path(path: str) -> bool:
    """Return whether the web page answers at a path."""
    first = path.removeprefix("/").partition("/")[0]
    return first in _OTHERS or first in AREAS


def is_page_wanted(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a browser asks for a page, at whichever path. Programs get JSON where nothing is."""
    return method == "GET" and "text/html" in headers.get("accept", "")
