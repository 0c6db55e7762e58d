"""Books (EPUB) as pages."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from urllib.parse import unquote

from lxml import etree, html

from tabane.messages import say
from tabane.reader.formats.archive import member, opened, said, tree
from tabane.reader.formats.text import LONGEST, broken
from tabane.reader.markdown import markdown
from tabane.reader.page import Page
from tabane.text.encodings import decode_leniently

_BOOK = say("book")
_CHAPTERS = 2000


def book_page(body: bytes, url: str) -> Page:
    """Return the book, cut at the limit of a page. Raises ReadError ``broken`` if it is encrypted."""
    with opened(body, _BOOK) as archive:
        if "META-INF/encryption.xml" in archive.namelist() and "META-INF/rights.xml" in archive.namelist():
            raise broken(_BOOK, say("it is encrypted"))
        container = tree(member(archive, "META-INF/container.xml", _BOOK), _BOOK)
        root = next(container.iter("{*}rootfile"), None)
        path = root.get("full-path") if root is not None else None
        if not path:
            raise broken(_BOOK, say("it has no table of contents"))
        package = tree(member(archive, path, _BOOK), _BOOK)
        names = list(_chapters(package, posixpath.dirname(path)))
        parts, left = _read(archive, names[:_CHAPTERS], url)
    left += max(0, len(names) - _CHAPTERS)
    return Page(
        url,
        "\n\n".join(parts),
        title=said(package, "title"),
        author=said(package, "creator"),
        date=said(package, "date"),
        lang=said(package, "language"),
        site=said(package, "publisher"),
        way="epub",
        media_type="application/epub+zip",
        warnings=(say("The last {count} {count:chapter is|chapters are} left out.", count=left),)
        if left
        else (),
    )


def _chapters(package: etree._Element, folder: str) -> Iterator[str]:
    files = {item.get("id"): item.get("href") for item in package.iter("{*}item")}
    for reference in package.iter("{*}itemref"):
        href = files.get(reference.get("idref"))
        if href:
            yield posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0])))


def _read(archive: zipfile.ZipFile, names: list[str], url: str) -> tuple[list[str], int]:
    """Return chapters, and how many there was no room for."""
    parts: list[str] = []
    room = LONGEST
    for nth, name in enumerate(names):
        if room <= 0:
            return parts, len(names) - nth
        text = decode_leniently(member(archive, name, _BOOK), None, "application/xhtml+xml")
        try:
            page = html.document_fromstring(text.encode(), parser=html.HTMLParser(encoding="utf-8"))
        except (etree.ParserError, ValueError):
            continue
        content = page.find("body")
        written = markdown([content], url) if content is not None else ""
        if written:
            parts.append(written)
            room -= len(written)
    return parts, 0
