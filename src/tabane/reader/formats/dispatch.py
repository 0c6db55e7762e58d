"""Dispatch by type: each converter is imported when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.decoding import decoded
from tabane.reader.formats.media_type_detection import Kind, UnsupportedMediaType, code_language, kind_of
from tabane.reader.formats.text import bounded, unix
from tabane.reader.page import Page
from tabane.reader.plain_text import title_of, visible_text

_LONGEST = 20_000_000  # characters of markup that are read in one pass


@dataclass(frozen=True, slots=True)
class _TypedBody:
    """What was got, and what was said of it."""

    data: bytes
    url: str
    media: str
    charset: str | None
    name: str

    def text(self) -> str:
        return decoded(self.data, self.charset, self.media)


def page_of(body: bytes, url: str, media_type: str = "", charset: str | None = None, name: str = "") -> Page:
    """Return the page that these bytes are. Synchronous and without I/O; takes as long as a parser takes.

    ``media_type`` and ``charset`` are what the server said, ``name`` that of a file. Raises ReadError:
    ``type`` for what nothing here reads, ``broken`` for what is not so, ``large``, ``empty``, ``key``.
    """
    media = media_type.partition(";")[0].strip().lower()
    try:
        kind = kind_of(body, media, name, url)
    except UnsupportedMediaType as unread:
        raise _unread(str(unread.args[0])) from None
    return _READERS[kind](_TypedBody(body, url, media, charset, name))


_STRUCTURED = frozenset({"html", "whole", "wiki", "xml"})
_TEXTUAL = frozenset({"plain", "code", "markdown", "json", "ndjson", "csv", "tsv"})


def plain_page_of(
    body: bytes,
    url: str,
    media_type: str = "",
    charset: str | None = None,
    name: str = "",
    *,
    with_scripts: bool = True,
) -> Page:
    """Return the text of a page that takes too long to analyze, in one pass. Parameters as in page_of.

    Without ``with_scripts``, it includes what browsers without scripts show. Raises ReadError: ``type`` if
    it is not text.
    """
    media = media_type.partition(";")[0].strip().lower()
    try:
        kind = kind_of(body, media, name, url)
    except UnsupportedMediaType as unread:
        raise _unread(str(unread.args[0])) from None
    if kind not in _STRUCTURED | _TEXTUAL:
        raise _unread(media or kind)
    text = decoded(body, charset, "text/html" if kind in _STRUCTURED else media)
    if kind in _TEXTUAL:
        return _plain_page(unix(text), url, media)
    return _seen(text, url, media, with_scripts=with_scripts)


def _seen(text: str, url: str, media: str, *, with_scripts: bool) -> Page:
    page = _plain_page(visible_text(text[:_LONGEST], with_scripts=with_scripts), url, media)
    page = replace(page, title=title_of(text))
    if len(text) <= _LONGEST:
        return page
    warning = say("The page is larger than can be read: its end is missing.")
    return replace(page, warnings=(warning, *page.warnings))


def _plain_page(text: str, url: str, media: str) -> Page:
    shown, warnings = bounded(text.strip("\n"))
    return Page(url, shown, way="plain", media_type=media or "text/plain", warnings=warnings)


def _unread(kind: str) -> ReadError:
    return ReadError(say("Nothing here reads content of the type {type}.", type=kind or "?"), "type")


def _html(body: _TypedBody) -> Page:
    from tabane.reader.extraction.article import extract

    page = extract(body.data, body.url, body.charset)
    return replace(page, media_type=body.media) if "xhtml" in body.media else page


def _plain(body: _TypedBody) -> Page:
    from tabane.reader.formats.text import plain

    return plain(body.text(), body.url)


def _code(body: _TypedBody) -> Page:
    from tabane.reader.formats.text import code

    return code(body.text(), body.url, code_language(body.media, body.name, body.url))


def _markdown(body: _TypedBody) -> Page:
    from tabane.reader.formats.text import marked

    return marked(body.text(), body.url)


def _json(body: _TypedBody) -> Page:
    from tabane.reader.formats.data_files import json_page

    return json_page(body.text(), body.url)


def _json_lines(body: _TypedBody) -> Page:
    from tabane.reader.formats.data_files import json_page

    return json_page(body.text(), body.url, lines=True)


def _xml(body: _TypedBody) -> Page:
    from tabane.reader.formats.xml import xml_page

    return xml_page(decoded(body.data, body.charset, "application/xml"), body.url)


def _csv(body: _TypedBody) -> Page:
    from tabane.reader.formats.data_files import csv_page

    return csv_page(body.text(), body.url)


def _tsv(body: _TypedBody) -> Page:
    from tabane.reader.formats.data_files import csv_page

    return csv_page(body.text(), body.url, "\t")


def _pdf(body: _TypedBody) -> Page:
    from tabane.reader.formats.pdf import pdf_page

    return pdf_page(body.data, body.url)


def _image(body: _TypedBody) -> Page:
    from tabane.reader.formats.images import image_page

    return image_page(body.data, body.url, PurePosixPath(body.name or body.url.partition("?")[0]).name)


def _docx(body: _TypedBody) -> Page:
    from tabane.reader.formats.zipped_documents import office_page

    return office_page(body.data, body.url, "docx")


def _xlsx(body: _TypedBody) -> Page:
    from tabane.reader.formats.zipped_documents import office_page

    return office_page(body.data, body.url, "xlsx")


def _pptx(body: _TypedBody) -> Page:
    from tabane.reader.formats.zipped_documents import office_page

    return office_page(body.data, body.url, "pptx")


def _epub(body: _TypedBody) -> Page:
    from tabane.reader.formats.zipped_documents import book_page

    return book_page(body.data, body.url)


def _whole(body: _TypedBody) -> Page:
    from tabane.reader.formats.article_html import whole_page

    return whole_page(decoded(body.data, body.charset, "text/html"), body.url)


def _wiki(body: _TypedBody) -> Page:
    from tabane.reader.formats.article_html import wiki_page

    return wiki_page(decoded(body.data, body.charset, "text/html"), body.url)


_READERS: Mapping[Kind, Callable[[_TypedBody], Page]] = {
    "html": _html,
    "plain": _plain,
    "code": _code,
    "markdown": _markdown,
    "json": _json,
    "ndjson": _json_lines,
    "xml": _xml,
    "csv": _csv,
    "tsv": _tsv,
    "pdf": _pdf,
    "image": _image,
    "docx": _docx,
    "xlsx": _xlsx,
    "pptx": _pptx,
    "epub": _epub,
    "whole": _whole,
    "wiki": _wiki,
}
