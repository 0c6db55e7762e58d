"""Rendering of pages that need their scripts, in an installed Chromium under the guard.

A new browser is started for each page and ends with it. It has no network access of its own: every connection
goes through a proxy on loopback, which opens only what the guard allows. The rendered page comes back as
HTML, over a socket that no other program has.

browser_watchdog  process that kills the browser and deletes its profile, even if the hub crashes
chromium          where a browser is installed, its command line, the limits of a page, the DevTools protocol
egress_proxy      the only way out: judged, counted, limited
page_visit        the browser of one page, from its start and the URL to the HTML and its end
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.fetching.interface import FetchedResource, Policy, Resolver, SystemResolver
from tabane.reader.rendering.chromium import RenderLimits, browser

if TYPE_CHECKING:
    from tabane.reader.fetching.network import Source
    from tabane.reader.rendering.page_visit import RenderedPage


__all__ = ["PageRenderer", "RenderLimits"]


class BrowserChoice(NamedTuple):
    """``program`` is the path or name of the browser, "" for the first that is found, None to render nothing.

    ``sandbox``: whether the browser has to confine its own processes. False is for an environment that
    confines them itself, such as a container in which the sandbox is not permitted. The sandbox is never
    disabled automatically, also not for root: then the browser runs as a user without any rights. ``scrolls``
    is how many screens pages are scrolled down, to load what they add.
    """

    program: str | None
    sandbox: bool = True
    scrolls: int = 0


class PageRenderer:
    """Renders pages in a browser, one at a time: see :class:`~tabane.reader.sites.any_page.Renderer`.

    ``policy`` is that of fetching, called at each page: its hosts, ports and User-Agent apply here too. Its
    ``ca`` does not: the browser trusts the authorities of its system. Nothing is rendered if the policy has a
    ``proxy``, which the egress proxy does not support. robots.txt was obeyed when the page was fetched. As in
    every browser, it does not apply to the requests of the page's scripts.

    ``choice`` is called at each page too. Use it only on the event loop of its first rendering.

    Causes of its ReadErrors: refused, url, scheme, dns, connect, timeout, status, rate, type, large, broken,
    and ``way`` if the browser does not run here.
    """

    def __init__(
        self,
        policy: Callable[[], Policy],
        choice: Callable[[], BrowserChoice],
        environ: Mapping[str, str],
        *,
        limits: RenderLimits | None = None,
        resolve: Resolver | None = None,
        source: Source | None = None,
        errors: int | None = None,
    ) -> None:
        self._policy, self._choice, self._environ = policy, choice, environ
        self._limits, self._errors = limits or RenderLimits(), errors
        self._resolve, self._source = resolve or SystemResolver(), source
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._page: RenderedPage | None = None
        self._closed = False

    async def render(self, url: str, *, scrolls: int | None = None) -> FetchedResource | None:
        """Return the page as HTML after its scripts ran; None if no browser is wanted or found.

        ``scrolls`` is the number of screens to scroll down, by default that of the settings.
        Raises ReadError, and ConfigurationError if the policy allows something that is not a host.
        """
        choice = self._choice()
        if choice.program is None:
            return None
        program = await asyncio.to_thread(browser, choice.program, self._environ)
        if program is None:
            if choice.program:
                raise ReadError(
                    say("there is no browser {path}. Fix the setting reader_browser.", path=choice.program),
                    "way",
                )
            return None
        if self._waiting > self._limits.waiting:
            raise ReadError(
                say("too many pages are waiting for the browser. Try again later."), "rate", wait=5.0
            )
        self._waiting += 1
        try:
            async with self._turn:
                choice = self._choice()  # settings may have changed during the wait
                if scrolls is not None:
                    choice = choice._replace(scrolls=scrolls)
                return await self._render(program, url, choice)
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """End the browser; a page that is being shown fails."""
        self._closed = True
        if self._page is not None:
            await self._page.end()
        async with self._turn:
            pass

    async def _render(self, program: str, url: str, choice: BrowserChoice) -> FetchedResource:
        # In a thread: it takes a while, in which the hub has other things to do.
        await asyncio.to_thread(importlib.import_module, "tabane.reader.rendering.page_visit")
        from tabane.reader.rendering.page_visit import RenderedPage

        if self._closed:
            raise ReadError(say("The reader is stopping."), "broken")
        page = self._page = RenderedPage(
            self._policy(), self._limits, self._resolve, self._source, self._errors
        )
        try:
            return await page.shown(program, url, sandbox=choice.sandbox, scrolls=choice.scrolls)
        finally:
            self._page = None
