"""Office documents as pages: DOCX, XLSX and PPTX, ODT, ODS and ODP, and the XLS of old."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lxml import etree

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.formats.archive import opened
from tabane.reader.formats.office.docx import read_docx
from tabane.reader.formats.office.model import OfficeContent
from tabane.reader.formats.office.open_documents import about_open, read_odp, read_ods, read_odt
from tabane.reader.formats.office.package import DOCUMENT, OfficePackage
from tabane.reader.formats.office.pptx import read_pptx
from tabane.reader.formats.office.xls import read_xls
from tabane.reader.formats.office.xlsx import read_xlsx
from tabane.reader.formats.text import bounded, broken
from tabane.reader.hidden_text import hidden_warnings
from tabane.reader.markdown import markdown
from tabane.reader.page import Page

_OFFICE = "application/vnd.openxmlformats-officedocument."
_OPEN = "application/vnd.oasis.opendocument."
_MEDIA = {
    "docx": _OFFICE + "wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": _OFFICE + "spreadsheetml.sheet",
    "pptx": _OFFICE + "presentationml.presentation",
    "odt": _OPEN + "text",
    "ods": _OPEN + "spreadsheet",
    "odp": _OPEN + "presentation",
}
_READERS: Mapping[str, Callable[[OfficePackage], OfficeContent]] = {
    "docx": read_docx,
    "xlsx": read_xlsx,
    "pptx": read_pptx,
    "odt": read_odt,
    "ods": read_ods,
    "odp": read_odp,
}


SECONDS, FEW_SECONDS = 3.0, 0.8
"""CPU time to read a document, about half of what it takes as a whole; and for one that was too slow."""


def office_page(body: bytes, url: str, kind: str, seconds: float = SECONDS) -> Page:
    """Return a document of this kind: of one that takes longer, the beginning.

    Raises ReadError: ``broken``, ``large``, ``key`` if it has a password.
    """
    about: dict[str, Any] = {}
    if kind == "xls":
        content = read_xls(body, seconds)
    else:
        with opened(body, DOCUMENT) as archive:
            package = OfficePackage(archive, seconds)
            about = about_open(package) if kind.startswith("od") else package.about()
            try:
                content = _READERS[kind](package)
            except ReadError:
                raise
            except (etree.LxmlError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
                raise broken(DOCUMENT, error) from None  # what a changed document makes us stumble over
    written = content.content
    text, cut = bounded(written if isinstance(written, str) else markdown([written], url))
    warnings = [*content.notes, *hidden_warnings(content.hidden)]
    if content.deep:
        warnings.append(
            say(
                "{count} {count:part is|parts are} nested too deeply and left out.",
                count=content.deep,
            )
        )
    if content.cut:
        warnings.append(say("The page is larger than the limit, so its end is missing."))
    return Page(url, text, way=kind, media_type=_MEDIA[kind], warnings=(*warnings, *cut), **about)
