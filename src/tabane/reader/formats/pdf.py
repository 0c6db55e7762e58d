"""PDF: its text as PDFium reads it, in paragraphs, with headings detected by font size.

A library that converts PDF to Markdown (pdf-oxide 0.3.78) was measured and not used: on a page with one small
table it put a word of a cell into the next code block, and took four times as long.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from ctypes import c_int, create_string_buffer
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.formats.text import LONGEST, broken, fence
from tabane.reader.markdown import escaping
from tabane.reader.page import Page

_PDF = say("PDF")
_PAGES = 1000
_HEADING = 1.15  # times the letters of the text
_LEVELS = 4
_BULLET = re.compile(r"^(?:[•◦▪‣●○■□–·∙]|[-*] |\(?\d{1,3}[.)] )\s*")
_HYPHEN = re.compile(r"[\x02\xad\ufffe]")
_WIDE = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff01-\uff60]")
_TYPED = re.compile(rb"mono|courier|consol|menlo|typewriter|cmtt|hack|firacode|sourcecode", re.I)
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(Z|[+-]\d\d'?\d\d)?")


@dataclass(frozen=True, slots=True)
class _PdfLine:
    """A line of text and its position, in points; ``wide``: the width of a letter, if all have the same."""

    text: str
    size: float
    top: float
    left: float
    right: float
    wide: float = 0.0


def pdf_page(body: bytes, url: str) -> Page:
    """Return the PDF's text with its pages marked; at most 1,000 pages of it.

    Raises ReadError: ``key`` if it needs a password, ``broken`` if it is not a PDF, ``empty`` if it has only
    images of pages.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise ReadError(say("The PDF is protected with a password."), "key") from None
        raise broken(_PDF, error) from None
    try:
        return _page(document, url)
    except (pypdfium2.PdfiumError, OSError) as error:
        raise broken(_PDF, error) from None
    finally:
        document.close()


def _page(document: Any, url: str) -> Page:
    count = len(document)
    pages: list[list[_PdfLine]] = []
    length = silent = 0
    for number in range(min(count, _PAGES)):
        lines = _lines(document, number)
        pages.append(lines)
        length += sum(len(line.text) for line in lines)
        silent += not lines
        if length > LONGEST:
            break
    if not length:
        raise ReadError(
            say(
                "The PDF has {pages} {pages:page|pages} and no text. The pages are images, "
                "probably from a scanner.",
                pages=count,
            ),
            "empty",
        )
    about = document.get_metadata_dict()
    return Page(
        url,
        _written(pages, count),
        title=" ".join(about.get("Title", "").split())[:300] or _first_heading(pages),
        author=" ".join(about.get("Author", "").split())[:300] or None,
        date=_date(about.get("ModDate", "")) or _date(about.get("CreationDate", "")),
        way="pdf",
        media_type="application/pdf",
        warnings=_warnings(count, len(pages), silent),
    )


def _warnings(count: int, read: int, silent: int) -> tuple[Message, ...]:
    found = []
    if read < count:
        found.append(
            say("Only the first {shown} of {all} {all:page is|pages are} shown.", shown=read, all=count)
        )
    if silent:
        found.append(say("{count} {count:page has|pages have} no text and may be images.", count=silent))
    return tuple(found)


def _lines(document: Any, number: int) -> list[_PdfLine]:
    page = document[number]
    try:
        text = page.get_textpage()
        try:
            return list(_of_text(text))
        finally:
            text.close()
    finally:
        page.close()


def _of_text(page: Any) -> Iterator[_PdfLine]:
    """Yield lines in the order of the page's own stream; PDFium ends each with CR LF."""
    at = 0
    whole = page.get_text_range()
    for line in whole.split("\r\n"):
        core = line.strip()
        if core:
            first = at + len(line) - len(line.lstrip())
            left, bottom, wide, top = _box(page, first)
            _, _, right, _ = _box(page, first + len(core) - 1)
            width = wide - left if _is_typed(page, first) else 0.0
            yield _PdfLine(core, round(top - bottom, 1), top, left, right, width)
        at += len(line) + 2


def _is_typed(page: Any, index: int) -> bool:
    """Return whether a character is set in a font for code."""
    import pypdfium2.raw

    name = create_string_buffer(128)
    flags = c_int()
    if not pypdfium2.raw.FPDFText_GetFontInfo(page, index, name, len(name), flags):
        return False
    return bool(_TYPED.search(name.value))


def _box(page: Any, index: int) -> tuple[float, float, float, float]:
    """Return left, bottom, right and top of a character's box, as set by its font."""
    import pypdfium2.raw

    rectangle = pypdfium2.raw.FS_RECTF()
    if not pypdfium2.raw.FPDFText_GetLooseCharBox(page, index, rectangle):
        return 0.0, 0.0, 0.0, 0.0
    return rectangle.left, rectangle.bottom, rectangle.right, rectangle.top


def _written(pages: Sequence[Sequence[_PdfLine]], count: int) -> str:
    usual = _usual(line for page in pages for line in page)
    levels = _levels(pages, usual)
    parts: list[str] = []
    for number, lines in enumerate(pages, 1):
        if count > 1:
            parts.append(f"[p. {number}]")
        parts.extend(_blocks(lines, levels))
    return "\n\n".join(parts)


