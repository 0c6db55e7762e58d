"""Files that are archives of XML: opened only where what is in them is bounded."""

from __future__ import annotations

import io
import zipfile
import zlib

from lxml import etree

from tabane.messages import Message
from tabane.reader.formats.made import broken, too_large

_FILES = 20_000
_UNPACKED = 300_000_000  # bytes of all files together
_PART = 60_000_000  # bytes of one that is read as XML: a tree of it takes ten times as many


def opened(body: bytes, what: Message) -> zipfile.ZipFile:
    """The archive, where it holds no more than a document does: zipfile reads no more than its index says."""
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
    """A file of the archive."""
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
    """XML of the archive: no entities, nothing fetched."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise broken(what, error) from None


def said(root: etree._Element, name: str) -> str | None:
    """The text of the first element of this name, whatever its namespace."""
    node = next(root.iter(f"{{*}}{name}"), None)
    text = " ".join("".join(str(part) for part in node.itertext()).split()) if node is not None else ""
    return text[:500] or None
