"""PDF documents as pages: each page's visible words as blocks and tables, with metadata and warnings.

A document has a budget of words, drawn objects and seconds of CPU time.

Libraries that convert PDF to Markdown were measured and not used: pdf-oxide 0.3.78 put a word of a cell into
the next code block and took four times as long; PyMuPDF is AGPL.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from time import process_time
from typing import Any, NamedTuple
from urllib.parse import unquote

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.formats.data_files import table
from tabane.reader.formats.ocr import INSTALLATION
from tabane.reader.formats.pdf.annotations import (
    LinkTable,
    PageAnnotations,
    page_annotations,
    words_with_values,
)
from tabane.reader.formats.pdf.line_numbers import LineNumbers
from tabane.reader.formats.pdf.marked_content import (
    document_traits,
    drop_false_replacements,
    with_plain_members,
)
from tabane.reader.formats.pdf.page_objects import (
    PageDrawing,
    PdfFrame,
    PdfWord,
    page_drawing,
    page_words,
)
from tabane.reader.formats.pdf.paragraphs import (
    HeadingStyles,
    PageLines,
    PdfLine,
    blocks,
    heading_styles,
    largest_heading,
    mend_divided_words,
    page_lines,
    running_lines,
)
from tabane.reader.formats.pdf.scans import ScanReader
from tabane.reader.formats.pdf.seen_words import SeenWords, draw_order, may_hide, seen_words
from tabane.reader.formats.pdf.tables import PdfTable, page_tables
from tabane.reader.formats.text import LONGEST, broken
from tabane.reader.markdown import spans
from tabane.reader.page import Page

_WORDS = 300_000  # that are put in paragraphs and tables
_OBJECTS = 200_000
_LAYOUT = 4.5  # seconds: later pages are text without layout
_DRAWING = 2.5
_WHOLE = 7.5  # seconds: later pages are not read


@dataclass(slots=True)
class PdfBudget:
    """What is left of a document's budget: words, drawn objects, and seconds of CPU time for drawing."""

    words: int = _WORDS
    objects: int = _OBJECTS
    drawing: float = _DRAWING
    start: float = field(default_factory=process_time)

    @property
    def seconds(self) -> float:
        """Return the CPU time since the start."""
        return process_time() - self.start

    @property
    def has_layout(self) -> bool:
        """Return whether the next page may be laid out."""
        return self.words > 0 and self.objects > 0 and self.seconds < _LAYOUT

    @property
    def draws(self) -> bool:
        """Return whether the next page may be drawn to see what hides its text."""
        return self.drawing > 0 and self.seconds < _LAYOUT + 1


_PDF = say("PDF")
_PAGES = 1000
_PAGE_WORDS = 1_500_000
_ROWS = 900  # of a table over several pages
_PICTURE = 0.7  # of a page is an image
_STAMP = 60  # characters that a scanner or an archive writes on the image of a page


@dataclass(slots=True)
class _ReadPage:
    """A page's lines outside of tables, and its tables with the number of their first word."""

    lines: list[PdfLine] = field(default_factory=list)
    tables: list[PdfTable] = field(default_factory=list)
    height: float = 0.0
    length: int = 0
    hidden: int = 0
    scan: bool = False
    laid_out: bool = True
    complete: bool = True
    picture: bool = False
    recognized: str | None = None
    """What OCR reads in the picture of the page; None if the page was not read so."""


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
    reader = _DocumentReader(document, body)
    try:
        count = len(reader.document)
        pages = reader.read(min(count, _PAGES))
        scans = _read_scans(reader.document, pages)
        if not any(page.length for page in pages):
            raise _without_text(count, pages, scans)
        about = reader.document.get_metadata_dict()
        name = PurePosixPath(unquote(url.partition("?")[0])).stem
        first = pages[0].lines if pages else []
        markdown, cut = _write_pages(pages, count, reader.links)
        return Page(
            url,
            markdown,
            title=said_title(about, name) or largest_heading(first),
            author=said_author(about),
            date=said_date(about),
            way="ocr" if all(page.recognized is not None for page in pages) else "pdf",
            media_type="application/pdf",
            warnings=(*_page_warnings(count, pages, scans), *cut),
        )
    except (pypdfium2.PdfiumError, OSError) as error:
        raise broken(_PDF, error) from None
    finally:
        reader.close()


