"""A real hub with the web page, and browsers that are signed in to it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, Page, StorageState
from playwright.sync_api import Error as BrowserError

from tests.harness.home import Home
from tests.harness.patience import LONG
from tests.harness.ports import reserved_port
from tests.web.browser.guard import PageGuard

Language = Literal["en", "ja"]
Theme = Literal["light", "dark"]

PATIENCE = float(os.environ.get("TABANE_TEST_PATIENCE", LONG)) * 1000
"""Milliseconds that only a hang reaches."""

WIDTHS = (390, 1024, 1600)
"""CSS pixels: a phone, a small and a wide screen."""

_LOCALES: Mapping[Language, str] = {"en": "en-US", "ja": "ja-JP"}

_LASTING_NOTICES = """(() => {
    const later = setTimeout;
    window.setTimeout = (work, wait, ...more) => later(work, wait === 6000 ? 60000 : wait, ...more);
})()"""
"""Notices stay for a minute: a test that comes late to its turn would not see them in their six seconds."""


class WebHome(Home):
    """A home whose hub serves the page at a port of its own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder)
        self.port = reserved_port(self)  # it stays the same when the hub restarts
        self.environment |= {"TABANE_HTTP": "true", "TABANE_PORT": str(self.port), "TABANE_MODEL": "none"}
        self.environment |= {f"TABANE_{name.upper()}": value for name, value in settings.items()}
        del self.environment["TABANE_LIST_WAIT"]  # the page changes this setting
        self.write_servers({})

    @property
    def url(self) -> str:
        """The address of the page, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    def must(self, *arguments: str) -> str:
        """Run a command that must succeed, and return its output."""
        return self.run(*arguments).succeeded.out

    def start(self) -> None:
        self.must("start")

    def stop(self) -> None:
        self.must("stop")

    def link(self) -> str:
        """Return a link that signs one browser in, once."""
        return self.must("open", "--print").strip()

    def rpc(self, operation: str, /, **params: Any) -> Any:
        """Call an operation as the local user."""
        return json.loads(self.must("rpc", operation, "--params", json.dumps(params)))


class WebBrowsers:
    """Browser contexts for one hub: each is a browser of its own, with its own cookies."""

    def __init__(self, browser: Browser, home: WebHome) -> None:
        self.home = home
        self._browser = browser
        self._state: StorageState | None = None
        self._open: list[tuple[BrowserContext, PageGuard]] = []
        self._permitted: list[str] = []

    def context(
        self,
        *,
        lang: Language = "en",
        theme: Theme = "light",
        width: int = 1024,
        height: int = 800,
        signed_in: bool = True,
        state: StorageState | None = None,
    ) -> tuple[BrowserContext, PageGuard]:
        """Return a new browser; ``state`` is what it has kept.

        A link signs in only the first one. Others get a copy of its session.
        """
        if state is None and signed_in:
            state = self._signed_in()
        context = self._browser.new_context(
            base_url=self.home.url,
            locale=_LOCALES[lang],
            timezone_id="Asia/Tokyo",
            color_scheme=theme,
            reduced_motion="reduce",
            viewport={"width": width, "height": height},
            storage_state=state,
        )
        context.set_default_timeout(PATIENCE)
        context.set_default_navigation_timeout(PATIENCE)
        context.add_init_script(_LASTING_NOTICES)
        guard = PageGuard(context, self.home.url)
        guard.permit(*self._permitted)
        self._open.append((context, guard))
        return context, guard

    def page(self, path: str = "", **options: Any) -> Page:
        """Return a page of a new browser, shown at ``path`` if that is given."""
        context, _ = self.context(**options)
        page = context.new_page()
        if path:
            show(page, path)
        return page

    def permit(self, *patterns: str) -> None:
        """Permit problems that match one of the regular expressions, in all browsers of this test."""
        self._permitted += patterns
        for _, guard in self._open:
            guard.permit(*patterns)

    def close(self) -> list[str]:
        """Close all browsers. Returns what went wrong in them."""
        problems: list[str] = []
        for context, guard in self._open:
            problems += guard.problems()
            context.close()
        self._open.clear()
        self._permitted.clear()
        return problems

    def _signed_in(self) -> StorageState:
        if self._state is None:
            context = self._browser.new_context()
            page = context.new_page()
            page.goto(self.home.link())
            wait_for_page(page)
            self._state = context.storage_state()
            context.close()
        return self._state


def show(page: Page, path: str) -> None:
    """Show a page, and wait until its content is there."""
    page.goto(path)
    wait_for_page(page)


def wait_for_page(page: Page) -> None:
    """Wait until the content of the page is shown: its heading, or why there is none."""
    try:
        page.locator("#app :is(h1, .notice.bad)").first.wait_for(timeout=PATIENCE)
    except BrowserError as error:
        raise AssertionError(f"no page at {page.url}:\n{page.content()[:4000]}") from error
    if not page.locator("main h1").count():
        raise AssertionError(f"no page at {page.url}: {page.locator('#app').inner_text()[:2000]}")
