"""The adapter for any page: its own Markdown, its extracted content, llms.txt, its plain text.

One request is made if it is enough; more are made for what the first response offers or lacks. Hints in the
response (its own Markdown, a need of JavaScript, menus) are searched in the raw bytes, without parsing, in
one pass each; a wrong guess costs one request.
"""

from __future__ import annotations

import asyncio
import html
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit, urlunsplit

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.extraction import page_kinds
from tabane.reader.extraction.metadata import ELSEWHERE, FRAME, REFRESH, overlaps, refreshed
from tabane.reader.extraction.page_kinds import LOADS_MORE, wall_of
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.guard import joined, target
from tabane.reader.hidden_text import without_links
from tabane.reader.page import NOT_KEPT, Page
from tabane.reader.paging import tokens
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

MOST_REFRESHES = 5
"""Pages in a row that a refresh may lead through."""

MOST_FRAMES = 6
"""Frames of a page that are read, those within frames included."""

_FOR_MACHINES = "json-ld"
"""The ``way`` of a page whose content is its text for machines."""

_HTML = frozenset({"text/html", "application/xhtml+xml"})

# A page that is refused to programs, or moved, may still have a list for models beside it.
_MAY_BE_LISTED = frozenset({403, 404, 406})
_NOTHING_FOUND = frozenset({"empty", "javascript", "broken"})


class Renderer(Protocol):
    """A browser that runs a page's programs, under the same guard as every request."""

    async def render(self, url: str, *, scrolls: int | None = None) -> FetchedResource | None:
        """Return the page as HTML after its scripts ran; None if there is no browser. Raises ReadError.

        ``scrolls`` is the number of screens to scroll down, by default that of the settings.
        """
        ...


