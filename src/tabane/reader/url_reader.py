"""Reading of a URL: from the cache, else by the site adapters, one after the other."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

from tabane.errors import ReadError, StoreError
from tabane.messages import Message, say
from tabane.reader.fetching.interface import FetchedResource, Fetcher
from tabane.reader.guard import target
from tabane.reader.hidden_text import (
    hidden_warnings,
    in_words,
    one_line,
    seen_markup,
    warnings_of,
    with_whole_links,
    without_comments,
)
from tabane.reader.page import BARRED, NOT_KEPT, Page
from tabane.reader.sites.any_page import AnyPageAdapter, PageSourceAdapter
from tabane.reader.sites.site_adapter import (
    PageAdapter,
    ReadingTools,
    SiteAdapter,
    fallback_warning,
    read_site,
)
from tabane.text.invisible_characters import cleaned

log = logging.getLogger(__name__)

_Value = TypeVar("_Value")

FRESH = 15 * 60.0
"""Seconds for which a cached page is fresh."""

LIMIT = 90.0
"""Seconds for one page by all ways together."""

# The causes that explain a failure best come first: the others often follow from them.
_TELLING = (
    "url", "scheme", "refused", "key", "rate", "robots", "large", "type", "wall", "status", "tls", "dns",
    "connect", "timeout", "redirect", "javascript", "empty", "broken", "way",
)  # fmt: skip

# Markdown as its author wrote it, with relative links.
_AS_WRITTEN = frozenset({"markdown", "llms.txt"})

# What such pages contain is shown as it is, also what would be HTML in Markdown.
_NOT_MARKDOWN = frozenset({"plain", "csv", "json", "xml"})

_LINES = re.compile(r"#L\d{1,7}(?:C\d{1,7})?(?:-L?\d{1,7}(?:C\d{1,7})?)?$")

# Transient failures: then an older copy of the page is better than none.
_PASSING = frozenset({"dns", "connect", "tls", "timeout", "rate", "wall"})


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """``off`` are names of sites whose pages are read as any others; a page is new for ``fresh`` seconds."""

    off: Collection[str] = ()
    fresh: float = FRESH


@dataclass(frozen=True, slots=True)
class CacheValidators:
    """The request and the validators with which a site can be asked whether a page has changed."""

    url: str
    accept: str | None
    etag: str | None
    last_modified: str | None

    def headers(self) -> dict[str, str]:
        """Return the headers of a conditional request, without validators that are long or not ASCII."""
        validators = {"if-none-match": self.etag, "if-modified-since": self.last_modified}
        return {
            name: value
            for name, value in validators.items()
            if value and len(value) <= 1_000 and value.isascii() and value.isprintable()
        }


@dataclass(frozen=True, slots=True)
class CachedPage:
    """A cached page. ``checked`` is when the site last confirmed it, in seconds since 1970."""

    page: Page
    checked: float
    validators: CacheValidators | None = None


class PageCaching(Protocol):
    """A cache of pages. Failure policy: it raises StoreError, and reading continues without it."""

    async def get(self, url: str, *, raw: bool = False) -> CachedPage | None:
        """Return the page that was read at that URL, or has it as final URL."""
        ...

    async def put(self, url: str, kept: CachedPage, *, raw: bool = False) -> None:
        """Cache the page in place of its older copy; if it is too large, cache nothing."""
        ...


class PageCleaner(Protocol):
    """Makes a page readable for a person, off the event loop. Raises ReadError."""

    async def __call__(self, page: Page, *, raw: bool = False) -> Page: ...


class UrlReader:
    """Reads pages. ``ways`` are those of single sites, tried in order, before the general one.

    ``rules`` is called for each page, so that settings may change meanwhile; ``show`` cleans the page.
    One URL is read once at a time: requests for it meanwhile get the same page.
    """

    def __init__(
        self,
        tools: ReadingTools,
        ways: Sequence[SiteAdapter] = (),
        shelf: PageCaching | None = None,
        *,
        general: PageAdapter | None = None,
        rules: Callable[[], ReadingRules] = ReadingRules,
        limit: float = LIMIT,
        show: PageCleaner | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tools, self._shelf = tools, shelf
        self._ways, self._general = tuple(ways), general or AnyPageAdapter()
        self._rules, self._limit, self._clock = rules, limit, clock
        self._show = show or _in_thread
        self._turns: WeakValueDictionary[tuple[str, bool], asyncio.Lock] = WeakValueDictionary()

    async def read(
        self,
        url: str,
        *,
        refresh: bool = False,
        raw: bool = False,
        settled: bool = False,
        scrolls: int | None = None,
    ) -> Page:
        """Return the page at ``url``, without invisible text. Raises ReadError.

        A page that was read less than ``fresh`` seconds ago comes from the cache, and an older one if its
        site says that it has not changed, or does not answer. ``refresh`` requests it again in any case;
        ``settled`` never while it is cached. ``scrolls`` opens the page in a browser and scrolls it down by
        so many screens, which a cached copy may not have been. ``raw`` is the response body as text.
        A page that was read by an adapter that is switched off now is read again.
        """
        try:
            lines = _LINES.search(url)  # such a part of a page is read but not cached
            where = target(url).url + (lines[0] if lines else "")
            return await self._read_once(
                where, refresh or bool(scrolls and not settled), raw, settled, scrolls
            )
        except ReadError as error:
            message = in_words(error.message)  # servers have their say in it
            if message == error.message:
                raise
            raise ReadError(message, error.cause, status=error.status, wait=error.wait) from None

    async def _read_once(
        self, where: str, refresh: bool, raw: bool, settled: bool, scrolls: int | None
    ) -> Page:
        turn = self._turns.setdefault((where, raw), asyncio.Lock())
        async with turn:
            shelf = self._shelf
            kept = await _at_best(shelf.get(where, raw=raw)) if shelf and "#" not in where else None
            if kept is not None and not refresh:
                rules = self._rules()
                is_fresh = 0 <= self._clock() - kept.checked < rules.fresh
                if settled or (is_fresh and kept.page.way not in rules.off):
                    await self._put_in_cache(where, kept, raw)
                    return kept.page
            return await self._fetch_again(where, raw, None if refresh else kept, scrolls)

    async def _fetch_again(self, url: str, raw: bool, kept: CachedPage | None, scrolls: int | None) -> Page:
        tools = self._tools if scrolls is None else replace(self._tools, scrolls=scrolls)
        off = self._rules().off
        unchanged = kept.validators if kept and kept.page.way not in off else None
        asking = _ConditionalFetcher(tools.fetcher, unchanged)
        sites = () if raw else [site for site in self._ways if site.name not in off]
        general = PageSourceAdapter() if raw else self._general
        try:
            async with asyncio.timeout(self._limit):
                page = await read_with_adapters(url, sites, general, replace(tools, fetcher=asking))
        except _NotModified:
            assert kept is not None  # who has nothing asks for changes of nothing
            await self._put_in_cache(url, replace(kept, checked=self._clock()), raw)
            return kept.page
        except TimeoutError:
            error = ReadError(
                say("It took more than {limit} {limit:second|seconds}.", limit=round(self._limit)), "timeout"
            )
            return _cached_or_raise(kept, error)
        except ReadError as error:
            return _cached_or_raise(kept, error)
        try:
            page = await self._show(page, raw=raw)
        except ReadError as error:
            return _cached_or_raise(kept, error)
        if page.kind in NOT_KEPT:
            # It is no content: nothing to find later, and nothing that replaces what was read before.
            barred = kept is not None and page.kind in BARRED and page.warnings
            return _cached_or_raise(kept, ReadError(page.warnings[0], "wall")) if barred else page
        if asking.unfinished:
            return replace(page, warnings=(*asking.unfinished, *page.warnings))
        await self._put_in_cache(url, CachedPage(page, self._clock(), asking.validators()), raw)
        return page

    async def _put_in_cache(self, url: str, kept: CachedPage, raw: bool) -> None:
        if self._shelf and "#" not in url:
            await _at_best(self._shelf.put(url, kept, raw=raw))


async def read_with_adapters(
    url: str, sites: Sequence[SiteAdapter], general: PageAdapter, tools: ReadingTools
) -> Page:
    """Return the page by the first adapter that reads it; warnings name the sites that failed before it.

    If all fail, raises ReadError with the cause that explains most; its message has the others too.
    """
    failed: list[tuple[SiteAdapter, ReadError]] = []
    for site in sites:
        if not site.takes(url):
            continue
        try:
            page = await read_site(site, url, tools)
        except ReadError as error:
            log.debug("%s cannot read a page: %s", site.name, error)
            failed.append((site, error))
            continue
        if page is not None:
            return _with_fallback_warnings(page, failed)
    try:
        page = await general.read(url, tools)
    except ReadError as error:
        raise _combined_error([*((site.name, why) for site, why in failed), (general.name, error)]) from None
    if page is None:
        raise _combined_error([(site.name, why) for site, why in failed])
    return _with_fallback_warnings(page, failed)


def _with_fallback_warnings(page: Page, failed: Sequence[tuple[SiteAdapter, ReadError]]) -> Page:
    """Return the page with the warnings about the sites that failed before it."""
    return replace(page, warnings=(*page.warnings, *(fallback_warning(*each) for each in failed)))


def shown(page: Page, *, raw: bool = False) -> Page:
    """Return the page as a person sees it: without unseen characters and comments, and with a warning about
    them.
    """
    text, removed = cleaned(page.markdown)
    comments = 0
    if not raw:
        text, comments = without_comments(text)
    unseen: tuple[Message, ...] = ()
    if not raw and page.way not in _NOT_MARKDOWN:
        markup = seen_markup(text)
        cut = (say("The page is larger than the limit, so its end is missing."),) if markup.cut else ()
        text, unseen = markup.markdown, (*hidden_warnings(markup.hidden), *cut)
    if page.way in _AS_WRITTEN:
        text = with_whole_links(text, page.url)
    try:
        address = target(page.canonical).url if page.canonical else None
    except ReadError:
        address = None
    return replace(
        page,
        markdown=text,
        title=one_line(page.title),
        author=one_line(page.author),
        site=one_line(page.site),
        date=one_line(page.date, 40),
        lang=one_line(page.lang, 40),
        canonical=address,
        warnings=(*map(in_words, page.warnings), *unseen, *warnings_of(removed, comments)),
    )


async def _in_thread(page: Page, *, raw: bool = False) -> Page:
    return await asyncio.to_thread(shown, page, raw=raw)


def _cached_or_raise(kept: CachedPage | None, error: ReadError) -> Page:
    """Return the cached page if the failure is transient; else raise the error."""
    busy = error.cause == "status" and error.status is not None and error.status >= 500
    if kept is None or not (busy or error.cause in _PASSING):
        raise error
    warning = say(
        "This is the page as it was read before; it cannot be fetched now: {reason}", reason=error.message
    )
    return replace(kept.page, warnings=(*kept.page.warnings, warning))


def _combined_error(failed: Sequence[tuple[str, ReadError]]) -> ReadError:
    if not failed:
        return ReadError(say("There is nothing to read."), "empty")
    ranks = {cause: rank for rank, cause in enumerate(_TELLING)}
    _, telling = min(failed, key=lambda each: ranks.get(each[1].cause, len(ranks)))
    others = [
        say("{way}: {reason}", way=way, reason=error.message) for way, error in failed if error is not telling
    ]
    if not others:
        return telling
    names = [f"m{number}" for number in range(len(others))]
    message = say(
        "{reason} Also tried: {others}",
        reason=telling.message,
        others=Message(" ".join(f"{{{name}}}" for name in names), **dict(zip(names, others, strict=True))),
    )
    return ReadError(message, telling.cause, status=telling.status, wait=telling.wait)


async def _at_best(storing: Awaitable[_Value]) -> _Value | None:
    """Return the answer of the cache; None if it fails, because it only saves requests."""
    try:
        return await storing
    except StoreError as error:
        log.warning("pages are not kept: %s", error)
        return None


class _NotModified(Exception):
    """The site says that the cached page has not changed."""


class _ConditionalFetcher:
    """A fetcher that records its requests, and makes conditional ones for a cached page."""

    def __init__(self, fetcher: Fetcher, known: CacheValidators | None) -> None:
        self._fetcher, self._known = fetcher, known
        self._answers: list[CacheValidators] = []
        self.unfinished: tuple[Message, ...] = ()
        """The warnings about bodies whose end did not come in time: such a page is not kept."""

    async def fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, accept: str | None = None
    ) -> FetchedResource:
        known = self._known
        if known is not None and (url, accept) == (known.url, known.accept):
            headers = {**(headers or {}), **known.headers()}
        else:
            known = None
        fetched = await self._fetcher.fetch(url, headers=headers, accept=accept)
        if fetched.status == 304:
            if known is not None:
                raise _NotModified
            raise ReadError(
                say(
                    "the site reports that the page has not changed (HTTP 304), although Tabane did "
                    "not ask that."
                ),
                "status",
                status=304,
            )
        if fetched.partial:
            self.unfinished = tuple(dict.fromkeys((*self.unfinished, *fetched.warnings)))
        said = fetched.headers
        self._answers.append(CacheValidators(url, accept, said.get("etag"), said.get("last-modified")))
        return fetched

    def validators(self) -> CacheValidators | None:
        """Return the validators for a conditional request; None if the page came from several responses, or
        none.
        """
        if len(self._answers) != 1 or not self._answers[0].headers():
            return None
        return self._answers[0]
