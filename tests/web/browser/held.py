"""Requests and answers that a test holds on their way, to force an order of events."""

from __future__ import annotations

import re

from playwright.sync_api import APIResponse, Page, Route

from tests.web.browser.guard import settle


class Held:
    """Answers to requests that the test lets through one by one."""

    def __init__(self, page: Page, url: str, method: str = "GET") -> None:
        self._page, self._url, self._method = page, re.compile(url), method
        self._routes: list[Route] = []
        self._ended = False
        page.route(self._url, self._route)

    def _route(self, route: Route) -> None:
        if route.request.method == self._method and not self._ended:
            self._routes.append(route)
        else:
            route.fallback()

    def wait(self) -> None:
        """Wait until a request is held."""
        while not self._routes:
            settle(self._page)

    def release(self) -> None:
        """Let everything through that is held."""
        for route in self._routes:
            route.continue_()
        self._routes.clear()

    def end(self) -> None:
        """Let everything through from now on."""
        self._ended = True
        self.release()
        self._page.unroute(self._url, self._route)


class Answered:
    """Answers that the hub has given already, and that reach the page when the test lets them."""

    def __init__(self, page: Page, url: str) -> None:
        self._page, self._url = page, re.compile(url)
        self._answers: list[tuple[Route, APIResponse]] = []
        self._ended = False
        page.route(self._url, self._route)

    def _route(self, route: Route) -> None:
        if self._ended:
            route.fallback()
        else:
            self._answers.append((route, route.fetch()))

    def wait(self) -> None:
        """Wait until the hub has answered."""
        while not self._answers:
            settle(self._page)

    def end(self) -> None:
        """Let them through, and everything from now on."""
        self._ended = True
        for route, answer in self._answers:
            route.fulfill(response=answer)
        self._page.unroute(self._url, self._route)
