"""Addresses that a site names: the links of a page, what it asks of robots, and sitemaps. Pure, with budgets.

HTML and XML are read as a stream of elements, so that no input is deep or large enough to be expensive.
"""

from __future__ import annotations

import codecs
import contextlib
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from lxml import etree

from tabane.errors import ReadError
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.guard import joined, target

MOST_BYTES = 4_000_000
"""Bytes of a page in which links are looked for."""

MOST_LINKS = 3_000
"""Links of a page that are followed."""

MOST_ENTRIES = 50_000
"""Entries of a sitemap, as its protocol allows."""

LARGEST_SITEMAP = 50_000_000
"""Bytes of a sitemap after decompression, as its protocol allows."""

_LONGEST = 2_000
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_MARKDOWN_LINK = re.compile(r"\]\(<?(https?://[^\s<>()]{1,2000}(?:\([^\s<>()]{0,200}\)[^\s<>()]{0,500})?)")
_GZIP = b"\x1f\x8b"


class PageLinks(NamedTuple):
    """The links of a page in their order, absolute.

    ``follow`` and ``listed``: whether the page lets programs follow its links, and list it.
    """

    links: tuple[str, ...] = ()
    follow: bool = True
    listed: bool = True


def links_of(resource: FetchedResource) -> PageLinks:
    """Return the links that may be followed from a page. No links if the page asks robots not to."""
    follow, index = _robots_directives(resource.headers.get("x-robots-tag", ""))
    if resource.media_type not in _HTML:
        return PageLinks((), follow, index)
    page = _LinkCollector()
    _feed(etree.HTMLParser, page, resource.body[:MOST_BYTES], encoding=_known_charset(resource.charset))
    follow = follow and page.follow
    return PageLinks(tuple(_absolute(page, resource.url)) if follow else (), follow, index and page.index)


def links_of_markdown(markdown: str) -> tuple[str, ...]:
    """Return the absolute links of a page's Markdown: of one that is not HTML, or whose source is unknown."""
    found = (match[1] for match in _MARKDOWN_LINK.finditer(markdown[:MOST_BYTES]))
    return tuple(dict.fromkeys(url for url, _ in zip(found, range(MOST_LINKS), strict=False)))


def _feed(parser: Callable[..., Any], collector: object, body: bytes, **settings: Any) -> None:
    """Hand the elements of a document to a collector. What came before a fault is kept."""
    with contextlib.suppress(etree.LxmlError, _Enough, ValueError):
        feeding = parser(target=collector, recover=True, no_network=True, **settings)
        feeding.feed(body)
        feeding.close()


def _known_charset(name: str | None) -> str | None:
    """Return the charset of a header; None if there is none that is known."""
    try:
        return codecs.lookup(name).name if name else None
    except LookupError:
        return None


class _Enough(Exception):
    """The budget of a document is used up."""


class _LinkCollector:
    """Collects links and directives from the elements of an HTML page."""

    def __init__(self) -> None:
        self.links: list[str] = []
        self.base = ""
        self.follow = self.index = True

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag in ("a", "area", "frame"):
            where = attributes.get("src" if tag == "frame" else "href", "").strip()
            if where and not where.startswith("#") and "nofollow" not in attributes.get("rel", "").lower():
                self.links.append(where[: _LONGEST + 1])
                if len(self.links) >= MOST_LINKS:
                    raise _Enough
        elif tag == "link" and attributes.get("rel", "").lower() in ("next", "prev"):
            self.links.append(attributes.get("href", "").strip()[: _LONGEST + 1])
        elif tag == "base":
            self.base = self.base or attributes.get("href", "").strip()
        elif tag == "meta" and attributes.get("name", "").lower() in ("robots", "tabane"):
            follow, index = _robots_directives(attributes.get("content", ""))
            self.follow, self.index = self.follow and follow, self.index and index

    def close(self) -> None:
        return None


def _robots_directives(text: str) -> tuple[bool, bool]:
    """Return whether links may be followed, and whether the page may be listed."""
    words = {word.strip().lower() for word in re.split(r"[,\s:]", text)}
    none = "none" in words
    return not (none or "nofollow" in words), not (none or "noindex" in words)


def _absolute(page: _LinkCollector, url: str) -> Iterator[str]:
    base = target(url)
    try:
        base = joined(base, page.base) if page.base else base
    except ReadError:
        base = target(url)
    seen: set[str] = set()
    for link in page.links:
        if len(link) > _LONGEST:
            continue
        try:
            found = joined(base, link).url
        except ReadError:  # mailto: and other schemes, and what is no URL
            continue
        if found not in seen:
            seen.add(found)
            yield found


class SitemapEntry(NamedTuple):
    """An address in a sitemap. ``changed`` is when the site says that the page changed, as written."""

    url: str
    changed: str


class Sitemap(NamedTuple):
    """The entries of a sitemap. ``nested``: they are sitemaps themselves."""

    entries: list[SitemapEntry]
    nested: bool = False


def sitemap_of(body: bytes) -> Sitemap:
    """Return a sitemap in XML or as lines of addresses, gzipped or not. What cannot be read is left out."""
    if body.startswith(_GZIP):
        try:
            body = zlib.decompressobj(wbits=31).decompress(body, LARGEST_SITEMAP)
        except zlib.error:
            return Sitemap([])
    if b"<" not in body[:1_000]:
        lines = body[:LARGEST_SITEMAP].decode("utf-8", "replace").split("\n", MOST_ENTRIES)[:MOST_ENTRIES]
        return Sitemap([SitemapEntry(line.strip(), "") for line in lines if line.strip().startswith("http")])
    found = _SitemapCollector()
    _feed(etree.XMLParser, found, body[:LARGEST_SITEMAP], resolve_entities=False)
    return Sitemap(found.entries, found.index)


class _SitemapCollector:
    """Collects the entries of a sitemap, or of an index of sitemaps."""

    def __init__(self) -> None:
        self.entries: list[SitemapEntry] = []
        self.index = False
        self._text: list[str] | None = None
        self._url = self._changed = ""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = tag.rpartition("}")[2]
        self.index = self.index or name == "sitemapindex"
        if name in ("url", "sitemap"):
            self._url = self._changed = ""
        # Entries of images and videos have addresses of their own, in other namespaces.
        self._text = [] if name == "lastmod" or (name == "loc" and "image" not in tag.lower()) else None

    def data(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text[:_LONGEST])

    def end(self, tag: str) -> None:
        name = tag.rpartition("}")[2]
        if name == "loc" and self._text is not None:
            self._url = "".join(self._text).strip()[:_LONGEST]
        elif name == "lastmod" and self._text is not None:
            self._changed = "".join(self._text).strip()[:40]
        elif name in ("url", "sitemap") and self._url:
            self.entries.append(SitemapEntry(self._url, self._changed))
            if len(self.entries) >= MOST_ENTRIES:
                raise _Enough
        self._text = None

    def close(self) -> None:
        return None
