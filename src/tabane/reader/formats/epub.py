"""Books (EPUB) as pages: the chapters in reading order, without what their style sheets hide."""

from __future__ import annotations

import posixpath
import re
import zipfile
from dataclasses import dataclass, field
from html.entities import html5
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from lxml import etree, html
from lxml.html import HtmlElement

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.formats.archive import beginning, member, opened, said, tree
from tabane.reader.formats.article_html import drop_hidden
from tabane.reader.formats.text import LONGEST, broken
from tabane.reader.hidden_text import hidden_warnings
from tabane.reader.markdown import markdown
from tabane.reader.page import Page
from tabane.text.encodings import decode_leniently

_BOOK = say("book")
_CHAPTERS = 2000
_TAGS = 600_000  # of all chapters together
_SHEETS = 20  # style sheets of a chapter
_STYLES = 300_000  # bytes of one
_ENTITY = re.compile(r"&(\w{2,30});")
_XML = frozenset({"amp", "lt", "gt", "quot", "apos"})


def book_page(body: bytes, url: str) -> Page:
    """Return the book, cut at the limit of a page. Raises ReadError ``broken`` if it is encrypted."""
    with opened(body, _BOOK) as archive:
        names = frozenset(archive.namelist())
        if "META-INF/encryption.xml" in names and "META-INF/rights.xml" in names:
            raise broken(_BOOK, say("it is encrypted"))
        container = tree(member(archive, "META-INF/container.xml", _BOOK), _BOOK)
        root = next(container.iter("{*}rootfile"), None)
        path = root.get("full-path") if root is not None else None
        if not path:
            raise broken(_BOOK, say("it has no table of contents"))
        package = tree(member(archive, path, _BOOK), _BOOK)
        spine = _spine_names(package, posixpath.dirname(path))
        reader = _ChapterReader(archive, url)
        left = reader.read(spine[:_CHAPTERS]) + max(0, len(spine) - _CHAPTERS)
    warnings = hidden_warnings(reader.hidden)
    if left:
        warning = say("The last {count} {count:chapter is|chapters are} left out.", count=left)
        warnings = (*warnings, warning)
    return Page(
        url,
        "\n\n".join(reader.parts),
        title=said(package, "title"),
        author=said(package, "creator"),
        date=said(package, "date"),
        lang=said(package, "language"),
        site=said(package, "publisher"),
        way="epub",
        media_type="application/epub+zip",
        warnings=warnings,
    )


class _Item(NamedTuple):
    name: str
    properties: frozenset[str]


def _spine_names(package: etree._Element, folder: str) -> list[str]:
    """Return the names of the chapters in reading order: those beside the text last, and no navigation."""
    items = {
        item.get("id"): _Item(
            _resolve_path(folder, item.get("href") or ""), _word_set(item.get("properties"))
        )
        for item in package.iter("{*}item")
        if item.get("href")
    }
    contents = {
        _resolve_path(folder, each.get("href") or "")
        for each in package.iter("{*}reference")
        if (each.get("type") or "").lower() == "toc"
    }
    main: list[str] = []
    beside: list[str] = []
    for reference in package.iter("{*}itemref"):
        item = items.get(reference.get("idref"))
        if item is None or "nav" in item.properties or item.name in contents:
            continue
        (beside if reference.get("linear") == "no" else main).append(item.name)
    return main + beside


def _word_set(text: str | None) -> frozenset[str]:
    return frozenset((text or "").lower().split())


def _resolve_path(folder: str, href: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0])))


class StyleSheets:
    """The style sheets of a book; each is read once."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._texts: dict[str, str] = {}

    def put_into(self, root: HtmlElement, name: str) -> None:
        """Put the style sheets that a chapter links to into it, in their order. ``name`` is its file."""
        links = [
            link
            for link in root.iter("link")
            if "stylesheet" in _word_set(link.get("rel")) and "alternate" not in _word_set(link.get("rel"))
        ]
        for link in links[:_SHEETS]:
            style = link.makeelement("style")
            style.text = self._read_chapter_text(
                _resolve_path(posixpath.dirname(name), link.get("href") or "")
            )
            if link.get("media"):
                style.set("media", link.get("media") or "")
            style.tail = link.tail
            parent = link.getparent()
            if parent is not None:
                parent.replace(link, style)

    def _read_chapter_text(self, name: str) -> str:
        if name not in self._texts:
            try:
                data, _ = beginning(self._archive, name, _STYLES, _BOOK)
            except ReadError:  # a book without one of its style sheets can still be read
                data = b""
            self._texts[name] = _printable_text(decode_leniently(data, None, "text/css"))
        return self._texts[name]


@dataclass(slots=True)
class _ChapterReader:
    """Reads chapters as Markdown into ``parts``. ``hidden`` counts the parts that nobody sees."""

    archive: zipfile.ZipFile
    url: str
    parts: list[str] = field(default_factory=list)
    hidden: int = 0
    _tags: int = _TAGS
    _styles: StyleSheets = field(init=False)

    def __post_init__(self) -> None:
        self._styles = StyleSheets(self.archive)

    def read(self, names: list[str]) -> int:
        """Read the chapters; return how many there was no room for."""
        room = LONGEST
        for nth, name in enumerate(names):
            if room <= 0 or self._tags <= 0:
                return len(names) - nth
            text = decode_leniently(member(self.archive, name, _BOOK), None, "application/xhtml+xml")
            tags = text.count("<")
            if tags > self._tags:
                return len(names) - nth
            self._tags -= tags
            root = _parse_chapter(text)
            body = root.find("body") if root is not None else None
            if root is None or body is None:
                written = ""
            else:
                self._styles.put_into(root, name)
                self.hidden += drop_hidden(root, body)
                _remove_inner_addresses(body, posixpath.basename(name))
                written = markdown([body], self.url)
            if written:
                self.parts.append(written)
                room -= len(written)
        return 0


def _parse_chapter(text: str) -> HtmlElement | None:
    """Return a chapter: as XHTML, where an empty ``<title/>`` ends, else as HTML."""
    data = _ENTITY.sub(_entity_character, text)
    data = re.sub(r"^\s*<\?xml[^>]*\?>", "", data).strip()
    root: HtmlElement
    try:
        parser = html.XHTMLParser(
            resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
        )
        root = html.document_fromstring(data.encode(), parser=parser)
        html.xhtml_to_html(root)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        try:
            root = html.document_fromstring(
                _printable_text(text).encode("utf-8", "replace"), parser=html.HTMLParser(encoding="utf-8")
            )
        except (etree.ParserError, ValueError):
            return None
    return root


def _entity_character(match: re.Match[str]) -> str:
    """Return the character of an entity that XML does not have."""
    if match[1] in _XML:
        return match[0]
    return html5.get(match[1] + ";", match[0])


def _printable_text(text: str) -> str:
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", " ", text)


def _remove_inner_addresses(body: HtmlElement, file: str) -> None:
    """Remove addresses within the book, which lead nowhere outside it; notes of the chapter stay linked."""
    for link in body.iter("a"):
        href = (link.get("href") or "").strip()
        if not href or href.startswith("#"):
            continue
        try:
            parts = urlsplit(href)
        except ValueError:
            continue
        if parts.scheme or parts.netloc:
            continue
        if parts.fragment and posixpath.basename(unquote(parts.path)) == file:
            link.set("href", f"#{parts.fragment}")
        else:
            del link.attrib["href"]
    for image in list(body.iter("img")):
        source = image.get("src") or ""
        if not source.startswith(("http://", "https://")):
            words = image.get("alt") or ""
            image.attrib.clear()
            image.set("alt", words)
