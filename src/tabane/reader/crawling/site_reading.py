"""The reading of a whole site: page after page, politely, and so that it can be continued.

One request is made at a time. Each page goes through the same reader, guard and cache as a single one, and
robots.txt is obeyed at each hop. A page that was read in an earlier run is requested with its validators.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from urllib.parse import urlsplit

from tabane.errors import Forbidden, HubError, ReadError, StoreError, TabaneError
from tabane.messages import Lang, Message, say
from tabane.operations import Progress
from tabane.reader.crawling.addresses import SiteScope, address_key, most_alike, plain_address, scope_of
from tabane.reader.crawling.discovery import PageLinks, SitemapEntry, links_of, links_of_markdown, sitemap_of
from tabane.reader.crawling.site_file import (
    READ,
    FoundPage,
    Outcome,
    PageResult,
    SiteFile,
    SiteRun,
    WaitingPage,
)
from tabane.reader.fetching.interface import FetchedResource, Fetcher
from tabane.reader.fetching.robots import RobotsRules
from tabane.reader.guard import Target, joined, target
from tabane.reader.hidden_text import without_links
from tabane.reader.page import NOT_KEPT, Page
from tabane.reader.page_records import digest
from tabane.reader.url_reader import UrlReader

LONGEST_DELAY = 30.0
"""Seconds between two requests that a site may ask for. A longer Crawl-delay counts as this."""

LONGEST_PAUSE = 120.0
"""Seconds that a site may ask to wait before further requests."""

MOST_SITEMAPS = 20
MOST_UNREACHABLE = 5
"""Pages in a row that cannot be reached, after which the reading stops: it can be continued later."""

_LATER = frozenset({"dns", "connect", "tls", "timeout", "rate", "broken"})
_UNREACHABLE = frozenset({"dns", "connect", "timeout"})
_LEAST_ALIKE = 200
"""Characters of a text that is compared with those of other pages."""

_LEAST_DUPLICATES = 8
"""Duplicates among the pages of one pattern that show that the rest of it need not be read."""


class SiteFetcher(Protocol):
    """Fetches the pages of sites, always under their robots.txt."""

    async def robots_rules(self, url: str) -> RobotsRules:
        """Return what the robots.txt of a host says. Raises ReadError."""
        ...

    def bounded(self, within: Callable[[Target], bool]) -> Fetcher:
        """Return a fetcher whose redirects lead only to addresses that are within bounds."""
        ...

    async def fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, accept: str | None = None
    ) -> FetchedResource:
        """Return the whole resource at ``url``. Raises ReadError."""
        ...


@dataclass(frozen=True, slots=True)
class SiteWish:
    """A request to read a site. ``limit`` counts pages, ``depth`` the links from the start page.

    ``refresh``: every page is requested and saved again, whatever is known of it.
    """

    start: str
    limit: int
    depth: int | None = None
    refresh: bool = False


class SiteReading:
    """One run over one site. ``reader`` returns a reader over a fetcher; ``remember`` saves a page."""

    def __init__(
        self,
        wish: SiteWish,
        file: SiteFile,
        fetcher: SiteFetcher,
        reader: Callable[[Fetcher], UrlReader],
        remember: Callable[[Page], Awaitable[str]] | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._wish, self._file, self._fetcher = wish, file, fetcher
        self._reader, self._remember = reader, remember
        self._clock, self._sleep = clock, sleep
        self._delay = self._asked_pause = 0.0
        self._last = -LONGEST_PAUSE
        self._unreachable = 0
        self._run: SiteRun
        self._rules: RobotsRules

    async def run(self, progress: Progress) -> dict[str, Any]:
        """Read what is left of the run, and return its counts and the pages to know about.

        Raises ReadError if the start page cannot be read, HubError if the site cannot be reached any more,
        and StoreError. After each of them the reading can be continued.
        """
        began = self._clock()
        run = self._run = await self._file.begin(self._wish.start)
        self._rules = await self._fetcher.robots_rules(self._wish.start)
        self._delay = min(self._rules.delay, LONGEST_DELAY)
        most, attempts = 3 * self._wish.limit + 100, 0
        counts = await self._file.counts(run.site)
        while attempts < most and sum(counts.get(state, 0) for state in READ) < self._wish.limit:
            if self._run.scope is not None and not self._run.listed:
                await self._read_sitemaps(self._run.scope)
            page = await self._file.next(run.site)
            if page is None:
                break
            self._tell(progress, counts)
            attempts += await self._read_page(page)
            counts = await self._file.counts(run.site)
        self._tell(progress, counts)
        await self._file.end(run.site)
        return {
            "site": self._run.scope.url if self._run.scope else self._wish.start,
            **await site_report(self._file, run.site, saves=self._remember is not None),
            "continued": run.continued,
            "seconds": round(self._clock() - began, 1),
        }

    def _tell(self, progress: Progress, counts: Mapping[str, int]) -> None:
        read = sum(counts.get(state, 0) for state in READ)
        total = min(self._wish.limit, read + counts["waiting"])
        failed = counts.get("failed", 0)
        note = say("{count} {count:failure|failures}", count=failed) if failed else None
        progress.tell(read, total, note)

    # -- one page --------------------------------------------------------------------------------

    async def _read_page(self, page: WaitingPage) -> bool:
        """Read a page, and keep what came of it. Return whether a request was made."""
        if (closed := await self._closed(page)) is not None:
            await self._finish(page, PageResult(closed))
            return False
        if self._need_not_ask(page):
            kept = PageResult("unchanged", digest=page.digest, links=page.links)
            await self._finish(page, kept)
            return False
        await self._wait_for_turn()
        recording = _RecordingFetcher(self._fetcher_for(page), self._file, page)
        try:
            again = self._wish.refresh or not page.digest  # a cached copy has no links of menus
            read = await self._reader(recording).read(page.url, refresh=again)
            if recording.error is not None and recording.error.cause != "wall":
                raise recording.error  # the reader has found an older or another text instead
            if read.kind in NOT_KEPT or not read.markdown.strip():
                raise ReadError(next(iter(read.warnings), say("There is nothing to read.")), "empty")
        except ReadError as error:
            await self._fail(page, error)
            return True
        self._unreachable = 0
        links = recording.links
        if recording.unchanged:
            links = PageLinks(page.links)
        elif links.follow and not links.links:  # it is no HTML, or has links only once its programs ran
            links = links._replace(links=links_of_markdown(read.markdown))
        await self._take(page, read, links)
        return True

    async def _closed(self, page: WaitingPage) -> Outcome | None:
        """Return the outcome of a page that is not requested at all."""
        at = target(page.url)
        if not await asyncio.to_thread(self._rules.allow, at.path):
            if self._run.scope is None:
                raise ReadError(
                    say("The robots.txt of {host} asks programs not to read this page.", host=at.authority),
                    "robots",
                )
            return "robots"
        if page.digest or page.depth == 0:
            return None
        most = most_alike(page.pattern)
        done, duplicates = await self._file.of_pattern(self._run.site, page.pattern)
        if (most is not None and done >= most) or duplicates >= max(_LEAST_DUPLICATES, done // 2 + 1):
            return "similar"
        return None

    def _need_not_ask(self, page: WaitingPage) -> bool:
        """Return whether the sitemap says that a page has not changed since it was read."""
        if not page.digest or self._wish.refresh or (self._remember and page.saved != page.digest):
            return False
        changed = _moment(page.lastmod)
        return changed is not None and changed < page.checked

    def _fetcher_for(self, page: WaitingPage) -> Fetcher:
        scope = self._run.scope
        if scope is not None:
            return self._fetcher.bounded(scope.holds)
        # The start page may lead to the same site under its other name, but to no other site.
        host = target(page.url).host.removeprefix("www.")
        return self._fetcher.bounded(lambda at: at.host.removeprefix("www.") == host)

    async def _take(self, page: WaitingPage, read: Page, links: PageLinks) -> None:
        """Keep a page that was read: as itself, or as what it is of another."""
        at = target(read.url)
        scope = self._run.scope
        if scope is None:
            scope = scope_of(plain_address(at), links.links)
            self._run = self._run._replace(scope=scope, indexed=links.listed)
            await self._file.settle(self._run.site, scope, links.listed)
        final = plain_address(at)
        if scope.holds(at) and address_key(final) != page.key:
            moved = await self._file.move(self._run.site, page, final)
            if moved is None:
                await self._finish(page, PageResult("duplicate", other=final))
                return
            page = moved
        await self._finish(page, await self._judge(page, replace(read, url=final), links, scope))

    async def _judge(self, page: WaitingPage, read: Page, links: PageLinks, scope: SiteScope) -> PageResult:
        """Return what came of a page that was read. Save it as a document, if it has to be."""
        follow = links.links
        if not scope.holds(target(read.url)):
            return PageResult("outside", other=read.url)
        if read.pictures:
            return PageResult("other")
        if self._run.indexed and not links.listed:
            return PageResult("noindex", links=follow)
        own = self._canonical(page, read, scope)
        if own is not None:
            return PageResult("duplicate", other=own, links=follow)
        alike = digest(plain) if len(plain := without_links(read.markdown)) >= _LEAST_ALIKE else ""
        if not page.digest and alike and (other := await self._file.alike(self._run.site, page, alike)):
            return PageResult("duplicate", other=other, links=follow)
        text = digest(f"{read.title}\n{read.markdown}")
        outcome: Outcome = "unchanged" if text == page.digest else "changed" if page.digest else "new"
        result = PageResult(outcome, digest=text, alike=alike, links=follow)
        if self._remember is None or (page.saved == text and not self._wish.refresh):
            return result
        try:
            key = await self._remember(read)
        except (Forbidden, StoreError):
            raise
        except TabaneError as error:
            return PageResult("failed", error.message, links=follow)
        return result._replace(document=key, saved=text)

    def _canonical(self, page: WaitingPage, read: Page, scope: SiteScope) -> str | None:
        """Return the address that a page names as its own; None if it is this one, or cannot be believed.

        Some sites name their start page on each page.
        """
        own = scope.address(read.canonical) if read.canonical else None
        if own is None or page.canonical or page.digest:
            return None
        key = address_key(own)
        return None if key in (page.key, address_key(self._wish.start)) else own

    async def _fail(self, page: WaitingPage, error: ReadError) -> None:
        """Keep that a page could not be read, or let it be tried once more later. Raises HubError."""
        busy = error.cause == "status" and (error.status or 0) >= 500
        if error.wait:
            self._asked_pause = min(error.wait, LONGEST_PAUSE)
        if error.cause in _UNREACHABLE:
            self._unreachable += 1
            if self._unreachable >= MOST_UNREACHABLE:
                raise HubError(
                    say(
                        "Reading stopped, because the site can no longer be reached: {reason} The pages that "
                        "were read are kept. Run the same command to continue.",
                        reason=error.message,
                    )
                )
        else:
            self._unreachable = 0
        if (busy or error.cause in _LATER) and not page.late:
            await self._file.postpone(page)
            return
        if self._run.scope is None:
            raise error
        outcome: Outcome = "failed"
        other = ""
        if error.cause == "outside":
            outcome, other = "outside", str(error.message.fields.get("url", ""))
        elif error.cause == "robots":
            outcome = "robots"
        elif error.cause == "type":
            outcome = "other"
        elif error.status in (404, 410) and page.digest:
            outcome = "gone"
        await self._file.stand_in(self._run.site, page)
        await self._finish(page, PageResult(outcome, error.message, other))

    async def _finish(self, page: WaitingPage, result: PageResult) -> None:
        """Keep what came of a page, with the addresses of this site on it."""
        scope, depth = self._run.scope, page.depth + 1
        # What a duplicate is a duplicate of may not be known yet, if the page itself says so.
        found = [FoundPage(result.other, page.depth)] if result.outcome == "duplicate" else []
        if scope is not None and (self._wish.depth is None or depth <= self._wish.depth):
            addresses = await asyncio.to_thread(_addresses, scope, result.links)
            found += [FoundPage(address, depth) for address in addresses]
        await self._file.finish(self._run.site, page, result, found)

    async def _wait_for_turn(self) -> None:
        """Wait as long as the site asks for between two pages."""
        pause = max(self._delay, self._asked_pause)
        self._asked_pause = 0.0
        left = self._last + pause - self._clock()
        if left > 0:
            await self._sleep(left)
        self._last = self._clock()

    # -- sitemaps --------------------------------------------------------------------------------

    async def _read_sitemaps(self, scope: SiteScope) -> None:
        """Add the pages of the site's sitemaps. With a depth, links alone say which pages are read."""
        base, seen = target(scope.url), set[str]()
        found: list[FoundPage] = []
        todo = [*self._rules.sitemaps] or list(
            dict.fromkeys([f"{scope.origin}/sitemap.xml", f"{scope.url}sitemap.xml"])
        )
        while todo and len(seen) < MOST_SITEMAPS and len(found) < 10 * self._wish.limit:
            try:
                url = joined(base, todo.pop(0)).url
                if url in seen:
                    continue
                seen.add(url)
                await self._wait_for_turn()
                resource = await self._fetcher.fetch(url, accept="application/xml,text/xml,*/*;q=0.5")
            except ReadError:  # most sites have none
                continue
            sitemap = await asyncio.to_thread(sitemap_of, resource.body)
            if sitemap.nested:
                todo += [entry.url for entry in sitemap.entries[:MOST_SITEMAPS]]
                continue
            found += await asyncio.to_thread(_listed_pages, scope, sitemap.entries)
        if self._wish.depth is not None:
            known = [await self._file.known(self._run.site, page.url) for page in found]
            found = [page for page, state in zip(found, known, strict=True) if state is not None]
        await self._file.list_pages(self._run.site, found[: 10 * self._wish.limit])
        self._run = self._run._replace(listed=True)