def _read_scans(document: Any, pages: Sequence[_ReadPage]) -> ScanReader:
    """Read pages without text by OCR, and remove from the text layers of scans what their pictures lack."""
    scans = ScanReader(document)
    for number, page in enumerate(pages):
        stamped = page.picture and not page.scan and page.length < _STAMP
        if (stamped or not page.length) and (text := scans.text(number)) is not None:
            if len(text) < 3 * page.length:
                continue  # its own words say more
            page.lines, page.tables = [], []
            page.recognized, page.length = text, len(text)
    for number, page in enumerate(pages):
        picture = scans.picture_text(number) if page.scan else None
        if picture is None:
            continue
        page.scan = False
        whole = "".join(line.text for line in page.lines)
        if page.tables or not picture.has(whole):
            page.recognized, page.length = picture.markdown, len(picture.markdown)
            page.hidden += 1 - picture.has(whole)
            page.lines, page.tables = [], []
            continue
        lines = [line for line in page.lines if picture.has(line.text)]
        page.hidden += len(page.lines) - len(lines)
        page.lines = lines
    return scans


def _without_text(count: int, pages: Sequence[_ReadPage], scans: ScanReader) -> ReadError:
    if any(page.hidden for page in pages):
        return ReadError(
            say("The PDF has {pages} {pages:page|pages} and no text that readers see.", pages=count), "empty"
        )
    if scans.works:
        return ReadError(
            say(
                "The PDF has {pages} {pages:page|pages} and no text. OCR recognized none in the images.",
                pages=count,
            ),
            "empty",
        )
    return ReadError(
        say(
            "The PDF has {pages} {pages:page|pages} and no text. The pages are images, probably from a "
            "scanner. To read them, install tesseract with its languages: {command}",
            pages=count,
            command=INSTALLATION,
        ),
        "empty",
    )


def _page_warnings(count: int, pages: Sequence[_ReadPage], scans: ScanReader) -> Iterator[Message]:
    if len(pages) < count:
        yield say(
            "Only the first {shown} of {all} {all:page is|pages are} shown.", shown=len(pages), all=count
        )
    silent = [page for page in pages if not page.length and not page.hidden and page.recognized is None]
    if silent:
        yield say("{count} {count:page has|pages have} no text and may be images.", count=len(silent))
    if any(page.picture for page in silent):
        if scans.works:
            yield say("There was no time to read them by OCR.")
        else:
            yield say(
                "To read images of pages, install tesseract with its languages: {command}",
                command=INSTALLATION,
            )
    recognized = sum(1 for page in pages if page.recognized)
    if recognized:
        yield say(
            "The text of {count} {count:page|pages} was recognized in images (OCR), and may have errors.",
            count=recognized,
        )
    if scans.compared:
        yield say(
            "{count} {count:page is a scan|pages are scans} with an invisible text layer. Only what OCR "
            "reads in the image as well is shown.",
            count=scans.compared,
        )
    layers = sum(1 for page in pages if page.scan)
    if layers:
        yield say(
            "{count} {count:page is a scan|pages are scans}. The text comes from an invisible layer that "
            "a program recognized, and may differ from the image.",
            count=layers,
        )
    hidden = sum(page.hidden for page in pages)
    if hidden:
        yield say(
            "{count} {count:part|parts} that readers do not see {count:was|were} left out.", count=hidden
        )
    doubtful = sum(1 for page in pages if not page.complete)
    if doubtful:
        yield say(
            "{count} {count:page is|pages are} too complex to be checked completely for text that readers do "
            "not see.",
            count=doubtful,
        )
    plain = sum(1 for page in pages if not page.laid_out)
    if plain:
        yield say(
            "The PDF is too large to be analyzed completely. The text of {count} {count:page|pages} is shown "
            "without paragraphs and tables.",
            count=plain,
        )


class _PageWords(NamedTuple):
    """The words of a page that are seen, and what is drawn around them."""

    words: list[PdfWord]
    drawing: PageDrawing
    frame: PdfFrame
    seen: SeenWords
    hidden: int
    has_layout: bool