class AnyPageAdapter:
    """Reads the page at the URL itself. ``renderer`` is used if a page has no content without its scripts."""

    name = "page"

    def __init__(self, renderer: Renderer | None = None) -> None:
        self._renderer = renderer

    async def read(self, url: str, tools: ReadingTools) -> Page | None:
        """Return the best page that can be had at ``url``. Raises ReadError."""
        try:
            fetched = await _fetch_page(url, tools)
        except ReadError as error:
            if error.cause == "wall" and self._renderer is not None:
                rendered, _ = await _render(url, self._renderer, tools)
                if rendered is not None and rendered.kind not in NOT_KEPT:
                    return rendered
            listed = await _read_llms_txt(url, tools) if error.status in _MAY_BE_LISTED else None
            if listed is None:
                raise error
            return replace(listed, warnings=(*listed.warnings, _error_note(error)))
        return await self._page(fetched, tools, (url,))

    async def _page(self, fetched: FetchedResource, tools: ReadingTools, way: tuple[str, ...]) -> Page:
        """Return the page of a response. ``way`` are the URLs that led to it: refreshes, and its own."""
        if fetched.media_type in _HTML:
            return await self._of_html(fetched, tools, way)
        page = await _convert(fetched, tools)
        return await asyncio.to_thread(_prune_menus, page) if is_dump(way[-1], fetched) else page

    async def _of_html(self, fetched: FetchedResource, tools: ReadingTools, way: tuple[str, ...]) -> Page:
        extracted, why = await _try_extraction(fetched, tools)
        notes: tuple[Message, ...] = ()
        if to := _refresh_target(extracted, fetched, way):
            try:
                refreshed_to = await _fetch_page(to, tools)
            except ReadError as error:
                notes = (
                    say(
                        "The page redirects browsers to {url}, which cannot be read: {reason}",
                        url=to,
                        reason=error.message,
                    ),
                )
            else:
                return await self._page(refreshed_to, tools, (*way, to))
        if extracted is not None and (frames := _marked_addresses(extracted, FRAME)):
            whole, failed = await _of_frames(extracted, frames, tools)
            if whole is not None:
                return whole
            notes = (*notes, *failed)
        if extracted is not None:
            notes += tuple(
                say("The page shows a frame of another site. To read that, use: {url}", url=address)
                for address in _marked_addresses(extracted, ELSEWHERE)
            )
        if tools.scrolls:
            scrolled, why_not = await _scroll_page(way[-1], self._renderer, tools)
            if scrolled is not None:
                return scrolled
            notes, tools = (*notes, why_not), replace(tools, scrolls=None)
        try:
            page = await self._shown(way[-1], fetched, extracted, why, tools)
        except ReadError as error:
            raise _also_said(error, notes) from None
        return replace(page, warnings=(*page.warnings, *notes)) if notes else page

    async def _shown(
        self,
        url: str,
        fetched: FetchedResource,
        extracted: Page | None,
        why: ReadError | None,
        tools: ReadingTools,
    ) -> Page:
        """Return the best that can be had of the page itself; ``extracted`` is what was extracted from it."""
        if extracted is not None and extracted.kind in NOT_KEPT:
            return await self._barred(url, extracted, tools)
        page = (
            extracted
            if extracted is not None and (extracted.markdown.strip() or extracted.pictures)
            else None
        )
        hints = await asyncio.to_thread(html_hints, fetched)
        if page is None:
            little = True
        elif page.way == _FOR_MACHINES and hints.programs:
            little = True  # readers see the visible text of the rendered page
        else:
            part = page.share is not None and page.share < 0.5
            little = tokens(page.markdown) < LITTLE and (hints.programs or part or len(fetched.body) > LARGE)
        # The page's own Markdown may be at these. A guess is rare: 2 of 257 pages had so little content.
        addresses = [hints.offered] if hints.offered and (little or hints.documents) else []
        guessed = beside(fetched.url) if little and not hints.offered else None
        for address in [*addresses, guessed] if guessed else addresses:
            better = await _fetch_markdown(address, tools)
            if better is not None and await asyncio.to_thread(_says_the_same, better, page):
                better = replace(better, url=fetched.url, way="markdown")
                if page is None:
                    return better
                names = ("title", "author", "date", "site", "lang", "canonical")
                return replace(
                    better, **{name: getattr(better, name) or getattr(page, name) for name in names}
                )
        failed: ReadError | None = None
        if little and hints.programs and self._renderer is not None:
            rendered, failed = await _render(url, self._renderer, tools)
            if rendered is not None and (
                page is None or page.way == _FOR_MACHINES or tokens(rendered.markdown) > tokens(page.markdown)
            ):
                return rendered
        if page is None or (hints.programs and tokens(page.markdown) < NEXT_TO_NOTHING):
            return await _last_resort(url, fetched, _best_reason(why, hints.programs, failed), tools)
        return _with_little_warning(page, fetched, hints.programs) if little and not page.warnings else page

    async def _barred(self, url: str, page: Page, tools: ReadingTools) -> Page:
        """Return what stands in the place of a page, with its warning; a browser may pass a check for bots.

        Raises ReadError if it has no text.
        """
        if page.kind == "bot-wall" and self._renderer is not None:
            rendered, _ = await _render(url, self._renderer, tools)
            if rendered is not None and rendered.kind not in NOT_KEPT:
                return rendered
        if not page.markdown.strip():
            raise ReadError(page.warnings[0], "wall")
        return page


class PageSourceAdapter:
    """Returns the response body as text, unchanged: the source of any page."""

    name = "raw"

    async def read(self, url: str, tools: ReadingTools) -> Page | None:
        """Return the response body as text. Raises ReadError."""
        fetched = await tools.fetcher.fetch(url, accept=HTML_ALONE)
        text = await asyncio.to_thread(_source_text, fetched)
        return Page(fetched.url, text, way=self.name, share=1.0, media_type=fetched.media_type)


async def _fetch_page(url: str, tools: ReadingTools) -> FetchedResource:
    """Return the response, as Markdown if the site offers it."""
    try:
        fetched = await tools.fetcher.fetch(url, accept=ACCEPT)
    except ReadError as error:
        if error.status != 406:
            raise
        return await tools.fetcher.fetch(url, accept=HTML_ALONE)
    if fetched.media_type in MARKDOWN and not fetched.body.strip():
        return await tools.fetcher.fetch(url, accept=HTML_ALONE)
    return fetched


async def _convert(fetched: FetchedResource, tools: ReadingTools) -> Page:
    return await tools.converting.page(fetched.body, fetched.url, fetched.media_type, fetched.charset)


async def _try_extraction(
    fetched: FetchedResource, tools: ReadingTools
) -> tuple[Page | None, ReadError | None]:
    """Return the page extracted from HTML, even if it is empty, or the error if it has no content."""
    try:
        page = await _convert(fetched, tools)
    except ReadError as error:
        if error.cause not in _NOTHING_FOUND:
            raise
        return None, error
    vendor = page_kinds.by_headers(fetched.status, fetched.headers)
    if vendor is None or page.kind == "bot-wall":
        return page, None
    wall = wall_of(vendor)
    return replace(page, kind=wall.name, warnings=(wall.warning, *page.warnings)), None


