"""Documents in ZIP archives: EPUB, and office files by the libraries of the extra ``office``."""

from __future__ import annotations

import importlib
import io
import posixpath
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any
from urllib.parse import unquote

from lxml import etree, html

from tabane.errors import ReadError
from tabane.extras import extra_command
from tabane.messages import Message, say
from tabane.reader.formats.data_files import table
from tabane.reader.formats.text import LONGEST, bounded, broken, too_large
from tabane.reader.markdown import escaping, markdown
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


_FILES = 20_000
_UNPACKED = 300_000_000  # bytes of all files together
_PART = 60_000_000  # bytes of one that is read as XML: a tree of it takes ten times as many


def opened(body: bytes, what: Message) -> zipfile.ZipFile:
    """Return the archive, if its index declares no more than a document contains: zipfile reads no more than
    that.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(body))
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise broken(what, error) from None
    files = archive.infolist()
    if len(files) > _FILES:
        raise too_large(what, f"{len(files)} files", _FILES)
    whole = sum(file.file_size for file in files)
    if whole > _UNPACKED:
        raise too_large(what, f"{whole // 1_000_000} MB", f"{_UNPACKED // 1_000_000} MB")
    for file in files:
        if file.filename.endswith((".xml", ".xhtml", ".html", ".rels", ".opf")) and file.file_size > _PART:
            raise too_large(what, f"{file.file_size // 1_000_000} MB", f"{_PART // 1_000_000} MB")
    return archive


def member(archive: zipfile.ZipFile, name: str, what: Message) -> bytes:
    """Return a file of the archive."""
    try:
        return archive.read(name)
    except (
        KeyError,
        RuntimeError,
        OSError,
        ValueError,
        zipfile.BadZipFile,
        NotImplementedError,
        EOFError,
        zlib.error,
    ) as error:
        raise broken(what, error) from None


def tree(data: bytes, what: Message) -> etree._Element:
    """Parse XML of the archive, without entities or network access."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise broken(what, error) from None


def said(root: etree._Element, name: str) -> str | None:
    """Return the text of the first element of this name, whatever its namespace."""
    node = next(root.iter(f"{{*}}{name}"), None)
    text = " ".join("".join(str(part) for part in node.itertext()).split()) if node is not None else ""
    return text[:500] or None


_DOCUMENT = say("document")
_MEDIA = "application/vnd.openxmlformats-officedocument."
_SHEETS = 50
_SLIDES = 1000


def office_page(body: bytes, url: str, kind: str) -> Page:
    """Return a ``docx``, ``xlsx`` or ``pptx``. Raises ReadError ``type`` if the extra is not installed."""
    with opened(body, _DOCUMENT) as archive:
        about = _about(archive)
    try:
        page = _READERS[kind](body, url)
    except ReadError:
        raise
    except Exception as error:  # the libraries raise whatever a broken document makes them stumble over
        raise broken(_DOCUMENT, error) from None
    text, warnings = bounded(page.markdown, LONGEST)
    return replace(page, markdown=text, warnings=(*page.warnings, *warnings), way=kind, **about)


def _about(archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the metadata of the document."""
    if "docProps/core.xml" not in archive.namelist():
        return {}
    core = tree(member(archive, "docProps/core.xml", _DOCUMENT), _DOCUMENT)
    return {
        "title": said(core, "title"),
        "author": said(core, "creator"),
        "date": said(core, "modified") or said(core, "created"),
        "lang": said(core, "language"),
    }


def _library(name: str, kind: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ReadError(
            say(
                "Reading {type} needs an extra package. Install it with: {command}",
                type=kind,
                command=extra_command("office"),
            ),
            "type",
        ) from None


def _document(body: bytes, url: str) -> Page:
    mammoth = _library("mammoth", "docx")
    ignored = mammoth.images.img_element(lambda image: {"alt": image.alt_text or ""})
    converted = mammoth.convert_to_html(io.BytesIO(body), convert_image=ignored)
    tree = html.fragment_fromstring(converted.value, create_parent="div")
    return Page(url, markdown([tree], url), media_type=_MEDIA + "wordprocessingml.document")


def _sheets(body: bytes, url: str) -> Page:
    openpyxl = _library("openpyxl", "xlsx")
    book = openpyxl.load_workbook(io.BytesIO(body), read_only=True, data_only=True, keep_links=False)
    parts: list[str] = []
    warnings: list[Message] = []
    try:
        for sheet in book.worksheets[:_SHEETS]:
            made = table(sheet.iter_rows(values_only=True))
            parts += [f"## {escaping.inline(sheet.title)}", made.markdown]
            warnings += [say("{sheet}: {warning}", sheet=sheet.title, warning=each) for each in made.warnings]
        if len(book.worksheets) > _SHEETS:
            warnings.append(
                say(
                    "{shown} of {all} {all:sheet is|sheets are} shown.",
                    shown=_SHEETS,
                    all=len(book.worksheets),
                )
            )
    finally:
        book.close()
    text = "\n\n".join(part for part in parts if part)
    return Page(url, text, media_type=_MEDIA + "spreadsheetml.sheet", warnings=tuple(warnings))


def _slides(body: bytes, url: str) -> Page:
    pptx = _library("pptx", "pptx")
    slides = list(pptx.Presentation(io.BytesIO(body)).slides)
    parts = [part for nth, slide in enumerate(slides[:_SLIDES], 1) for part in _slide(slide, nth)]
    warnings: tuple[Message, ...] = ()
    if len(slides) > _SLIDES:
        warnings = (say("{shown} of {all} {all:slide is|slides are} shown.", shown=_SLIDES, all=len(slides)),)
    return Page(url, "\n\n".join(parts), media_type=_MEDIA + "presentationml.presentation", warnings=warnings)


def _slide(slide: Any, nth: int) -> Iterator[str]:
    title = slide.shapes.title
    head = " ".join(title.text_frame.text.split()) if title is not None else ""
    yield f"## {nth}. {escaping.inline(head)}" if head else f"## {nth}."
    for shape in slide.shapes:
        if title is None or shape.shape_id != title.shape_id:
            yield from _shape(shape)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = " ".join(slide.notes_slide.notes_text_frame.text.split())
        if notes:
            yield "> " + escaping.inline(notes)


def _shape(shape: Any, depth: int = 0) -> Iterator[str]:
    if hasattr(shape, "shapes") and depth < 10:
        for inner in shape.shapes:
            yield from _shape(inner, depth + 1)
    elif getattr(shape, "has_table", False):
        yield table([[cell.text for cell in row.cells] for row in shape.table.rows]).markdown
    elif getattr(shape, "has_text_frame", False):
        lines = [
            "  " * paragraph.level + "- " + escaping.inline(" ".join(paragraph.text.split()))
            for paragraph in shape.text_frame.paragraphs
            if paragraph.text.strip()
        ]
        if lines:
            yield "\n".join(lines) if len(lines) > 1 else lines[0].removeprefix("- ")


_READERS: Mapping[str, Callable[[bytes, str], Page]] = {"docx": _document, "xlsx": _sheets, "pptx": _slides}
