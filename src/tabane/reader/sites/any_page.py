"""The adapter for any page: its own Markdown, its extracted content, llms.txt, its plain text.

One request is made if it is enough; more are made for what the first response offers or lacks.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Protocol

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.cleaning import without_links
from tabane.reader.extraction.machine_text import overlaps
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.guard import target
from tabane.reader.page import Page
from tabane.reader.paging import tokens
from tabane.reader.sites import page_hints
from tabane.reader.sites.site_adapter import ReadingTools
from tabane.text.encodings import decode_leniently

log = logging.getLogger(__name__)

ACCEPT = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5"
HTML_ALONE = "text/html, application/xhtml+xml, */*;q=0.5"
TEXT_ALONE = "text/markdown, text/plain;q=0.9, */*;q=0.1"

LITTLE = 60
"""Tokens of content below which a page is looked at once more: a teaser, an empty shell."""

NEXT_TO_NOTHING = 30
"""Tokens that a shell without its program may say, such as that it wants JavaScript."""

HARDLY_A_WORD = 8
"""Tokens that a page may show while it loads."""

LARGE = 20_000
"""Bytes of HTML around so little that something must be missing."""

_FOR_MACHINES = "json-ld"
"""The ``way`` of a page whose content is its text for machines."""

_HTML = frozenset({"text/html", "application/xhtml+xml"})

# A page that is refused to programs, or moved, may still have a list for models beside it.
_MAY_BE_LISTED = frozenset({403, 404, 406})
_NOTHING_FOUND = frozenset({"empty", "javascript", "broken"})


class Renderer(Protocol):
    """A browser that runs a page's programs, under the same guard as every request."""

    async def render(self, url: str) -> FetchedResource | None:
        """Return the page as HTML after its scripts ran; None if there is no browser. Raises ReadError."""
        ...


class AnyPageAdapter:
    """Reads the page at the URL itself. ``renderer`` is used if a page has no content without its scripts."""

    name = "page"

    def __init__(self, renderer: Renderer | None = None) -> None:
        self._renderer = renderer

    def takes(self, url: str) -> bool:
        return True

    async def read(self, url: str, tools: ReadingTools) -> Page | None:
        try:
            fetched = await _fetched(url, tools)
        except ReadError as error:
            listed = await _listed(url, tools) if error.status in _MAY_BE_LISTED else None
            if listed is None:
                raise
            return replace(listed, warnings=(*listed.warnings, _said(error)))
        if fetched.media_type in _HTML:
            return await self._of_html(url, fetched, tools)
        page = await _converted(fetched, tools)
        return await asyncio.to_thread(_pruned, page) if page_hints.is_dump(url, fetched) else page

    async def _of_html(self, url: str, fetched: FetchedResource, tools: ReadingTools) -> Page:
        page, why = await _attempt(fetched, tools)
        hints = await asyncio.to_thread(page_hints.html_hints, fetched)
        little = _is_little(page, fetched, hints.programs)
        for address in _beside(fetched, hints, little):
            better = await _markdown(address, tools)
            if better is not None and await asyncio.to_thread(_says_the_same, better, page):
                return _with_facts(better, page, fetched)
        failed: ReadError | None = None
        if little and hints.programs and self._renderer is not None:
            rendered, failed = await _rendered(url, self._renderer, tools)
            if rendered is not None and (page is None or _is_fuller(rendered, page)):
                return rendered
        if page is None or (hints.programs and tokens(page.markdown) < NEXT_TO_NOTHING):
            return await _last(url, fetched, _why(why, hints.programs, failed), tools)
        return _warned(page, fetched, hints.programs) if little and not page.warnings else page


class PageSourceAdapter:
    """Returns the response body as text, unchanged: the source of any page."""

    name = "raw"

    def takes(self, url: str) -> bool:
        return True

    async def read(self, url: str, tools: ReadingTools) -> Page | None:
        fetched = await tools.fetcher.fetch(url, accept=HTML_ALONE)
        text = await asyncio.to_thread(_source, fetched)
        return Page(fetched.url, text, way=self.name, share=1.0, media_type=fetched.media_type)


async def _fetched(url: str, tools: ReadingTools) -> FetchedResource:
    """Return the response, as Markdown if the site offers it."""
    try:
        fetched = await tools.fetcher.fetch(url, accept=ACCEPT)
    except ReadError as error:
        if error.status != 406:
            raise
        return await tools.fetcher.fetch(url, accept=HTML_ALONE)
    if fetched.media_type in page_hints.MARKDOWN and not fetched.body.strip():
        return await tools.fetcher.fetch(url, accept=HTML_ALONE)
    return fetched


async def _converted(fetched: FetchedResource, tools: ReadingTools) -> Page:
    return await tools.converting.page(fetched.body, fetched.url, fetched.media_type, fetched.charset)


async def _attempt(fetched: FetchedResource, tools: ReadingTools) -> tuple[Page | None, ReadError | None]:
    """Return the page extracted from HTML, or the error if it has no content."""
    try:
        page = await _converted(fetched, tools)
    except ReadError as error:
        if error.cause not in _NOTHING_FOUND:
            raise
        return None, error
    return (page if page.markdown.strip() or page.pictures else None), None


def _is_little(page: Page | None, fetched: FetchedResource, programs: bool) -> bool:
    """Return whether the content is too short for such a page; a page that is short as a whole is fine."""
    if page is None:
        return True
    if page.way == _FOR_MACHINES and programs:
        return True  # readers see the visible text of the rendered page
    part = page.share is not None and page.share < 0.5
    return tokens(page.markdown) < LITTLE and (programs or part or len(fetched.body) > LARGE)