def _refresh_target(page: Page | None, fetched: FetchedResource, way: tuple[str, ...]) -> str | None:
    """Return the address that the response sends browsers to soon, by a header or by the page.

    None if it was read on the way here, or the way is too long: then the page itself is read.
    """
    header = fetched.headers.get("refresh")
    to = refreshed(header, fetched.url, fetched.url) if header else None
    if to is None and page is not None:
        to = next((each.removeprefix(REFRESH) for each in page.onward if each.startswith(REFRESH)), None)
    return None if to is None or to in way or len(way) > MOST_REFRESHES else to


def _marked_addresses(page: Page, mark: str) -> list[str]:
    """Return the addresses with a mark that a browser would load with the page."""
    return [each.removeprefix(mark) for each in page.onward if each.startswith(mark)]


def _also_said(error: ReadError, notes: tuple[Message, ...]) -> ReadError:
    """Return the error of a page without content, with what was found out about its frames."""
    if not notes or error.cause not in _NOTHING_FOUND:
        return error
    return ReadError(say("{reason} {note}", reason=error.message, note=notes[-1]), error.cause)


async def _of_frames(
    page: Page, addresses: list[str], tools: ReadingTools
) -> tuple[Page | None, list[Message]]:
    """Return the content of a page's frames as one page, None if none of them has any, and what failed.

    Each is fetched as any page. Frames that are menus are left out if another has text.
    """
    frames: list[Page] = []
    failed: list[Message] = []
    todo, seen = list(addresses), set(addresses)
    for _ in range(MOST_FRAMES):
        if not todo:
            break
        address = todo.pop(0)
        try:
            frame = await _convert(await tools.fetcher.fetch(address, accept=HTML_ALONE), tools)
        except ReadError as error:
            failed.append(say("A frame cannot be read ({url}): {reason}", url=address, reason=error.message))
            continue
        inner = _marked_addresses(frame, FRAME)
        todo[:0] = [each for each in inner if each not in seen]
        seen.update(inner)
        if frame.markdown.strip() and not inner:
            frames.append(frame)
    if todo:
        failed.append(say("The page has more frames than Tabane reads, so content may be missing."))
    texts = [frame for frame in frames if not _is_menu(frame)] or frames
    if not texts:
        return None, failed
    largest = max(texts, key=lambda frame: len(frame.markdown))
    whole = replace(
        largest,
        url=page.url,
        markdown="\n\n---\n\n".join(frame.markdown.strip() for frame in texts) + "\n",
        title=page.title or largest.title,
        lang=page.lang or largest.lang,
        canonical=page.canonical,
        way="frames",
        share=None,
        warnings=(
            say(
                "The page is made of frames. This is the text of: {url}", url=", ".join(f.url for f in texts)
            ),
            *dict.fromkeys(warning for frame in texts for warning in frame.warnings),
            *failed,
        ),
        onward=(),
    )
    return whole, failed


def _is_menu(frame: Page) -> bool:
    """Return whether a frame says little beside its links."""
    outside, whole = outside_links(frame.markdown), without_links(frame.markdown)
    return "](" in frame.markdown and 3 * sum(map(str.isalnum, outside)) < sum(map(str.isalnum, whole))


def _says_the_same(better: Page, page: Page | None) -> bool:
    """Return whether Markdown that a site offers next to a page contains what the page shows.

    If the page shows only a word or two, for example while it loads, the Markdown is accepted.
    """
    if page is None or tokens(page.markdown) <= HARDLY_A_WORD:
        return True
    if tokens(better.markdown) * 2 < tokens(page.markdown):
        return False
    return overlaps(without_links(page.markdown), without_links(better.markdown))


async def _fetch_markdown(url: str, tools: ReadingTools) -> Page | None:
    """Return the Markdown at that URL; None if it is missing or something else."""
    try:
        fetched = await tools.fetcher.fetch(url, accept=TEXT_ALONE)
        if not is_text(fetched) or target(fetched.url).origin != target(url).origin:
            return None  # the text of another site is not this page
        page = await tools.converting.page(fetched.body, fetched.url, "text/markdown", fetched.charset)
    except ReadError as error:
        log.debug("no Markdown beside a page: %s", error)
        return None
    return page if page.markdown.strip() else None


