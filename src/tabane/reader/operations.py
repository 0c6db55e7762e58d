"""Implementation of the operations on pages: read one, remember one, list and forget cached ones.

They are declared in :mod:`tabane.reader.table`; all of this is imported when the first is called. Pages that
are read with imported cookies are never cached, never shared and never rendered.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from tabane.errors import BadArguments, ReadError, TabaneError
from tabane.messages import Message, say
from tabane.operations import Caller, Face
from tabane.reader import result_text
from tabane.reader.cookies import CookieFolder, CookieJar
from tabane.reader.fetching import PageFetcher
from tabane.reader.fetching.interface import FetchedResource, SentCookies
from tabane.reader.guard import Target, target
from tabane.reader.hidden_text import without_links
from tabane.reader.page import NOT_KEPT, Page
from tabane.reader.page_cache import PageCache
from tabane.reader.paging import PageCursor, decode, digest, encode, part, tokens
from tabane.reader.plain_text import plain
from tabane.reader.sites.any_page import AnyPageAdapter
from tabane.reader.sites.site_adapter import PageConversion, ReadingTools
from tabane.reader.table import (
    DEFAULT_TOKENS,
    LEAST_TOKENS,
    MOST_LISTED,
    ForgetPage,
    Format,
    ListPages,
    ReadUrl,
    RememberUrl,
)
from tabane.reader.url_reader import PageCleaner, UrlReader
from tabane.text.invisible_characters import cleaned

Remember = Callable[[Caller, Page], Awaitable[str]]
"""Adds a page to the documents and returns its key. Raises TabaneError if it cannot be added."""

_AROUND = 120  # tokens of the note, the fence and how to go on


class ReaderOperations:
    """The operations on pages. ``reading`` returns the reader for a caller.

    ``default`` returns the tokens of a part if the caller gives no number. ``private`` reads the pages of
    hosts whose cookies were imported, and ``noted`` is told that a caller gets such a page.
    """

    def __init__(
        self,
        reading: Callable[[Caller], UrlReader],
        shelf: PageCache | None = None,
        remember: Remember | None = None,
        *,
        default: Callable[[], int] = lambda: DEFAULT_TOKENS,
        private: PrivateReader | None = None,
        noted: Callable[[Caller], None] = lambda caller: None,
    ) -> None:
        self._reading, self._shelf, self._remember = reading, shelf, remember
        self._default, self._private, self._noted = default, private, noted

    async def read_url_content(self, caller: Caller, params: ReadUrl) -> dict[str, Any]:
        """Return a page or a part of it. Raises ReadError, and BadArguments for a bad URL or a bad cursor.

        The cache keeps the page, which saves a request to the site; no document, file or setting changes.
        """
        cursor = _requested_part(params, self._default())
        page = await self._read_page(caller, params, raw=cursor.form == "raw")
        if params.cursor is not None and cursor.page != await asyncio.to_thread(digest, page.markdown):
            page, cursor = _restart_changed(page, cursor)
        return await asyncio.to_thread(_result_of, page, facts(page, caller), cursor, caller)

    async def remember_url(self, caller: Caller, params: RememberUrl) -> dict[str, Any]:
        """Read the whole page and add it to the documents; return its key there, and its metadata.

        Raises ReadError, and TabaneError if it cannot be added.
        """
        if self._remember is None:
            raise TabaneError(say("Pages cannot be saved, because this hub stores no documents."))
        if (decision := await self._decide_cookies(caller, params.url)).jar is not None:
            raise TabaneError(
                say(
                    "Pages of {host} are read with imported cookies, so they are not saved as documents.",
                    host=decision.jar.authority,
                )
            )
        page = await self._reading(caller).read(params.url, refresh=bool(params.refresh))
        if page.kind in NOT_KEPT:
            raise ReadError(next(iter(page.warnings), say("There is nothing to read.")), "wall")
        key = await self._remember(caller, page)
        return {**facts(page, caller), "remembered": key, "length": len(page.markdown)}

    async def _read_page(self, caller: Caller, params: ReadUrl, *, raw: bool) -> Page:
        """Return the page, with cookies if there are any for it that the caller may use."""
        decision = await self._decide_cookies(caller, params.url)
        scrolls = None if params.cursor else params.scrolls
        if self._private is not None and decision.jar is not None:
            page = await self._private.read(caller, params.url, decision.jar, raw=raw, scrolls=scrolls)
            if page.private:
                self._noted(caller)
            return page
        page = await self._reading(caller).read(
            params.url,
            refresh=bool(params.refresh) and not params.cursor,
            raw=raw,
            settled=params.cursor is not None,
            scrolls=scrolls,
        )
        warnings = () if decision.warning is None else (decision.warning,)
        return replace(page, warnings=(*warnings, *page.warnings))

    async def _decide_cookies(self, caller: Caller, url: str) -> CookieDecision:
        return CookieDecision() if self._private is None else await self._private.decide(caller, url)

    async def list_pages(self, caller: Caller, params: ListPages) -> dict[str, Any]:
        """Return cached pages, those read last first, and the cursor of the next; or the page at one URL."""
        if self._shelf is None:
            return {"results": []}
        if params.url is not None:
            row = await self._shelf.row(_normal_url(params.url))
            return {"results": [row._asdict()] if row else []}
        rows, after = await self._shelf.rows(params.site, params.limit or MOST_LISTED, params.after)
        found: dict[str, Any] = {"results": [row._asdict() for row in rows]}
        if params.sites:
            found["sites"] = [{"site": site, "pages": count} for site, count in await self._shelf.sites()]
        return {**found, "next_cursor": after} if after else found

    async def forget_page(self, caller: Caller, params: ForgetPage) -> dict[str, Any]:
        """Delete the page at a URL from the cache; return how many copies there were."""
        return {"forgotten": await self._shelf.forget(params.url) if self._shelf else 0}


def _requested_part(params: ReadUrl, default: int) -> PageCursor:
    """Return the requested part: by the cursor if there is one, else by the parameters."""
    url = _normal_url(params.url)
    if params.cursor is None:
        budget = params.max_tokens or default
        return PageCursor(0, params.format or "markdown", params.links is not False, budget, b"", digest(url))
    cursor = decode(params.cursor, url)
    return cursor._replace(budget=params.max_tokens) if params.max_tokens else cursor


def _restart_changed(page: Page, cursor: PageCursor) -> tuple[Page, PageCursor]:
    """Return a page that is another one than that of the cursor, and where to go on.

    A private page is not cached, and may differ with each request: then starting again would never end.
    """
    if page.private:
        warning = say(
            "The page has changed since the cursor was issued. This part begins where the last one ended, so "
            "text may be missing or repeated."
        )
        return replace(page, warnings=(*page.warnings, warning)), cursor
    warning = say("The page has changed since the cursor was issued. This is the start of the new page.")
    return replace(page, warnings=(*page.warnings, warning)), cursor._replace(start=0)


def _normal_url(url: str) -> str:
    """Return the normalized URL. Raises BadArguments that names the parameter."""
    try:
        return target(url).url
    except ReadError as error:
        raise BadArguments(
            say("{parameter}: {detail}", parameter="url", detail=error.message), "url"
        ) from None


def facts(page: Page, caller: Caller) -> dict[str, Any]:
    """Return the metadata of a page, as JSON, without missing values."""
    known = {
        "url": page.url,
        "title": page.title,
        "author": page.author,
        "date": page.date,
        "site": page.site,
        "language": page.lang,
        "canonical": page.canonical if page.canonical != page.url else None,
        "private": page.private or None,
        "kind": page.kind or None,
        "way": page.way,
        "share": None if page.share is None else round(page.share, 2),
        "media_type": page.media_type,
    }
    found: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
    found["warnings"] = [warning.render(caller.lang) for warning in dict.fromkeys(page.warnings)]
    return found


def _result_of(page: Page, value: dict[str, Any], cursor: PageCursor, caller: Caller) -> dict[str, Any]:
    """Return the facts with the part that is wanted of the content."""
    whole = page.markdown if cursor.links or cursor.form == "raw" else without_links(page.markdown)
    place = {"start": cursor.start, "end": len(whole), "length": len(whole)}
    around = tokens(result_text.head({**value, **place}, caller.lang)) + _AROUND
    budget = max(cursor.budget - around, LEAST_TOKENS // 2)
    found = part(whole, min(cursor.start, len(whole)), budget, structured=cursor.form != "raw")
    place = {"start": found.start, "end": found.end, "length": len(whole)}
    value = {**value, "format": cursor.form, "content": _in_format(found.text, cursor.form), **place}
    if caller.face is not Face.MCP:
        value["tokens"] = tokens(found.text)
    if not found.last:
        place_of_next = cursor._replace(start=found.end, page=digest(page.markdown))
        value["next_cursor"] = encode(place_of_next)
        value["tokens_left"] = tokens(whole[found.end :])
    if page.pictures:
        value["pictures"] = [
            {"media_type": picture.media_type, "data": base64.b64encode(picture.data).decode()}
            for picture in page.pictures
        ]
    return value


def _in_format(markdown: str, form: Format) -> str:
    if form == "text":
        return plain(markdown)
    if form != "html":
        return markdown
    # 40 ms to import, for the few who ask for it.
    from markdown_it import MarkdownIt

    written = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).render(markdown)
    return cleaned(str(written)).text  # entities may have become characters that nobody sees


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
            return CookieDecision(warning=_expired_warning(jar))
        return CookieDecision(jar)

    async def read(
        self, caller: Caller, url: str, jar: CookieJar, *, raw: bool = False, scrolls: int | None = None
    ) -> Page:
        """Return the page, as the site shows it to the person whose cookies these are. Raises ReadError."""
        cookies = SentCookies(jar, target(url).origin)
        tools = ReadingTools(self._fetcher(caller).with_cookies(cookies), self._conversion)
        reader = UrlReader(tools, general=AnyPageAdapter(_NoRendering()), show=self._show)
        try:
            page = await reader.read(url, raw=raw, scrolls=scrolls)
        except ReadError as error:
            if not cookies.sent:
                raise
            message = say(
                "With the imported cookies of {host}: {reason}", host=jar.authority, reason=error.message
            )
            raise ReadError(message, error.cause, status=error.status, wait=error.wait) from None
        if not cookies.sent:
            return page
        warnings = [
            say(
                "Private: this page was read with the imported cookies of {host}. It is not cached, and must "
                "not be passed on.",
                host=jar.authority,
            )
        ]
        at = target(page.url)
        if not jar.covers(at):
            warnings.append(
                say(
                    "The site redirected to {place}, where the cookies are not sent. If this is a login "
                    "page, sign in with your browser and import the cookies again: tabane reader cookies "
                    "{host} FILE",
                    place=at.authority,
                    host=jar.authority,
                )
            )
        return replace(page, private=True, warnings=(*warnings, *page.warnings))


class _NoRendering:
    """A renderer that renders nothing, and says why."""

    async def render(self, url: str, *, scrolls: int | None = None) -> FetchedResource | None:
        raise ReadError(say("pages that are read with cookies are not opened in a browser."), "way")


def _only_https(jar: CookieJar, secure: Target) -> Message:
    return say(
        "The imported cookies of {host} are sent only over HTTPS, so the page was read without them. Read "
        "{url} to use them.",
        host=jar.authority, url=secure.url,
    )  # fmt: skip


def _expired_warning(jar: CookieJar) -> Message:
    return say(
        "The imported cookies of {host} have expired, so the page was read without them. Sign in with your "
        "browser and import them again: tabane reader cookies {host} FILE",
        host=jar.authority,
    )
