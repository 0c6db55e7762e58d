"""Kinds of documents that are ZIP archives, detected by the index of the archive. Loads no parser."""

from __future__ import annotations

import io
import zipfile
import zlib

UNREADABLE_INDEX = (zipfile.BadZipFile, ValueError, NotImplementedError)
"""Errors of zipfile for bytes that are no archive that it can read."""

UNREADABLE_MEMBER = (KeyError, RuntimeError, OSError, EOFError, zlib.error, *UNREADABLE_INDEX)
"""Errors of zipfile for a file of an archive that is missing, damaged or encrypted."""

_ODF = "application/vnd.oasis.opendocument."
_OPEN_DOCUMENTS = {"text": "odt", "spreadsheet": "ods", "presentation": "odp"}
_LONGEST = 200  # bytes of a media type in an archive
_FOLDERS = (("word/", "docx"), ("xl/", "xlsx"), ("ppt/", "pptx"))


def zipped_kind(body: bytes) -> str | None:
    """Return the kind of document: docx, xlsx, pptx, odt, ods, odp or epub. None for another archive, or for
    none.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            names = archive.namelist()
            present = set(names)
            declared = _declared(archive) if "mimetype" in present else ""
    except UNREADABLE_INDEX:
        return None
    if declared.startswith(_ODF):
        kind = declared.removeprefix(_ODF).removesuffix("-template").removesuffix("-master")
        return _OPEN_DOCUMENTS.get(kind)
    for main, kind in (("word/document", "docx"), ("xl/workbook", "xlsx"), ("ppt/presentation", "pptx")):
        if f"{main}.xml" in present:
            return kind
    if "META-INF/container.xml" in present:
        return "epub"
    # Some programs give the main part another name, such as word/document2.xml.
    if "[Content_Types].xml" in present:
        for folder, kind in _FOLDERS:
            if any(name.startswith(folder) and name.endswith(".xml") and "/" not in name[len(folder) :]
                   for name in names):  # fmt: skip
                return kind
    return None


def _declared(archive: zipfile.ZipFile) -> str:
    """Return the media type that an OpenDocument file or a book contains as its first file."""
    try:
        with archive.open("mimetype") as file:
            return file.read(_LONGEST).decode("ascii", "replace").strip()
    except UNREADABLE_MEMBER:
        return ""