async def _render(url: str, renderer: Renderer, tools: ReadingTools) -> tuple[Page | None, ReadError | None]:
    """Return the page after its scripts ran, or the error of the browser; None without a browser."""
    try:
        fetched = await renderer.render(url, scrolls=tools.scrolls)
        page = await _convert(fetched, tools) if fetched else None
    except ReadError as error:
        log.info("a page cannot be rendered: %s", error)
        return None, error
    if fetched is None or page is None:
        return None, None
    if not page.markdown.strip():
        return None, ReadError(say("it shows no text in the browser either."), "empty")
    # The browser knows better whether a page that it scrolled goes on.
    warnings = (each for each in page.warnings if not (tools.scrolls and each == LOADS_MORE))
    return replace(page, way="rendered", warnings=(*warnings, *fetched.warnings)), None


async def _scroll_page(
    url: str, renderer: Renderer | None, tools: ReadingTools
) -> tuple[Page | None, Message]:
    """Return the page after it was scrolled; None if it cannot be, and why."""
    page, error = await _render(url, renderer, tools) if renderer is not None else (None, None)
    if page is not None and page.kind in NOT_KEPT:
        page = None
    if error is not None:
        return page, say("The page was not scrolled: {reason}", reason=error.message)
    return page, say(
        "The page was not scrolled, because the present settings do not open pages in a browser. Set "
        "reader_render to auto."
    )


async def _last_resort(url: str, fetched: FetchedResource, why: ReadError, tools: ReadingTools) -> Page:
    """Return llms.txt, else all the visible text of the HTML. Raises ``why`` if both are missing."""
    listed = await _read_llms_txt(url, tools)
    if listed is not None:
        return replace(listed, warnings=(*listed.warnings, _error_note(why)))
    if not may_be_text(fetched):
        raise _no_text(fetched)
    shown = await tools.converting.text(fetched.body, fetched.url, fetched.media_type, fetched.charset)
    text = shown.markdown
    if not text or (why.cause == "javascript" and tokens(text) < NEXT_TO_NOTHING):
        raise why
    return Page(
        fetched.url, text, way="plain", share=1.0, media_type=fetched.media_type, warnings=(_error_note(why),)
    )


async def _read_llms_txt(url: str, tools: ReadingTools) -> Page | None:
    """Return llms.txt of the URL's folder."""
    page = await _fetch_markdown(list_of(url), tools)
    return replace(page, way="llms.txt") if page else None


def _error_note(why: ReadError) -> Message:
    return say("The page itself cannot be read: {reason}", reason=why.message)


def _best_reason(why: ReadError | None, programs: bool, failed: ReadError | None = None) -> ReadError:
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


def _with_little_warning(page: Page, fetched: FetchedResource, programs: bool) -> Page:
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


def _prune_menus(page: Page) -> Page:
    """Return a whole page that was served as Markdown, without the menus around its content."""
    kept = pruned(page.markdown)
    if kept == page.markdown:
        return page
    return replace(page, markdown=kept, share=round(len(kept) / len(page.markdown), 2))


def _source_text(fetched: FetchedResource) -> str:
    """Return the body as text. Raises ReadError if it is not text."""
    if not may_be_text(fetched):
        raise _no_text(fetched)
    return decode_leniently(fetched.body, fetched.charset, fetched.media_type)


def _no_text(fetched: FetchedResource) -> ReadError:
    kind = fetched.media_type or say("bytes")
    return ReadError(say("{kind} is not text, so it has no source to show.", kind=kind), "type")


MARKDOWN = frozenset({"text/markdown", "text/x-markdown"})

_HEAD = 200_000  # bytes in which links and generators are declared
_BODY = 500_000  # bytes in which a page's place for its program is looked for
_TEXTUAL = re.compile(
    r"text/.*|application/(?:.*[+-])?(?:json|xml|javascript|ecmascript|yaml|toml|sql|x-sh|graphql)"
)