def _addresses(scope: SiteScope, links: Iterable[str]) -> list[str]:
    """Return the addresses of a site's pages among links, each once."""
    return list(dict.fromkeys(address for link in links if (address := scope.address(link)) is not None))


def _listed_pages(scope: SiteScope, entries: Iterable[SitemapEntry]) -> list[FoundPage]:
    """Return the pages of a site among the entries of a sitemap."""
    base = target(scope.url)
    found = ((scope.address(_with_scheme(entry.url, base)), entry.changed) for entry in entries)
    return [FoundPage(address, 1, changed) for address, changed in found if address is not None]


def _with_scheme(url: str, base: Target) -> str:
    """Return an address of a sitemap with the scheme of the site: sitemaps often have an older one."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    same = parts.hostname == base.host and {parts.scheme, base.scheme} == {"http", "https"} and not port
    return parts._replace(scheme=base.scheme).geturl() if same else url


def _moment(written: str) -> float | None:
    """Return the latest moment that a date of a sitemap means, in seconds since 1970; None if it is none."""
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment + timedelta(days=1 if len(written) <= len("2026-01-01") else 0)).timestamp()


class _RecordingFetcher:
    """Fetches for one page, and keeps its response: on disk, and the links in it.

    ``error`` is why the page itself could not be fetched. ``unchanged``: the site says that it is as before.
    """

    def __init__(self, fetcher: Fetcher, file: SiteFile, page: WaitingPage) -> None:
        self._fetcher, self._file, self._page = fetcher, file, page
        self._seen = False
        self.error: ReadError | None = None
        self.links = PageLinks()
        self.unchanged = False

    async def fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, accept: str | None = None
    ) -> FetchedResource:
        """Return the resource at ``url``, from the disk if it was fetched before. Raises ReadError."""
        if self._seen or address_key(url) != self._page.key:
            if url.endswith("/llms.txt"):  # a list of other pages would stand for each that is missing
                raise ReadError(say("There is nothing to read."), "status", status=404)
            return await self._fetcher.fetch(url, headers=headers, accept=accept)
        self._seen = True
        kept = await self._file.response(self._page.place)
        if kept is not None and kept[0] == accept:
            resource = kept[1]
        else:
            try:
                resource = await self._fetcher.fetch(url, headers=headers, accept=accept)
            except ReadError as error:
                self.error = error
                raise
            if resource.status == 304:
                self.unchanged = True
                return resource
            await self._file.keep_response(self._page.place, accept, resource)
        self.links = await asyncio.to_thread(links_of, resource)
        return resource


_COUNTED = (*READ, "duplicate", "gone", "failed", "outside", "robots", "noindex", "other", "similar")


async def site_report(file: SiteFile, site: int, *, saves: bool) -> dict[str, Any]:
    """Return the counts of a site's pages by outcome, ``left`` for those that wait, and lists of some.

    ``saves``: also how many were saved as documents.
    """
    counts = await file.counts(site)
    lists = await file.report(site)
    return {
        **{name: counts.get(name, 0) for name in _COUNTED},
        **({"saved": counts["saved"]} if saves else {}),
        "left": counts["waiting"],
        "pages": {name: rows for name, rows in lists.items() if rows},
    }


def rendered(report: dict[str, Any], lang: Lang) -> dict[str, Any]:
    """Return a report with its reasons as sentences."""
    pages = {
        name: [
            {key: value.render(lang) if isinstance(value, Message) else value for key, value in row.items()}
            for row in rows
        ]
        for name, rows in report["pages"].items()
    }
    return {**report, "pages": pages}
