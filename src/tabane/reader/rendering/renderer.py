"""The renderer of the product. Its libraries are imported with the first page that needs it."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.fetching.interface import FetchedResource, Policy, Resolver, SystemResolver
from tabane.reader.rendering.chromium import RenderLimits, browser

if TYPE_CHECKING:
    from tabane.reader.fetching.guarded_connections import Source
    from tabane.reader.rendering.browser_process import RenderedPage


class PageRenderer:
    """Shows pages in a browser, one at a time: see :class:`~tabane.reader.sites.any_page.Renderer`.

    ``policy`` is that of fetching, asked at each page: hosts, ports and the User-Agent hold here too. Its
    ``ca`` does not: the browser trusts the authorities of its system. Nothing is rendered if the policy has a
    ``proxy``, which the egress proxy does not support. robots.txt was obeyed when the page was fetched. As in
    every browser, it is not asked for what the page's scripts fetch.

    ``program`` is asked at each page too: the path or name of the browser, "" for the first that is found,
    None for none at all. ``sandbox``: whether the browser has to confine its own processes; False is for a
    place that confines them otherwise, such as a container where the system does not let it. It is not
    dropped on its own, and root is no reason to: a root runs the browser as a user that has nothing.

    It belongs to the event loop that it first renders on.

    Causes of its ReadErrors: refused, url, scheme, dns, connect, timeout, status, rate, type, large, broken,
    and ``way`` where the browser does not run here.
    """

    def __init__(
        self,
        policy: Callable[[], Policy],
        program: Callable[[], str | None],
        environ: Mapping[str, str],
        *,
        sandbox: Callable[[], bool] = lambda: True,
        limits: RenderLimits | None = None,
        resolve: Resolver | None = None,
        source: Source | None = None,
        errors: int | None = None,
    ) -> None:
        self._policy, self._program, self._environ, self._sandbox = policy, program, environ, sandbox
        self._limits, self._errors = limits or RenderLimits(), errors
        self._resolve, self._source = resolve or SystemResolver(), source
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._page: RenderedPage | None = None
        self._closed = False

    async def render(self, url: str) -> FetchedResource | None:
        """Return the page as HTML after its programs ran; None if no browser is wanted or there is none.

        Raises ReadError, and ConfigurationError where the policy allows what is no host.
        """
        named = self._program()
        if named is None:
            return None
        found = await asyncio.to_thread(browser, named, self._environ)
        if found is None:
            if named:
                raise ReadError(
                    say("there is no browser {path}. Fix the setting reader_browser.", path=named), "way"
                )
            return None
        if self._waiting > self._limits.waiting:
            raise ReadError(
                say("too many pages are waiting for the browser. Try again later."), "rate", wait=5.0
            )
        self._waiting += 1
        try:
            async with self._turn:
                return await self._shown(found, url)
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """End the browser; a page that is being shown fails."""
        self._closed = True
        if self._page is not None:
            await self._page.end()
        async with self._turn:
            pass

    async def _shown(self, program: str, url: str) -> FetchedResource:
        # In a thread: it takes a while, in which the hub has other things to do.
        await asyncio.to_thread(importlib.import_module, "tabane.reader.rendering.browser_process")
        from tabane.reader.fetching.guarded_connections import source
        from tabane.reader.rendering.browser_process import RenderedPage

        if self._closed:
            raise ReadError(say("The reader is stopping."), "broken")
        page = self._page = RenderedPage(
            self._policy(), self._limits, self._resolve, self._source or source, self._errors
        )
        try:
            return await page.shown(program, url, sandbox=self._sandbox())
        finally:
            self._page = None