# Possessive or bounded, because the input is untrusted; a name is looked for only where one begins.
_LINK = re.compile(rb"<link\b[^>]{1,2000}+>", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"""(?<![a-z-])([a-z-]++)\s*+=\s*+(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE
)
_IN_HEADER = re.compile(r"<([^<>]*+)>([^,<\"]*+(?:\"[^\"]*+\"[^,<\"]*+)*+)")

# Marks of documentation generators in a page.
_META = re.compile(rb"<meta\b[^>]{1,500}+>", re.IGNORECASE)
_MAKERS = re.compile(
    rb"docusaurus|vitepress|mkdocs|sphinx|gitbook|mintlify|starlight|nextra|docsify|hugo-book|readme\.io|redocly|"
    rb"vuepress|antora",
    re.IGNORECASE,
)
_MARKS_OF_MAKERS = (b"readthedocs", b"data-docusaurus", b"VPContent", b"mintlify")
_SCRIPT = re.compile(rb"<script\b", re.IGNORECASE)
_NOSCRIPT = re.compile(rb"<noscript\b[^>]{0,200}+>", re.IGNORECASE)
_SAID_WITHOUT = 1500  # bytes of text for browsers without scripts
_ASKS = re.compile("javascript|ジャバスクリプト", re.IGNORECASE)
_SHELL = re.compile(
    rb"<(div|main|section)[^>]{0,200}\bid=[\"']?(?:root|app|__next|__nuxt|___gatsby|application|app-root|main-app|svelte|"
    rb"react-root|mount)[\"']?[^>]{0,200}>\s*+(?:<!--(?>.{0,200}?-->)\s*+)*+</\1|"
    rb"<(app-root|ion-app|[a-z]{1,40}-app)\b[^>]{0,500}>\s*+</",
    re.IGNORECASE | re.DOTALL,
)

_HEADING = re.compile(r"\s{0,3}#{1,6}\s")
_ONE_LINK = re.compile(
    r"!?\[(?:[^\[\]]|\[[^\[\]\n]{0,200}+\](?:\([^()\n]{0,500}+\))?+){0,500}+\]\([^()\n]{0,2000}+\)"
)
_MARKS = re.compile(r"[\s\W_]+")
_BETWEEN = re.compile(r"\n(?:[ \t]*\n)+")
_LONGEST = 1_000_000  # characters of Markdown in which menus are looked for
_MENU = 3  # links that make a menu
_LABEL = 40  # characters of a label or an introduction


class HtmlHints(NamedTuple):
    """Hints in HTML: it needs scripts, it is documentation, it has its own Markdown."""

    programs: bool
    documents: bool
    offered: str | None


def html_hints(fetched: FetchedResource) -> HtmlHints:
    """Return all of it at once: some milliseconds for a large page."""
    return HtmlHints(wants_programs(fetched.body), documents(fetched.body), offered(fetched))


def is_dump(url: str, fetched: FetchedResource) -> bool:
    """Return whether Markdown was generated from a whole page on request, and is not a file of its own."""
    path = urlsplit(url).path.lower()
    return fetched.media_type in MARKDOWN and not path.endswith((".md", ".markdown", ".mdx", ".txt"))


def is_text(fetched: FetchedResource) -> bool:
    """Return whether this is a text for models, and not the page that a site serves for missing files."""
    start = fetched.body[:500].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    served = fetched.media_type in MARKDOWN or fetched.media_type in ("text/plain", "")
    return (
        served and not start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")) and may_be_text(fetched)
    )


def may_be_text(fetched: FetchedResource) -> bool:
    if fetched.media_type:
        return _TEXTUAL.fullmatch(fetched.media_type) is not None
    return b"\0" not in fetched.body[:4000]


def offered(fetched: FetchedResource) -> str | None:
    """Return the address of the page's Markdown, if the page or its header names one."""
    for address, rest in _IN_HEADER.findall(fetched.headers.get("link", "")):
        if alternate := _alternate_address(rest, address, fetched.url):
            return alternate
    for tag in _LINK.findall(fetched.body[:_HEAD]):
        text = tag.decode("utf-8", "replace")
        attributes = _parse_attributes(text)
        if alternate := _alternate_address(text, html.unescape(attributes.get("href", "")), fetched.url):
            return alternate
    return None


def _alternate_address(tag: str, address: str, base: str) -> str | None:
    attributes = _parse_attributes(tag)
    is_alternate = "alternate" in attributes.get("rel", "").lower().split()
    kind = attributes.get("type", "").lower().partition(";")[0].strip()
    if not (is_alternate and kind in MARKDOWN and address):
        return None
    try:
        here, other = target(base), joined(target(base), address)
    except ReadError:
        return None
    return other.url if other.origin == here.origin and other.url != here.url else None


def _parse_attributes(text: str) -> dict[str, str]:
    return {name.lower(): a or b or c for name, a, b, c in reversed(_ATTRIBUTE.findall(text))}


def beside(url: str) -> str | None:
    """Return the usual URL of a page's Markdown: ``.md`` in place of ``.html``, or appended to the path."""
    parts = urlsplit(url)
    path = re.sub(r"(?:/index)?\.html?$", "", parts.path).rstrip("/")
    if not path or "." in path.rpartition("/")[2]:
        return None
    return urlunsplit((parts.scheme, parts.netloc, f"{path}.md", "", ""))


def list_of(url: str) -> str:
    """Return llms.txt of a URL's folder: a last segment with a dot is a file, any other a folder."""
    parts = urlsplit(url)
    folder, _, last = parts.path.rpartition("/")
    path = folder if "." in last or not last else f"{folder}/{last}"
    return urlunsplit((parts.scheme, parts.netloc, f"{path}/llms.txt", "", ""))


def documents(body: bytes) -> bool:
    """Return whether a maker of documentation made the page: then its Markdown is its source."""
    head = body[:_HEAD]
    if any(mark in head for mark in _MARKS_OF_MAKERS):
        return True
    return any(b"generator" in tag.lower() and _MAKERS.search(tag) for tag in _META.findall(head))


def wants_programs(body: bytes) -> bool:
    """Return whether HTML looks like a shell that its programs would fill."""
    if _SCRIPT.search(body) is None:
        return False
    body = body[:_BODY]
    if _SHELL.search(body) is not None:
        return True
    return any(_ASKS.search(text.decode("utf-8", "replace")) for text in _without_programs(body))


def _without_programs(body: bytes) -> Iterator[bytes]:
    """Yield the text for browsers without scripts."""
    for begin in _NOSCRIPT.finditer(body):
        text = body[begin.end() : begin.end() + _SAID_WITHOUT]
        end = text.lower().find(b"</noscript")
        if end >= 0:
            yield text[:end]


def outside_links(markdown: str) -> str:
    """Return the Markdown without its links and their texts."""
    return _ONE_LINK.sub("", markdown)


def pruned(markdown: str) -> str:
    """Return a whole page as Markdown without the menus before and after its content, and repeated ones.

    Before the content, blocks of links and the labels around them are removed, up to the first title or text;
    after it, those that no heading or colon announces. A page made of links is not changed, nor a very long
    one.
    """
    if len(markdown) > _LONGEST:
        return markdown
    blocks = [_MarkdownParagraph(text) for text in _BETWEEN.split(markdown.strip()) if text]
    texts = sum(len(block.text) for block in blocks if not block.links)
    if texts * 4 < len(markdown):
        return markdown
    first, last = _count_leading(blocks), _begin_of_trailing(blocks)
    seen: set[str] = set()
    kept = []
    for block in blocks[first:last]:
        if block.links >= _MENU and block.text in seen:
            continue
        seen.add(block.text)
        kept.append(block)
    if len(kept) == len(blocks):
        return markdown
    return "\n\n".join(block.text for block in kept) + "\n"


class _MarkdownParagraph:
    """A block of Markdown. ``links`` is the number of links in a block of links, 0 for other blocks."""

    def __init__(self, text: str) -> None:
        self.text = text
        links = _ONE_LINK.findall(text) if "](" in text else []
        beyond = _MARKS.sub("", _ONE_LINK.sub("", text)) if links else text
        self.links = len(links) if links and len(beyond) <= 3 * len(links) else 0
        self.heading = _HEADING.match(text) is not None
        self.label = (
            not self.heading and len(text) < _LABEL and "\n" not in text and text[-1:] not in ".。:：!?！？"
        )


def _count_leading(blocks: list[_MarkdownParagraph]) -> int:
    """Return how many blocks before the content go."""
    at = menu = 0
    while at < len(blocks):
        block = blocks[at]
        titles_menu = block.heading and at + 1 < len(blocks) and blocks[at + 1].links >= _MENU
        if not (block.links or block.label or (titles_menu and not block.text.lstrip().startswith("# "))):
            break
        at += 1
        if block.links >= _MENU:
            menu = at
    # Labels are removed only with a menu: without one they are the beginning of the page.
    return at if menu and at < len(blocks) else 0


def _begin_of_trailing(blocks: list[_MarkdownParagraph]) -> int:
    """Return the index at which the blocks after the content begin."""
    at = end = len(blocks)
    while at > 1:
        block, before = blocks[at - 1], blocks[at - 2]
        if not (block.links or block.label) or before.heading or before.text.endswith((":", "：")):
            break
        at -= 1
        if block.links >= _MENU:
            end = at
    return end
