"""Reading of pages with imported cookies: never cached, never shared, never rendered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.operations import Caller
from tabane.reader.cookies.cookie_folder import CookieFolder
from tabane.reader.cookies.imported_cookies import CookieJar
from tabane.reader.fetching import PageFetcher
from tabane.reader.fetching.interface import FetchedResource, SentCookies
from tabane.reader.guard import Target, target
from tabane.reader.page import Page
from tabane.reader.sites.any_page import AnyPageAdapter
from tabane.reader.sites.site_adapter import PageConversion, ReadingTools
from tabane.reader.url_reader import PageCleaner, UrlReader


@dataclass(frozen=True, slots=True)
class CookieDecision:
    """The cookies with which a page is read, or a warning why imported ones are not used."""

    jar: CookieJar | None = None
    warning: Message | None = None


class PrivateReader:
    """Reads pages of hosts whose cookies were imported.

    ``allowed`` says whether a caller may use the cookies, and ``fetcher`` returns its connections. Adapters
    of single sites are not used, because they ask other hosts, and no browser, because the scripts of a page
    could send anything anywhere.
    """

    def __init__(
        self,
        folder: CookieFolder,
        allowed: Callable[[Caller], bool],
        fetcher: Callable[[Caller], PageFetcher],
        conversion: PageConversion,
        show: PageCleaner,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._allowed, self._fetcher = folder, allowed, fetcher
        self._conversion, self._show, self._clock = conversion, show, clock

    async def decide(self, caller: Caller, url: str) -> CookieDecision:
        """Return whether a page is read with cookies. Raises ConfigurationError and StoreError."""
        if not self._folder.is_used or not self._allowed(caller):
            return CookieDecision()
        at = target(url)
        secure = replace(at, scheme="https", port=443) if (at.scheme, at.port) == ("http", 80) else at
        jar = await asyncio.to_thread(self._folder.jar_for, secure)
        if jar is None:
            return CookieDecision()
        if at.scheme != "https":
            return CookieDecision(warning=_only_https(jar, secure))
        if not any(cookie.is_for_host(at) for cookie in jar.cookies):
            return CookieDecision()
        if not any(cookie.is_for_host(at) for cookie in jar.valid(self._clock())):
            return CookieDecision(warning=_expired(jar))
        return CookieDecision(jar)

    async def read(self, caller: Caller, url: str, jar: CookieJar, *, raw: bool = False) -> Page:
        """Return the page, as the site shows it to the person whose cookies these are. Raises ReadError."""
        cookies = SentCookies(jar, target(url).origin)
        tools = ReadingTools(self._fetcher(caller).with_cookies(cookies), self._conversion)
        reader = UrlReader(lambda: tools, general=AnyPageAdapter(_NoRendering()), show=self._show)
        try:
            page = await reader.read(url, raw=raw)
        except ReadError as error:
            if not cookies.sent:
                raise
            message = say(
                "With the imported cookies of {host}: {reason}", host=jar.authority, reason=error.message
            )
            raise ReadError(message, error.cause, status=error.status, wait=error.wait) from None
        if not cookies.sent:
            return page
        return replace(page, private=True, warnings=(*_warnings(jar, target(page.url)), *page.warnings))


class _NoRendering:
    """A renderer that renders nothing, and says why."""

    async def render(self, url: str, *, scrolls: int | None = None) -> FetchedResource | None:
        raise ReadError(say("pages that are read with cookies are not opened in a browser."), "way")


def _warnings(jar: CookieJar, at: Target) -> list[Message]:
    said = [
        say(
            "Private: this page was read with the imported cookies of {host}. It is not cached, and must not "
            "be passed on.",
            host=jar.authority,
        )
    ]
    if not jar.covers(at):
        said.append(
            say(
                "The site redirected to {place}, where the cookies are not sent. If this is a login page, "
                "sign in with your browser and import the cookies again: tabane reader cookies {host} FILE",
                place=at.authority, host=jar.authority,
            )
        )  # fmt: skip
    return said


def _only_https(jar: CookieJar, secure: Target) -> Message:
    return say(
        "The imported cookies of {host} are sent only over HTTPS, so the page was read without them. Read "
        "{url} to use them.",
        host=jar.authority, url=secure.url,
    )  # fmt: skip


def _expired(jar: CookieJar) -> Message:
    return say(
        "The imported cookies of {host} have expired, so the page was read without them. Sign in with your "
        "browser and import them again: tabane reader cookies {host} FILE",
        host=jar.authority,
    )