class _DocumentReader:
    """Reads the pages of a document within its budget, and the links and forms on them."""

    def __init__(self, document: Any, body: bytes) -> None:
        import pypdfium2

        self.document = document
        self.links = LinkTable()
        self._traits = document_traits(body)
        self._budget = PdfBudget()
        self._numbers = LineNumbers()
        changed = with_plain_members(document) if self._traits.members else None
        if changed is not None:
            document.close()
            self.document = pypdfium2.PdfDocument(changed)
        self._form = self._open_forms()

    def _open_forms(self) -> Any:
        """Return the environment of the document's forms, None without any.

        Pages do not enter it: PDFium would write the fields of each.
        """
        import pypdfium2.raw as raw

        if raw.FPDF_GetFormType(self.document) == raw.FORMTYPE_NONE:
            return None
        self._form_info = raw.FPDF_FORMFILLINFO(version=2)
        return raw.FPDFDOC_InitFormFillEnvironment(self.document, self._form_info)

    def close(self) -> None:
        """Close the document."""
        import pypdfium2.raw as raw

        if self._form:
            raw.FPDFDOC_ExitFormFillEnvironment(self._form)
        self.document.close()

    def read(self, most: int) -> list[_ReadPage]:
        """Return at most so many pages. A page is laid out after the next two were read, which may show that
        the document has line numbers.
        """
        pages: list[_ReadPage] = []
        waiting: deque[_PageWords] = deque()
        length = 0
        for number in range(most):
            read = self._read_number(number)
            self._numbers.learn(read.words)
            waiting.append(read)
            if len(waiting) > 2:
                pages.append(self._laid_out(waiting.popleft(), pages))
            length += sum(len(word.text) + 1 for word in read.words)
            if length > LONGEST or self._budget.seconds > _WHOLE:
                break
        while waiting:
            pages.append(self._laid_out(waiting.popleft(), pages))
        return pages

    def _read_number(self, number: int) -> _PageWords:
        page = self.document[number]
        try:
            frame = _frame_of(page)
            annotations = page_annotations(page, frame, self._form, self._traits)
            if annotations.changed:
                page.close()
                page = self.document[number]
            if self._budget.has_layout:
                drop_false_replacements(self.document, number, page)
            return self._page_words(page, frame, annotations)
        finally:
            page.close()

    def _page_words(self, page: Any, frame: PdfFrame, annotations: PageAnnotations) -> _PageWords:
        budget = self._budget
        text = page.get_textpage()
        try:
            drawing = page_drawing(page, frame, budget.objects, annotations.own)
            boxes = [box for link in annotations.links for box in link.boxes]
            boxes.extend(value.box for value in annotations.texts)
            words = page_words(
                text,
                frame,
                _PAGE_WORDS,
                fine=may_hide(drawing),
                patterns=self._traits.patterns,
                boxes=boxes,
            )
        finally:
            text.close()
        laid_out = budget.has_layout
        budget.words -= len(words)
        budget.objects -= len(drawing.texts) + len(drawing.rules) + len(drawing.areas)
        start = process_time()
        seen = seen_words(words, page, frame, drawing, draws=budget.draws)
        budget.drawing -= process_time() - start
        late = [nth for nth, word in enumerate(seen.words) if draw_order(word, drawing) >= drawing.late]
        own_words = self.links.linked(words_with_values(seen.words, late, annotations), annotations.links)
        return _PageWords(own_words, drawing, frame, seen, annotations.hidden, laid_out)

    def _laid_out(self, read: _PageWords, pages: Sequence[_ReadPage]) -> _ReadPage:
        words = self._numbers.without(read.words)
        before = pages[-1].tables[-1] if pages and pages[-1].tables else None
        has_layout = read.has_layout and self._budget.seconds < _LAYOUT
        tables = page_tables(words, read.drawing, before) if has_layout else []
        inside = frozenset(nth for one in tables for nth in one.words)
        lines = page_lines((nth, word) for nth, word in enumerate(words) if nth not in inside)
        length = sum(len(word.text) + 1 for word in words)
        hidden = read.seen.hidden + read.hidden
        seen = read.seen
        picture = read.drawing.covered(read.frame) >= _PICTURE
        return _ReadPage(
            lines,
            tables,
            read.frame.height,
            length,
            hidden,
            seen.scan,
            read.has_layout,
            seen.complete,
            picture,
        )


def _frame_of(page: Any) -> PdfFrame:
    left, bottom, right, top = page.get_bbox()
    turn = page.get_rotation() // 90
    wide, high = right - left, top - bottom
    return PdfFrame(left, bottom, high if turn % 2 else wide, wide if turn % 2 else high, turn)


Part = tuple[int, str | PdfTable]


def _write_pages(pages: Sequence[_ReadPage], count: int, links: LinkTable) -> tuple[str, tuple[Message, ...]]:
    running = running_lines([PageLines(page.lines, page.height, bool(page.tables)) for page in pages])
    for number, page in enumerate(pages):
        page.lines = [line for nth, line in enumerate(page.lines) if (number, nth) not in running]
    mend_divided_words([page.lines for page in pages if page.laid_out])
    styles = heading_styles([line for page in pages for line in page.lines])
    contents = [_page_parts(page, styles) for page in pages]
    _join_tables(contents)
    written: list[str] = []
    warnings: list[Message] = []
    for number, parts in enumerate(contents, 1):
        if count > 1:
            written.append(f"[p. {number}]")
        for _, part in parts:
            if isinstance(part, str):
                written.append(links.written(part))
                continue
            written_table = table([[links.written(spans.inline(cell)) for cell in row] for row in part.rows])
            written.append(written_table.markdown)
            warnings.extend(written_table.warnings)
    return "\n\n".join(written), tuple(dict.fromkeys(warnings))


