"""Formats: bytes of any supported type as a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import PurePosixPath

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.formats.media_type_detection import Kind, UnsupportedMediaType, code_language, kind_of
from tabane.reader.formats.text import bounded, code, marked, plain, unix
from tabane.reader.page import Page
from tabane.reader.plain_text import title_of, visible_text
from tabane.text.encodings import decode_leniently

__all__ = ["page_of", "plain_page_of"]


_LONGEST = 20_000_000  # characters of markup that are read in one pass


@dataclass(frozen=True, slots=True)
class _TypedBody:
    """A fetched body with its declared type, charset and name."""

    kind: Kind
    data: bytes
    url: str
    media: str
    charset: str | None
    name: str

    def text(self) -> str:
        return decode_leniently(self.data, self.charset, self.media)


def page_of(body: bytes, url: str, media_type: str = "", charset: str | None = None, name: str = "") -> Page:
    """Return the page that these bytes contain. Synchronous and without I/O; takes as long as its parser.

    ``media_type`` and ``charset`` are those that the server declared, ``name`` is a file name. Raises
    ReadError: ``type`` if the type is not supported, ``broken`` if the bytes are not of that type, ``large``,
    ``empty``, ``key``.
    """
    kind, media = _kind_of_body(body, media_type, name, url)
    return _READERS[kind](_TypedBody(kind, body, url, media, charset, name))


def _kind_of_body(body: bytes, media_type: str, name: str, url: str) -> tuple[Kind, str]:
    """Return the kind of the bytes, and the media type without its parameters. Raises ReadError, ``type``."""
    media = media_type.partition(";")[0].strip().lower()
    try:
        return kind_of(body, media, name, url), media
    except UnsupportedMediaType as error:
        raise _unsupported(str(error.args[0])) from None


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
    """Return the text of a page that takes too long to analyze, in one pass; the beginning of a document.

    Parameters as in page_of. Without ``with_scripts``, it includes what browsers without scripts show. Raises
    ReadError: ``type`` if it is neither text nor such a document.
    """
    kind, media = _kind_of_body(body, media_type, name, url)
    if _READERS.get(kind) is _read_office:
        return _read_office(_TypedBody(kind, body, url, media, charset, name), quick=True)
    if kind not in _STRUCTURED | _TEXTUAL:
        raise _unsupported(media or kind)
    text = decode_leniently(body, charset, "text/html" if kind in _STRUCTURED else media)
    if kind in _TEXTUAL:
        return _plain_page(unix(text), url, media)
    page = _plain_page(visible_text(text[:_LONGEST], with_scripts=with_scripts), url, media)
    page = replace(page, title=title_of(text))
    if len(text) <= _LONGEST:
        return page
    warning = say("The page is larger than the limit, so its end is missing.")
    return replace(page, warnings=(warning, *page.warnings))


def _plain_page(text: str, url: str, media: str) -> Page:
    shown, warnings = bounded(text.strip("\n"))
    return Page(url, shown, way="plain", media_type=media or "text/plain", warnings=warnings)


def _unsupported(kind: str) -> ReadError:
    return ReadError(say("Content of type {type} cannot be read.", type=kind or "?"), "type")


# Each format has its seam: a process loads the parsers of the formats that it has met.
def _read_html(body: _TypedBody) -> Page:
    from tabane.reader.extraction.article import extract  # lxml

    page = extract(body.data, body.url, body.charset)
    return replace(page, media_type=body.media) if "xhtml" in body.media else page


def _read_text(body: _TypedBody) -> Page:
    if body.kind == "plain":
        return plain(body.text(), body.url)
    if body.kind == "markdown":
        return marked(body.text(), body.url)
    return code(body.text(), body.url, code_language(body.media, body.name, body.url))


def _read_data(body: _TypedBody) -> Page:
    from tabane.reader.formats.data_files import csv_page, json_page

    if body.kind in ("json", "ndjson"):
        return json_page(body.text(), body.url, lines=body.kind == "ndjson")
    return csv_page(body.text(), body.url, "\t" if body.kind == "tsv" else "")


def _read_xml(body: _TypedBody) -> Page:
    from tabane.reader.formats.xml import xml_page

    return xml_page(decode_leniently(body.data, body.charset, "application/xml"), body.url)


def _read_image(body: _TypedBody) -> Page:
    from tabane.reader.formats.images import image_page

    return image_page(body.data, body.url, PurePosixPath(body.name or body.url.partition("?")[0]).name)


def _read_office(body: _TypedBody, *, quick: bool = False) -> Page:
    from tabane.reader.formats.office import FEW_SECONDS, SECONDS, office_page

    return office_page(body.data, body.url, body.kind, FEW_SECONDS if quick else SECONDS)


_PARSERS: Mapping[Kind, tuple[str, str]] = {
    "pdf": ("pdf", "pdf_page"),
    "epub": ("epub", "book_page"),
    "mail": ("mail", "mail_page"),
    "rtf": ("rtf", "rtf_page"),
}
"""Module and function of each parser that needs nothing but the bytes and their URL."""


def _read_bytes(body: _TypedBody) -> Page:
    module, name = _PARSERS[body.kind]
    parse: Callable[[bytes, str], Page] = getattr(import_module(f"{__name__}.{module}"), name)
    return parse(body.data, body.url)


def _read_article(body: _TypedBody) -> Page:
    from tabane.reader.formats.article_html import whole_page, wiki_page

    page = wiki_page if body.kind == "wiki" else whole_page
    return page(decode_leniently(body.data, body.charset, "text/html"), body.url)


_READERS: Mapping[Kind, Callable[[_TypedBody], Page]] = {
    "html": _read_html,
    "plain": _read_text,
    "code": _read_text,
    "markdown": _read_text,
    "json": _read_data,
    "ndjson": _read_data,
    "xml": _read_xml,
    "csv": _read_data,
    "tsv": _read_data,
    "pdf": _read_bytes,
    "image": _read_image,
    "docx": _read_office,
    "xls": _read_office,
    "xlsx": _read_office,
    "pptx": _read_office,
    "odt": _read_office,
    "ods": _read_office,
    "odp": _read_office,
    "epub": _read_bytes,
    "mail": _read_bytes,
    "rtf": _read_bytes,
    "whole": _read_article,
    "wiki": _read_article,
}