def _beside(fetched: FetchedResource, hints: page_hints.HtmlHints, little: bool) -> list[str]:
    """Return the URL at which the page's own Markdown may be, if that is worth a request.

    This is rare: little content was found on 2 of 257 pages of seven kinds (WCXB's dev split, postlight).
    """
    found = [hints.offered] if hints.offered and (little or hints.documents) else []
    guessed = page_hints.beside(fetched.url) if little and not hints.offered else None
    return [*found, guessed] if guessed else found


def _says_the_same(better: Page, page: Page | None) -> bool:
    """Return whether Markdown that a site offers next to a page contains what the page shows.

    If the page shows only a word or two, for example while it loads, the Markdown is accepted.
    """
    if page is None or tokens(page.markdown) <= HARDLY_A_WORD:
        return True
    if tokens(better.markdown) * 2 < tokens(page.markdown):
        return False
    return overlaps(without_links(page.markdown), without_links(better.markdown))


def _is_fuller(rendered: Page, page: Page) -> bool:
    """Return whether a rendered page shows more than its HTML contained."""
    return page.way == _FOR_MACHINES or tokens(rendered.markdown) > tokens(page.markdown)


async def _markdown(url: str, tools: ReadingTools) -> Page | None:
    """Return the Markdown at that URL; None if it is missing or something else."""
    try:
        fetched = await tools.fetcher.fetch(url, accept=TEXT_ALONE)
        if not page_hints.is_text(fetched) or target(fetched.url).origin != target(url).origin:
            return None  # the text of another site is not this page
        page = await tools.converting.page(fetched.body, fetched.url, "text/markdown", fetched.charset)
    except ReadError as error:
        log.debug("no Markdown beside a page: %s", error)
        return None
    return page if page.markdown.strip() else None


def _with_facts(better: Page, page: Page | None, fetched: FetchedResource) -> Page:
    """Return the Markdown page, with author, date and other metadata of the HTML added."""
    better = replace(better, url=fetched.url, way="markdown")
    if page is None:
        return better
    names = ("title", "author", "date", "site", "lang", "canonical")
    return replace(better, **{name: getattr(better, name) or getattr(page, name) for name in names})


async def _rendered(
    url: str, renderer: Renderer, tools: ReadingTools
) -> tuple[Page | None, ReadError | None]:
    """Return the page after its scripts ran, or the error of the browser; None without a browser."""
    try:
        fetched = await renderer.render(url)
        page = await _converted(fetched, tools) if fetched else None
    except ReadError as error:
        log.info("a page cannot be rendered: %s", error)
        return None, error
    if fetched is None or page is None or not page.markdown.strip():
        return None, None
    return replace(page, way="rendered", warnings=(*page.warnings, *fetched.warnings)), None


async def _last(url: str, fetched: FetchedResource, why: ReadError, tools: ReadingTools) -> Page:
    """Return llms.txt, else all the visible text of the HTML. Raises ``why`` if both are missing."""
    listed = await _listed(url, tools)
    if listed is not None:
        return replace(listed, warnings=(*listed.warnings, _said(why)))
    if not page_hints.may_be_text(fetched):
        raise _no_text(fetched)
    shown = await tools.converting.text(fetched.body, fetched.url, fetched.media_type, fetched.charset)
    text = shown.markdown
    if not text or (why.cause == "javascript" and tokens(text) < NEXT_TO_NOTHING):
        raise why
    return Page(
        fetched.url, text, way="plain", share=1.0, media_type=fetched.media_type, warnings=(_said(why),)
    )


async def _listed(url: str, tools: ReadingTools) -> Page | None:
    """Return llms.txt of the URL's folder."""
    page = await _markdown(page_hints.list_of(url), tools)
    return replace(page, way="llms.txt") if page else None


def _said(why: ReadError) -> Message:
    return say("The page itself cannot be read: {reason}", reason=why.message)


def _why(why: ReadError | None, programs: bool, failed: ReadError | None = None) -> ReadError:
    if programs and failed is not None:
        message = say(
            "The page shows nothing without JavaScript, and cannot be rendered: {reason}",
            reason=failed.message,
        )
        return ReadError(message, "javascript")
    if programs:
        message = say(
            "The page shows nothing without JavaScript, which Tabane does not run with the present settings."
        )
        return ReadError(message, "javascript")
    return why or ReadError(say("There is no text on the page."), "empty")


def _warned(page: Page, fetched: FetchedResource, programs: bool) -> Page:
    """Return the page with a warning about how little of it there is."""
    size = f"{len(fetched.body) // 1000:,}"
    warning = (
        say(
            "Only little content was found in {size} kB of HTML. The rest seems to need JavaScript.",
            size=size,
        )
        if programs
        else say("Only little content was found in {size} kB of HTML.", size=size)
    )
    return replace(page, warnings=(*page.warnings, warning))


def _pruned(page: Page) -> Page:
    """Return a whole page that was served as Markdown, without the menus around its content."""
    kept = page_hints.pruned(page.markdown)
    if kept == page.markdown:
        return page
    return replace(page, markdown=kept, share=round(len(kept) / len(page.markdown), 2))


def _source(fetched: FetchedResource) -> str:
    """Return the body as text. Raises ReadError if it is not text."""
    if not page_hints.may_be_text(fetched):
        raise _no_text(fetched)
    return decode_leniently(fetched.body, fetched.charset, fetched.media_type)


def _no_text(fetched: FetchedResource) -> ReadError:
    kind = fetched.media_type or say("bytes")
    return ReadError(say("{kind} is not text, so it has no source to show.", kind=kind), "type")