def _page_parts(page: _ReadPage, styles: HeadingStyles) -> list[Part]:
    """Return the blocks and tables of a page in the order of its stream."""
    if page.recognized is not None:
        return [(0, page.recognized)] if page.recognized else []
    parts: list[Part] = [(min(one.words), one) for one in page.tables]
    if not page.laid_out:
        return [(0, spans.lines(spans.inline("\n".join(line.text for line in page.lines))))]
    if not parts:
        return list(blocks(page.lines, styles))
    starts = sorted(at for at, _ in parts)
    for group in _lines_between(page.lines, starts):
        parts.extend(blocks(group, styles))
    return sorted(parts, key=lambda part: part[0])


def _lines_between(lines: Sequence[PdfLine], starts: Sequence[int]) -> Iterator[list[PdfLine]]:
    """Yield the lines before, between and after tables: no paragraph goes over a table."""
    group: list[PdfLine] = []
    at = 0
    for line in lines:
        while at < len(starts) and line.first > starts[at]:
            at += 1
            if group:
                yield group
                group = []
        group.append(line)
    if group:
        yield group


def _join_tables(contents: list[list[Part]]) -> None:
    """Join a table at the end of a page with its continuation at the beginning of the next."""
    last: tuple[list[Part], PdfTable] | None = None
    for parts in contents:
        if last is not None and parts and isinstance(parts[0][1], PdfTable):
            where, above = last
            below = parts[0][1]
            same_head = above.rows[0] == below.rows[0]
            near = len(above.edges) == len(below.edges) and all(
                abs(one - other) < 15 for one, other in zip(above.edges, below.edges, strict=True)
            )
            fit = len(above.rows[0]) == len(below.rows[0]) and len(above.rows) + len(below.rows) <= _ROWS
            if fit and (same_head or near):
                rows = [*above.rows, *(below.rows[1:] if same_head else below.rows)]
                joined = PdfTable(rows, below.edges, below.box, above.words)
                where[-1] = (where[-1][0], joined)
                parts.pop(0)
                if not parts:
                    last = (where, joined)
                    continue
        last = (parts, parts[-1][1]) if parts and isinstance(parts[-1][1], PdfTable) else None


_LONGEST = 300
_USELESS = re.compile(
    r"\(?(?:anonymous|unspecified|untitled(?:[ -]?\d{0,4})?|no title|title|none|null|print"
    r"|document\s?\d{0,4}"
    r"|slide \d{1,4}|無題(?:\d{0,4})|about:blank|名称未設定.{0,20})\)?"
    r"|(?:Microsoft (?:Office )?(?:Word|PowerPoint|Excel)|Adobe \w{1,20}|文書\s?\d{0,4}) - .{0,300}"
    r"|.{0,300}\.(?:docx?|xlsx?|pptx?|odt|rtf|tex|dvi|pdf|html?|indd|qxd|txt|md|pages|typ|ps|jtd)"
    r"|(?:https?|file)://.{0,300}",
    re.I,
)
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(Z|[+-]\d\d'?\d\d)?")


def said_title(about: Mapping[str, str], name: str) -> str | None:
    """Return the title of the metadata, None if it is useless: a program's own, or the name of the file."""
    title = " ".join(about.get("Title", "")[: _LONGEST * 4].split())[:_LONGEST]
    if not title or _USELESS.fullmatch(title) or title.casefold() == name.casefold():
        return None
    return title


def said_author(about: Mapping[str, str]) -> str | None:
    """Return the author of the metadata."""
    author = " ".join(about.get("Author", "")[: _LONGEST * 4].split())[:_LONGEST]
    return None if not author or author.casefold() in ("(anonymous)", "anonymous", "unknown") else author


def said_date(about: Mapping[str, str]) -> str | None:
    """Return the date of the last change, or of the creation, as ISO 8601."""
    return _iso_date(about.get("ModDate", "")) or _iso_date(about.get("CreationDate", ""))


def _iso_date(text: str) -> str | None:
    """Return a date of PDF (ISO 32000-1, 7.9.4) as ISO 8601."""
    match = _DATE.match(text)
    if not match:
        return None
    year, month, day, hour, minute, second, zone = match.groups()
    date = "-".join(part for part in (year, month, day) if part)
    if not (day and hour and minute):
        return date
    offset = "Z" if zone == "Z" else f"{zone[:3]}:{zone.replace(chr(39), '')[3:5]}" if zone else ""
    return f"{date}T{hour}:{minute}:{second or '00'}{offset}"