def _usual(lines: Iterator[_PdfLine]) -> float:
    """Return the size that most of the text has."""
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.size] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _levels(pages: Sequence[Sequence[_PdfLine]], usual: float) -> dict[float, int]:
    """Return levels of headings by size: the largest is 1. A size that much of the text has is not of a
    heading.
    """
    lengths: Counter[float] = Counter()
    for page in pages:
        for line in page:
            lengths[line.size] += len(line.text)
    whole = sum(lengths.values())
    sizes = [size for size in lengths if size >= usual * _HEADING and lengths[size] < max(whole * 0.2, 200)]
    found: dict[float, int] = {}
    level = 0
    last = 0.0
    for size in sorted(sizes, reverse=True):
        if not last or size < last * 0.93:
            level, last = level + 1, size
        found[size] = min(level, _LEVELS)
    return found


def _blocks(lines: Sequence[_PdfLine], levels: dict[float, int]) -> Iterator[str]:
    """Yield paragraphs, headings, items and listings, of lines that belong together."""
    leading = _leading(lines)
    group: list[_PdfLine] = []
    for line in lines:
        if group and not _belongs(group[-1], line, leading):
            yield _block(group, lines, levels)
            group = []
        group.append(line)
    if group:
        yield _block(group, lines, levels)


def _leading(lines: Sequence[_PdfLine]) -> float:
    """Return the usual distance from a line to the next, in heights of a line."""
    gaps = [
        (one.top - two.top) / one.size
        for one, two in pairwise(lines)
        if one.size and abs(one.size - two.size) < 0.6 and 0 < one.top - two.top < one.size * 2.5
    ]
    return median(gaps) if gaps else 1.2


def _belongs(before: _PdfLine, line: _PdfLine, leading: float) -> bool:
    """Return whether a line is right below the one before, in the same font."""
    if abs(before.size - line.size) > 0.6 or bool(before.wide) != bool(line.wide):
        return False
    if not line.wide and _BULLET.match(line.text):
        return False
    room = 2.6 if line.wide else 1.25
    return 0 < before.top - line.top <= max(before.size, 1.0) * leading * room


def _block(group: Sequence[_PdfLine], page: Sequence[_PdfLine], levels: dict[float, int]) -> str:
    if all(line.wide for line in group) and (len(group) > 1 or not levels.get(group[0].size)):
        return _listing(group)
    text = group[0].text
    level = levels.get(group[0].size)
    for before, line in pairwise(group):
        text = _continued(text, line.text) if level or _is_full(before, page) else f"{text}  \n{line.text}"
    text = escaping.inline(_HYPHEN.sub("", text))
    if level and len(text) <= 200 and re.search(r"\w", text):
        return f"{'#' * level} {escaping.heading(text)}"
    if bullet := _BULLET.match(text):
        mark = bullet[0].strip()
        mark = mark if mark[0].isdigit() and mark[-1] == "." else "-"
        return f"{mark} {text[bullet.end() :]}".replace("\n", "\n" + " " * (len(mark) + 1))
    return escaping.lines(text)


def _listing(group: Sequence[_PdfLine]) -> str:
    """Return lines of code, with their indentation."""
    edge = min(line.left for line in group)
    code: list[str] = []
    for nth, line in enumerate(group):
        if nth and group[nth - 1].top - line.top > line.size * 1.9:
            code.append("")
        code.append(" " * round((line.left - edge) / line.wide) + line.text)
    return fence("\n".join(code), "")


def _is_full(line: _PdfLine, page: Sequence[_PdfLine]) -> bool:
    """Return whether a line ends at the same edge as its neighbors, so that its text goes on in the next."""
    beside = [other for other in page if abs(other.left - line.left) < line.size * 4]
    edge = max(other.right for other in beside)
    width = edge - min(other.left for other in beside)
    return line.right >= edge - width * 0.18


def _continued(text: str, line: str) -> str:
    """Return two lines as one: a word that was divided is whole again, Japanese has no space between."""
    if _HYPHEN.search(text[-1:]):
        return text[:-1] + line
    if re.search(r"[a-z]-$", text) and re.match(r"[a-z]", line):
        return text[:-1] + line
    if _WIDE.match(text[-1:]) and _WIDE.match(line[:1]):
        return text + line
    return f"{text} {line}"


def _first_heading(pages: Sequence[Sequence[_PdfLine]]) -> str | None:
    """Return the largest line of the first page, if it is clearly larger than the text."""
    lines = pages[0] if pages else []
    usual = _usual(iter(lines))
    largest = max(lines, key=lambda line: line.size, default=None)
    if largest is None or largest.size < usual * _HEADING:
        return None
    return _HYPHEN.sub("", largest.text)[:300]


def _date(said: str) -> str | None:
    """Return a date of PDF (ISO 32000-1, 7.9.4) as ISO 8601."""
    found = _DATE.match(said)
    if not found:
        return None
    year, month, day, hour, minute, second, zone = found.groups()
    date = "-".join(part for part in (year, month, day) if part)
    if not (day and hour and minute):
        return date
    offset = "Z" if zone == "Z" else f"{zone[:3]}:{zone.replace(chr(39), '')[3:5]}" if zone else ""
    return f"{date}T{hour}:{minute}:{second or '00'}{offset}"
