"""What must not happen in a page: errors in the console, violations of its policy, requests to elsewhere."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Error, Page, Request, WebError

_OWN = frozenset({"data", "blob", "about"})
"""Schemes of URLs that ask nobody."""

_INVALID_FORM = "the server responded with a status of 422"
"""What Chromium writes to the console if a form comes back with messages beside its fields."""

INTERRUPTED = (r"net::ERR_\w+", "status of 503")
"""What it writes while the hub restarts."""


class PageGuard:
    """Records what goes wrong in the pages of a browser context; ``origin`` is the hub's."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self._origin = urlsplit(origin).netloc
        self._problems: list[str] = []
        self._permitted: list[re.Pattern[str]] = [re.compile(_INVALID_FORM)]
        context.on("console", self._console)
        context.on("weberror", self._error)
        context.on("request", self._request)

    def permit(self, *patterns: str) -> None:
        """Permit problems that match one of the regular expressions."""
        self._permitted += [re.compile(pattern) for pattern in patterns]

    def problems(self) -> list[str]:
        """Return what went wrong since the last call."""
        found, self._problems = self._problems, []
        return found

    def _note(self, text: str) -> None:
        if not any(pattern.search(text) for pattern in self._permitted):
            self._problems.append(text)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self._note(f"{message.type}: {message.text} ({message.location['url']})")

    def _error(self, error: WebError) -> None:
        self._note(f"exception: {_text(error.error)}")

    def _request(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme not in _OWN and url.netloc != self._origin:
            self._note(f"request to another origin: {request.url}")


def settle(page: Page) -> None:
    """Let the browser deliver the events that it has."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")


def _text(error: Error) -> str:
    return f"{error.name}: {error.message}\n{error.stack or ''}"
