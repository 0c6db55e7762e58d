"""Marked content whose marks change what PDFium reads: replacement texts and layers.

A replacement text (ActualText) that says something else than the glyphs is removed: what is seen counts.
Membership in layers that PDFium judges wrongly is written so that it judges it rightly.
"""

from __future__ import annotations

import io
import re
import unicodedata
import zlib
from collections.abc import Iterator
from ctypes import CFUNCTYPE, byref, c_int, c_ulong, c_ushort, c_void_p, cast
from itertools import groupby
from typing import Any, NamedTuple

from tabane.reader.formats.pdf.page_objects import page_objects

_STREAM = re.compile(rb"/ObjStm\b[^\n]{0,2000}?>>\s*stream\r?\n|/ObjStm\b.{0,500}?>>\s*stream\r?\n", re.S)
_OFF = re.compile(rb"/OFF\s*\[\s*\d|/OFF\s+\d+\s+\d+\s+R|/(?:BaseState|ViewState)\s*/OFF|/OCMD\b")
_ESCAPED = re.compile(rb"/[A-Za-z]{0,11}#[0-7][0-9A-Fa-f]")  # a name of a pattern could be
_STREAMS = 5000
_INFLATED = 30_000_000  # bytes
_COPIED = 60_000_000


class DocumentTraits(NamedTuple):
    """What a file has anywhere: patterns, memberships in layers, layers that may be off.

    ``renew``: viewers write fields anew from their values, whatever their appearance is (NeedAppearances).
    """

    patterns: bool
    members: bool
    off: bool
    renew: bool


def document_traits(body: bytes) -> DocumentTraits:
    """Return the traits of a file, by the names in it and in its streams of objects."""
    patterns = members = off = renew = False
    for part in _plain_parts(body):
        patterns = patterns or b"PatternType" in part or _ESCAPED.search(part) is not None
        members = members or b"OCMD" in part
        off = off or _OFF.search(part) is not None
        renew = renew or re.search(rb"/NeedAppearances\s+true\b", part) is not None
    return DocumentTraits(patterns, members, off, renew)


def _plain_parts(body: bytes) -> Iterator[bytes]:
    """Yield the file and its streams of objects; of one that cannot be read, all names."""
    yield body
    left = _INFLATED
    for nth, match in enumerate(_STREAM.finditer(body)):
        if nth >= _STREAMS or left <= 0:
            return
        try:
            part = zlib.decompressobj().decompress(body[match.end() : match.end() + 4_000_000], left)
        except zlib.error:
            part = b"/OCMD/PatternType/BaseState/OFF"
        left -= len(part)
        yield part


_MEMBER = re.compile(rb"/OCGs (\d+) 0 R /P/(?:AllOff|AnyOff)(?=/Type/OCMD)")


def with_plain_members(document: Any) -> bytes | None:
    """Return the file with layers that PDFium judges rightly, None if nothing must change.

    A membership (OCMD) of only one layer that is shown when the layer is off is written as an expression:
    PDFium shows it when the layer is on.
    """
    import pypdfium2

    copy = io.BytesIO()
    try:
        document.save(copy, flags=pypdfium2.raw.FPDF_NO_INCREMENTAL)
    except (pypdfium2.PdfiumError, OSError):
        return None
    body = copy.getvalue()
    if len(body) > _COPIED:
        return None

    def expression(match: re.Match[bytes]) -> bytes:
        if re.search(rb"[\r\n]%b 0 obj\s*\[" % match[1], body):
            return match[0]
        return (b"/VE[/Not %b 0 R]" % match[1]).ljust(len(match[0]))

    changed = _MEMBER.sub(expression, body)
    return changed if changed != body else None


# Replacement texts

_OBJECTS = 50_000
_MARKS = 8
_LONG = 2000
_IGNORED = re.compile("[\\s\\-\u00ad\u2010\u2011\ufffe\x00-\x1f\u200b-\u200f\u2060]+")
_UNKNOWN = re.compile("[\x00\ufffd\ue000-\uf8ff]")


class _Replaced(NamedTuple):
    """A text object that is replaced: its place among the objects of the page, and the text that is said."""

    order: int
    handle: Any
    mark: Any
    said: str


def drop_false_replacements(document: Any, number: int, page: Any) -> bool:
    """Remove replacement texts that differ from what the glyphs of a page say; return whether some did.

    The glyphs are read from another copy of the page, without any replacement.
    """
    import pypdfium2.raw as raw

    replaced = list(_replaced_objects(page))
    if not replaced:
        return False
    other = document[number]
    try:
        handles: dict[int, int] = {}
        for one in _replaced_objects(other):
            raw.FPDFPageObj_RemoveMark(one.handle, one.mark)
            handles[cast(one.handle, c_void_p).value or 0] = one.order
        glyphs = _object_texts(other, handles)
    finally:
        other.close()
    dropped = False
    for _, group in groupby(replaced, key=lambda one: one.said):
        run = list(group)
        whole = _is_same_text(run[0].said, "".join(glyphs.get(one.order, "") for one in run))
        for one in run:
            if not whole and not _is_same_text(one.said, glyphs.get(one.order, "")):
                raw.FPDFPageObj_RemoveMark(one.handle, one.mark)
                dropped = True
    return dropped


def _replaced_objects(page: Any) -> Iterator[_Replaced]:
    import pypdfium2.raw as raw

    for order, (handle, kind, _, _) in enumerate(page_objects(page)):
        if order >= _OBJECTS:
            return
        if kind != raw.FPDF_PAGEOBJ_TEXT:
            continue
        for nth in range(min(raw.FPDFPageObj_CountMarks(handle), _MARKS)):
            mark = raw.FPDFPageObj_GetMark(handle, nth)
            if raw.FPDFPageObjMark_GetParamValueType(mark, b"ActualText"):
                yield _Replaced(order, handle, mark, _said_text(mark))
                break


def _said_text(mark: Any) -> str:
    import pypdfium2.raw as raw

    length = c_ulong()
    buffer = (c_ushort * _LONG)()
    if not raw.FPDFPageObjMark_GetParamStringValue(mark, b"ActualText", buffer, _LONG * 2, byref(length)):
        return ""
    return bytes(buffer)[: max(0, min(length.value, _LONG * 2) - 2)].decode("utf-16-le", "replace")


def _object_texts(page: Any, handles: dict[int, int]) -> dict[int, str]:
    """Return what the glyphs of objects say; ``handles``: the orders of objects by address."""
    import pypdfium2.raw as raw

    texts: dict[int, str] = {}
    text = page.get_textpage()
    try:
        address = cast(raw.FPDFText_GetTextObject, CFUNCTYPE(c_void_p, c_void_p, c_int))
        own = cast(text.raw, c_void_p).value
        for nth in range(text.count_chars()):
            order = handles.get(address(own, nth) or 0)
            if order is not None:
                code = raw.FPDFText_GetUnicode(text.raw, nth)
                texts[order] = texts.get(order, "") + (chr(code) if code < 0x110000 else "\ufffd")
    finally:
        text.close()
    return texts


def _is_same_text(said: str, seen: str) -> bool:
    """Return whether a replacement says what is seen, with ligatures or unnamed glyphs written out."""
    said, seen = (_IGNORED.sub("", unicodedata.normalize("NFKC", text)).casefold() for text in (said, seen))
    if said == seen:
        return bool(said)
    unknown = len(_UNKNOWN.findall(seen))
    if not unknown or len(said) > len(seen) + 2 * unknown:
        return False
    rest = iter(said)
    return all(letter in rest for letter in _UNKNOWN.sub("", seen))
