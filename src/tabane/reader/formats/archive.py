"""Files of a ZIP archive as bytes and as trees of XML, within limits."""

from __future__ import annotations

import io
import zipfile
from typing import NamedTuple

from lxml import etree

from tabane.messages import Message
from tabane.reader.formats.media_type_detection import UNREADABLE_INDEX, UNREADABLE_MEMBER
from tabane.reader.formats.text import broken, too_large

_FILES = 20_000
_UNPACKED = 300_000_000  # bytes of all files together
_PART = 60_000_000  # bytes of one that is read as XML: a tree of it takes ten times as many
_STREAMED = ("xl/worksheets/", "xl/sharedStrings")  # these are read piece by piece, as far as they are shown
_TAGS = 2_500_000  # tags of XML that become a tree
_XML = (".xml", ".xhtml", ".html", ".rels", ".opf")


class BoundedTree(NamedTuple):
    """XML as a tree. ``cut``: it has more tags than the limit, or is nested too deeply: this is its
    beginning.
    """

    root: etree._Element
    cut: bool


def opened(body: bytes, what: Message) -> zipfile.ZipFile:
    """Return the archive, if its index declares no more than a document contains: zipfile reads no more than
    that.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(body))
    except UNREADABLE_INDEX as error:
        raise broken(what, error) from None
    files = archive.infolist()
    if len(files) > _FILES:
        raise too_large(what, f"{len(files)} files", _FILES)
    whole = sum(file.file_size for file in files)
    if whole > _UNPACKED:
        raise too_large(what, f"{whole // 1_000_000} MB", f"{_UNPACKED // 1_000_000} MB")
    for file in files:
        if not file.filename.endswith(_XML) or file.filename.startswith(_STREAMED):
            continue
        if file.file_size > _PART:
            raise too_large(what, f"{file.file_size // 1_000_000} MB", f"{_PART // 1_000_000} MB")
    return archive


def member(archive: zipfile.ZipFile, name: str, what: Message) -> bytes:
    """Return a file of the archive."""
    try:
        return archive.read(name)
    except UNREADABLE_MEMBER as error:
        raise broken(what, error) from None


def beginning(archive: zipfile.ZipFile, name: str, most: int, what: Message) -> tuple[bytes, bool]:
    """Return at most so many bytes of a file, and whether that is not all of it."""
    try:
        with archive.open(name) as file:
            data = file.read(most)
            return data, len(data) == most and bool(file.read(1))
    except UNREADABLE_MEMBER as error:
        raise broken(what, error) from None


def tree(data: bytes, what: Message) -> etree._Element:
    """Parse XML of the archive, without entities or network access."""
    try:
        return etree.fromstring(data, _parser())
    except (etree.XMLSyntaxError, ValueError) as error:
        raise broken(what, error) from None


def bounded_tree(data: bytes, what: Message, most: int = _TAGS) -> BoundedTree:
    """Parse XML as far as the limit of tags allows."""
    cut = data.count(b"<") > most
    if cut:
        data = data[: _nth_tag(data, most)]
    try:
        return BoundedTree(etree.fromstring(data, _parser(recover=cut)), cut)
    except (etree.XMLSyntaxError, ValueError) as error:
        if ("depth" in str(error).lower() or "huge" in str(error).lower()) and (
            root := etree.fromstring(data, _parser(recover=True))
        ) is not None:
            return BoundedTree(root, True)
        raise broken(what, error) from None


def said(root: etree._Element, name: str) -> str | None:
    """Return the text of the first element of this name, whatever its namespace."""
    node = next(root.iter(f"{{*}}{name}"), None)
    text = " ".join("".join(str(part) for part in node.itertext()).split()) if node is not None else ""
    return text[:500] or None


def _parser(*, recover: bool = False) -> etree.XMLParser:
    return etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        recover=recover,
        remove_comments=True,
        remove_pis=True,
    )


def _nth_tag(data: bytes, most: int) -> int:
    """Return where a tag near the limit begins. UTF-16 is cut at a byte that may be half a character."""
    low, high = 0, len(data)
    while high - low > 4096:
        middle = (low + high) // 2
        if data.count(b"<", 0, middle) > most:
            high = middle
        else:
            low = middle
    at = data.rfind(b"<", 0, high)
    return at if at > 0 else high
