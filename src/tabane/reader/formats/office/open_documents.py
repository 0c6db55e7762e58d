"""OpenDocument files: texts (ODT), spreadsheets (ODS) and presentations (ODP)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lxml import etree
from lxml.html import HtmlElement

from tabane.messages import say
from tabane.reader.formats.archive import said
from tabane.reader.formats.data_files import CellRange
from tabane.reader.formats.office.docx_styles import formatted
from tabane.reader.formats.office.model import (
    DocumentFull,
    Line,
    Look,
    OfficeContent,
    Reading,
    Span,
    is_blank,
    sheets_left_out,
    slides_left_out,
)
from tabane.reader.formats.office.odf_styles import (
    OpenStyles,
    filled,
    of_wide_letters,
    page_properties,
    page_size,
    points,
)
from tabane.reader.formats.office.package import (
    DOCUMENT,
    OfficePackage,
    Paint,
    attribute,
    children,
    count_of,
    elements_within,
    local,
    named_child,
    number,
)
from tabane.reader.formats.office.visibility import Box, SlideCanvas, TextPlace, is_hidden
from tabane.reader.formats.office.writer import (
    BlockWriter,
    NoteWriter,
    SheetWriter,
    child,
    element,
    note_mark,
    ruby,
    tags_of,
    title_of_slide,
    without_bold,
)
from tabane.reader.formats.text import broken
from tabane.reader.hidden_text import WHITE, Color, hex_color

_SHEETS = 50
_SLIDES = 1000
_CELLS = 150_000
_COLUMNS = 200
_ROWS = 2000  # how often a row with text is repeated at most
_DISPLAYED = 60  # characters of a number as it is shown
_FOOTERS = frozenset({"header", "footer", "date-time", "page-number", "page"})
_SHAPES = frozenset({"frame", "g", "custom-shape", "rect", "ellipse", "circle", "polygon", "path", "caption"})
_ROW_GROUPS = frozenset({"table-rows", "table-row-group", "table-header-rows"})
_COLUMN_GROUPS = frozenset({"table-columns", "table-header-columns", "table-column-group"})
_CELL_KINDS = ("table-cell", "covered-table-cell")


def about_open(package: OfficePackage) -> dict[str, Any]:
    """Return the metadata of a document, as fields of a page."""
    meta = package.part("meta.xml")
    if meta is None:
        return {}
    return {
        "title": said(meta, "title"),
        "author": said(meta, "creator") or said(meta, "initial-creator"),
        "date": said(meta, "date") or said(meta, "creation-date"),
        "lang": said(meta, "language"),
    }


class _OpenDocument:
    """A document as it is read once."""

    def __init__(self, package: OfficePackage, kind: str) -> None:
        root = package.root("content.xml")
        body = named_child(root, "body", kind)
        if body is None:
            raise broken(DOCUMENT, say("it has no content"))
        self.body = body
        self.styles = OpenStyles(root, package.part("styles.xml"))
        self.reading = Reading(package)
        masters = self.styles.masters
        self.master = masters.get("Standard", next(iter(masters.values()), None))
        self.texts = _TextReader(self.reading, self.styles, page_size(self.styles, self.master))


def read_odt(package: OfficePackage) -> OfficeContent:
    """Return a text. Raises ReadError, ``broken``."""
    document = _OpenDocument(package, "text")
    ground = attribute(page_properties(document.styles, document.master), "background-color")
    whole = element("div")
    try:
        document.texts.blocks(document.body, BlockWriter(whole), TextPlace(hex_color(ground) or WHITE))
        document.texts.add_notes(whole)
    except DocumentFull:
        document.reading.cut = True
    return document.reading.content(whole)


def read_ods(package: OfficePackage) -> OfficeContent:
    """Return the sheets of a spreadsheet. Raises ReadError, ``broken``."""
    document = _OpenDocument(package, "spreadsheet")
    reading = document.reading
    tables = children(document.body, "table")
    visible = [
        table
        for table in tables
        if document.styles.look("table", attribute(table, "style-name")).get("display") != "false"
    ]
    reading.hidden += len(tables) - len(visible)
    writer = SheetWriter()
    for table in visible[:_SHEETS]:
        sheet = _OpenSheet(document)
        try:
            sheet.read(table)
        except DocumentFull:
            reading.cut = True
        writer.add(attribute(table, "name") or "", sheet.cells, sheet.merged)
    return reading.content(writer.markdown, (*writer.warnings, *sheets_left_out(_SHEETS, len(visible))))


class _OpenSheet:
    """A sheet: its texts by row and column, and its merged cells."""

    def __init__(self, document: _OpenDocument) -> None:
        self._styles, self._reading, self._texts = document.styles, document.reading, document.texts
        self.cells: dict[int, dict[int, str]] = {}
        self.merged: list[CellRange] = []
        self._room = _CELLS
        self._away: list[tuple[int, int]] = []
        self._usual: list[tuple[int, int, str]] = []
        self._seen_away: set[int] = set()
        self._places: dict[str | None, TextPlace] = {}

    def read(self, table: etree._Element) -> None:
        """Read the rows. Raises DocumentFull."""
        at = 1
        for column, _ in elements_within(table, "table-column", _COLUMN_GROUPS):
            last = at + count_of(attribute(column, "number-columns-repeated"), 2**31) - 1
            if not _is_visible(column):
                self._away.append((at, last))
            usual = attribute(column, "default-cell-style-name")
            if usual and len(self._usual) < _COLUMNS:
                self._usual.append((at, last, usual))
            at = last + 1
        at = 1
        before = False
        for row, _ in elements_within(table, "table-row", _ROW_GROUPS):
            self._reading.budget.take()
            count = count_of(attribute(row, "number-rows-repeated"), 2**31)
            style = self._styles.look("table-row", attribute(row, "style-name"))
            away = not _is_visible(row) or style.get("height", 12.0) < 2
            values = self._row(row, at, away)
            if away:
                self._reading.hidden += bool(values) and not before
            else:
                for nth in range(min(count, _ROWS) if values else 0):
                    self.cells[at + nth] = values
                    self._room -= len(values)
                    if self._room < 0:
                        raise DocumentFull
            before = away and bool(values)
            at += count

    def _row(self, row: etree._Element, at: int, away: bool) -> dict[int, str]:
        found: dict[int, str] = {}
        column = 1
        usual = attribute(row, "default-cell-style-name")
        for cell in row:
            self._reading.budget.take()
            name = local(cell)
            if name not in _CELL_KINDS:
                continue
            count = count_of(attribute(cell, "number-columns-repeated"), 2**31)
            if len(cell) and column <= 16_384:
                style = attribute(cell, "style-name") or usual
                if style is None:
                    style = next((name for first, last, name in self._usual if first <= column <= last), None)
                text = self._text(cell, style)
                if text and name == "covered-table-cell":
                    self._reading.hidden += 1
                elif text:
                    for nth in range(min(count, _COLUMNS)):
                        if away or not self._is_away(column + nth):
                            found[column + nth] = text
                    wide, high = _spans(cell, 2**20)
                    if (wide > 1 or high > 1) and len(self.merged) < 5000:
                        self.merged.append(CellRange(at, column, at + high - 1, column + wide - 1))
            column += count
        return found

    def _text(self, cell: etree._Element, style: str | None) -> str:
        place = self._places.get(style)
        if place is None:
            look = dict(self._styles.look("table-cell", style))
            place = self._places[style] = TextPlace(look.pop("ground", None) or WHITE, look)
        lines = [
            "".join(span.text for span in self._texts.line(each, place, "cell text").spans)
            for each in children(cell, "p")
        ]
        text = " ".join(line for line in lines if line.strip())
        kind = attribute(cell, "value-type")
        if kind in ("float", "percentage", "currency") and len(text) > _DISPLAYED:
            self._reading.hidden += 1  # a spreadsheet shows the value, not this text
            return attribute(cell, "value") or ""
        return text

    def _is_away(self, column: int) -> bool:
        for nth, (first, last) in enumerate(self._away):
            if first <= column <= last:
                self._reading.hidden += nth not in self._seen_away
                self._seen_away.add(nth)
                return True
        return False


def read_odp(package: OfficePackage) -> OfficeContent:
    """Return a presentation. Raises ReadError, ``broken``."""
    document = _OpenDocument(package, "presentation")
    pages = children(document.body, "page")
    whole = element("div")
    try:
        for nth, page in enumerate(pages[:_SLIDES], 1):
            look = document.styles.look("drawing-page", attribute(page, "style-name"))
            if look.get("visibility") == "hidden":
                document.reading.hidden += 1
            else:
                _OpenSlide(document, page, look).add(nth, BlockWriter(whole))
    except DocumentFull:
        document.reading.cut = True
    return document.reading.content(whole, slides_left_out(_SLIDES, len(pages)))


class _OpenSlide:
    """A slide with the ground of its master."""

    def __init__(self, document: _OpenDocument, page: etree._Element, look: Look) -> None:
        self._texts = document.texts
        self._page = page
        master = document.styles.masters.get(attribute(page, "master-page-name") or "", document.master)
        self._texts.size = page_size(document.styles, master)
        ground: Color | None = WHITE
        for each in (document.styles.look("drawing-page", attribute(master, "style-name")), look):
            ground = filled(each, ground)
        moves = named_child(page, "par") is not None
        self._canvas = SlideCanvas(Box(0.0, 0.0, *self._texts.size), ground, moves=moves)
        for shape in master if master is not None and look.get("objects", True) else ():
            if local(shape) in _SHAPES and attribute(shape, "class") is None:
                self._paint(-1, shape)
        self._shapes = [shape for shape in page if local(shape) in _SHAPES]
        for order, shape in enumerate(self._shapes):
            self._paint(order, shape)

    def add(self, nth: int, writer: BlockWriter) -> None:
        """Append the slide: its title as a heading, its shapes and its notes."""
        title = next((each for each in self._shapes if attribute(each, "class") == "title"), None)
        title_of_slide(nth, self._title(title) if title is not None else [], writer)
        for order, shape in enumerate(self._shapes):
            if shape is not title and attribute(shape, "class") not in _FOOTERS:
                self._texts.frame(shape, writer, self._place(order, shape))
        notes = named_child(self._page, "notes")
        for shape in notes if notes is not None else ():
            if attribute(shape, "class") == "notes":
                into = element("blockquote")
                self._texts.blocks(_text_box(shape), BlockWriter(into), TextPlace())
                if "".join(str(text) for text in into.itertext()).strip():
                    writer.append(into)

    def _place(self, order: int, shape: etree._Element) -> TextPlace:
        box = _box(shape)
        return TextPlace(self._canvas.behind(order, box), hidden=self._canvas.hides(order, box))

    def _title(self, shape: etree._Element) -> list[Span]:
        look = self._texts.shape_look(shape)
        place = self._place(self._shapes.index(shape), shape)
        hidden = place.hidden or self._texts.is_hidden_shape(shape, look)
        place = TextPlace(filled(look, place.ground), text_look(look), hidden=hidden)
        spans: list[Span] = []
        for each in _text_box(shape).iter("{*}p"):
            spans += [*([Span(" ")] if spans else []), *self._texts.line(each, place).spans]
        return spans

    def _paint(self, order: int, shape: etree._Element) -> None:
        look = self._texts.shape_look(shape)
        kind, opacity = look.get("fill"), look.get("opacity", 1.0)
        if children(shape, "image"):
            self._canvas.paint(order, _box(shape), Paint(None))
        elif kind in ("solid", "bitmap", "gradient", "hatch"):
            color = look.get("fill_color") if kind == "solid" else None
            covers = kind == "solid" and local(shape) == "rect" and opacity >= 1
            self._canvas.paint(order, _box(shape), Paint(color, opacity), covers=covers)


def _box(shape: etree._Element) -> Box | None:
    left, top, wide, high = (attribute(shape, name) for name in ("x", "y", "width", "height"))
    if left is None or top is None or wide is None or high is None:
        return None
    return Box(points(left), points(top), points(left) + points(wide), points(top) + points(high))


def _text_box(shape: etree._Element) -> etree._Element:
    box = named_child(shape, "text-box")
    return shape if box is None else box


_DEEP = 24
_NESTED = 6  # tables and frames within each other
_LEVELS = 10
_REPEATED = 100
_LEFT_OUT = frozenset({
    "tracked-changes", "annotation", "annotation-end", "forms", "script", "sequence-decls", "variable-decls",
    "user-field-decls", "change", "change-start", "change-end", "event-listeners", "desc", "title",
    "settings", "bibliography-source", "table-of-content-source", "alphabetical-index-source",
    "illustration-index-source", "object-index-source", "user-index-source", "table-index-source", "number",
    "glue-point", "presentation", "hidden-text",
})  # fmt: skip
_SHAPES_IN_TEXT = _SHAPES | {"polyline", "line", "connector", "regular-polygon", "measure"}
_CODE = re.compile(r"preformatted|source (?:code|text)|整形済み|ソースコード|コード$", re.IGNORECASE)
_QUOTATION = re.compile(r"quot|引用", re.IGNORECASE)
_WIDE = re.compile("[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff01-\uff60]")
_HEADING = re.compile(r"Heading (\d)")  # of the web layout, whose headings are paragraphs
_TITLE = re.compile(r"title|表題|タイトル", re.IGNORECASE)
_NUMBERS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman",
            "ア, イ, ウ, ...": "aiueo", "一, 二, 三, ...": "japaneseCounting"}  # fmt: skip


class _TextReader:
    """Reads text. ``size`` is that of a page, in points."""

    def __init__(self, reading: Reading, styles: OpenStyles, size: tuple[float, float]) -> None:
        self._reading, self._styles = reading, styles
        self.size = size
        self._notes: list[etree._Element] = []

    def blocks(
        self, nodes: Iterable[etree._Element], writer: BlockWriter, place: TextPlace, depth: int = 0
    ) -> None:
        """Append blocks."""
        if depth > _DEEP:
            self._reading.deep += 1
            return
        for node in nodes:
            self._reading.budget.take()
            name = local(node)
            if name in ("p", "h"):
                self._paragraph(node, writer, place)
            elif name == "list":
                self._list(node, writer, place, None, 1)
            elif name == "table":
                self._table(node, writer, place)
            elif name in _SHAPES_IN_TEXT:
                self.frame(node, writer, place)
            elif name and name not in _LEFT_OUT:
                section = name == "section" and attribute(node, "display") in ("none", "condition")
                self.blocks(node, writer, place._replace(hidden=place.hidden or section), depth + 1)

    def add_notes(self, whole: HtmlElement) -> None:
        """Append the notes that the text refers to, those that notes refer to included."""
        writer = NoteWriter(whole)
        for nth, note in enumerate(self._notes, 1):  # grows meanwhile
            body = named_child(note, "note-body")
            if body is not None:
                self.blocks(body, writer.note(nth), TextPlace())

    def line(self, node: etree._Element, place: TextPlace, family: str = "paragraph") -> Line:
        """Return the content of a paragraph."""
        own = self._styles.look(family, attribute(node, "style-name"))
        look = {**place.look, **own}
        line = Line(self._reading)
        off = max(abs(look.get("left", 0.0)), abs(look.get("indent", 0.0))) > self.size[0]
        marks = children(node, "hidden-paragraph")
        marked = any(attribute(mark, "is-hidden") != "false" for mark in marks)
        hidden = place.hidden or off or marked or look.get("line", 12.0) < 2
        self._inside(node, look, own.get("ground") or place.ground, hidden, None, line, 0)
        return line

    def _inside(
        self,
        node: etree._Element,
        look: Look,
        ground: Color | None,
        hidden: bool,
        link: str | None,
        line: Line,
        depth: int,
    ) -> None:
        """Add what is in a paragraph or a part of it."""
        if depth > _DEEP:
            self._reading.deep += 1
            return
        wide = of_wide_letters(look)
        usual = (hidden or is_hidden(look, ground), tags_of(look))
        other = usual if wide is look else (hidden or is_hidden(wide, ground), tags_of(wide))

        def add(text: str | None) -> None:
            if text:
                unseen, tags = other if _WIDE.search(text) else usual
                line.add(text, tags, link, hidden=unseen)

        add(node.text)
        for each in node:
            self._reading.budget.take()
            name = local(each)
            if name == "span":
                own = self._styles.look("text", attribute(each, "style-name"))
                self._inside(each, {**look, **own}, ground, hidden, link, line, depth + 1)
            elif name == "a":
                href = (attribute(each, "href") or "").strip()
                self._inside(each, look, ground, hidden, href or link, line, depth + 1)
            elif name in _SHAPES_IN_TEXT:
                line.objects.append(each)
            elif name in ("s", "tab", "line-break", "note", "ruby"):
                if not usual[0]:
                    self._sign(each, name, usual[1], line)
            elif name and name not in _LEFT_OUT:
                self._inside(each, look, ground, hidden, link, line, depth + 1)
            elif name == "hidden-text":
                self._reading.hidden += 1
            add(each.tail)

    def _sign(self, node: etree._Element, name: str, tags: tuple[str, ...], line: Line) -> None:
        if name in ("s", "tab"):
            line.spans.append(Span(" " * count_of(attribute(node, "c"), 200), tags))
        elif name == "line-break":
            line.add_element(element("br"))
        elif name == "note":
            self._notes.append(node)
            line.add_element(note_mark(self._reading, ("note", str(len(self._notes)))))
        else:
            base, reading = (_flat(named_child(node, part)) for part in ("ruby-base", "ruby-text"))
            line.add_element(ruby(base, reading), tags)

    def _paragraph(self, node: etree._Element, writer: BlockWriter, place: TextPlace) -> None:
        line = self.line(node, place)
        if not is_blank(line.spans):
            self._write(line.spans, node, writer)
        for each in line.objects:
            self.frame(each, writer, place)

    def _write(self, spans: list[Span], node: etree._Element, writer: BlockWriter) -> None:
        names = self._styles.ancestors("paragraph", attribute(node, "style-name"))
        is_heading = local(node) == "h"
        heading = next((found for each in names if (found := _HEADING.fullmatch(each))), None)
        if not is_heading and any(_CODE.search(each) for each in names):
            writer.code(spans)
        elif is_heading or any(_TITLE.fullmatch(each) for each in names):
            level = count_of(attribute(node, "outline-level"), 6) if is_heading else 1
            writer.heading(level, without_bold(spans))
        elif heading is not None:
            writer.heading(count_of(heading[1], 6), without_bold(spans))
        elif any(_QUOTATION.search(each) for each in names):
            writer.quoted(spans)
        else:
            writer.paragraph(spans)

    def _list(
        self, node: etree._Element, writer: BlockWriter, place: TextPlace, style: str | None, level: int
    ) -> None:
        if level > _LEVELS:
            self._reading.deep += 1
            return
        style = attribute(node, "style-name") or style or self._styles.list_style(
            attribute(next(iter(node.iter("{*}p")), None), "style-name")
        )  # fmt: skip
        form = self._styles.lists.get(style or "", {}).get(level)
        numbered = form is not None and local(form) == "list-level-style-number"
        kind = (attribute(form, "num-format") or "") if numbered else ""
        items = writer.block("ol" if kind == "1" else "ul")
        count = int(number(attribute(form, "start-value"), 1))
        for item in node:
            self._reading.budget.take()
            if local(item) not in ("list-item", "list-header"):
                continue
            count = int(number(attribute(item, "start-value"), count))
            value = {"value": str(min(max(count, 0), 99_999_999))} if kind == "1" else {}
            inner = BlockWriter(child(items, "li", **value))
            for each in item:
                if local(each) == "list":
                    self._list(each, inner, place, style, level + 1)
                elif local(each) in ("p", "h"):
                    self._paragraph(each, inner, place)
            if kind not in ("", "1") and len(inner.parent):
                label = formatted(count, _NUMBERS.get(kind, "decimal"))
                before, behind = attribute(form, "num-prefix") or "", attribute(form, "num-suffix") or ""
                first = inner.parent[0]
                first.text = f"{before[:8]}{label}{behind[:8]} {first.text or ''}"
            count += local(item) == "list-item"

    def _table(self, node: etree._Element, writer: BlockWriter, place: TextPlace) -> None:
        if place.depth >= _NESTED:
            self._reading.deep += 1
            return
        style = self._styles.look("table", attribute(node, "style-name"))
        hidden = place.hidden or style.get("display") == "false"
        ground = style.get("ground") or place.ground
        table = writer.table()
        columns = _hidden_columns(node)
        for row, is_head in elements_within(node, "table-row", _ROW_GROUPS):
            self._reading.budget.take()
            table.row(head=is_head)
            rows = self._styles.look("table-row", attribute(row, "style-name"))
            away = hidden or not _is_visible(row) or rows.get("height", 12.0) < 2
            behind = rows.get("ground") or ground
            column = 0
            for cell in row:
                name = local(cell)
                if name not in _CELL_KINDS:
                    continue
                self._reading.budget.take(8)
                covered = name != "table-cell"
                own = self._styles.look("table-cell", attribute(cell, "style-name"))
                inner = TextPlace(
                    own.get("ground") or behind,
                    {**place.look, **text_look(own)},
                    place.depth + 1,
                    away or covered or column in columns,
                )
                repeated = count_of(attribute(cell, "number-columns-repeated"), _REPEATED)
                for _ in range(1 if covered else repeated):
                    into = table.cell(*_spans(cell, _REPEATED), covered=covered)
                    self.blocks(cell, BlockWriter(into), inner)
                    column += 1

    def frame(self, node: etree._Element, writer: BlockWriter, place: TextPlace) -> None:
        """Append what a frame or a shape shows: its text, its table, its formula or its description."""
        if place.depth >= _NESTED:
            self._reading.deep += 1
            return
        self._reading.budget.take(4)
        look = self.shape_look(node)
        kind = local(node)
        if kind != "g":
            place = place._replace(ground=filled(look, place.ground, usual=kind != "frame"))
        hidden = place.hidden or self.is_hidden_shape(node, look)
        inner = TextPlace(place.ground, text_look(look), place.depth + 1, hidden)
        for each in node:
            name = local(each)
            if name == "object" and not hidden and self._formula(each, writer):
                break  # the image after it is its picture
            if name == "text-box":
                self.blocks(each, BlockWriter(writer.block("div")), inner)
            elif name == "table":
                self._table(each, writer, inner)
            elif name in _SHAPES_IN_TEXT:
                self.frame(each, writer, inner)
        if kind == "frame" and not hidden:
            words = named_child(node, "desc")
            if words is not None and children(node, "image") and not children(node, "object"):
                writer.image((words.text or "").strip())
        elif kind not in ("frame", "g"):
            own = element("div")
            self.blocks(children(node, "p", "list"), BlockWriter(own), inner)
            if len(own):
                writer.append(own)

    def shape_look(self, node: etree._Element) -> Look:
        """Return the style of a shape, of a presentation or another."""
        name = attribute(node, "style-name")
        family = "presentation" if self._styles.has("presentation", name) else "graphic"
        return self._styles.look(family, name)

    def is_hidden_shape(self, node: etree._Element, look: Look) -> bool:
        """Return whether a shape is not shown, or is outside the page."""
        if attribute(node, "display") == "none" or attribute(node, "visible") == "false":
            return True
        if attribute(node, "layer") in self._styles.hidden_layers or look.get("visibility") == "hidden":
            return True
        left, top, width, height = (attribute(node, name) for name in ("x", "y", "width", "height"))
        wide, high = points(width, 100.0), points(height, 100.0)
        if (width and wide < 2) or (height and high < 2):
            return local(node) == "frame"
        away_left = left is not None and not -wide < points(left) < self.size[0]
        away_top = top is not None and not -high < points(top) < self.size[1]
        return away_left or away_top

    def _formula(self, node: etree._Element, writer: BlockWriter) -> bool:
        """Append a formula; return whether the object is one."""
        href = (attribute(node, "href") or "").removeprefix("./").strip("/")
        root = named_child(node, "math")
        if root is None and href:
            root = self._reading.package.part(f"{href}/content.xml")
        if root is None or local(root) != "math":
            return False
        math = element("math")
        _copy(root, math, 0)
        self._reading.budget.take(sum(1 for _ in math.iter()))
        if "".join(math.itertext()).strip():
            writer.block("p").append(math)
        return True


def text_look(look: Look) -> dict[str, Any]:
    """Return what a style says of text, without what it says of its shape or cell."""
    left_out = ("ground", "fill", "fill_color", "opacity", "display", "visibility", "height", "left", "line")
    return {name: value for name, value in look.items() if name not in left_out}


def _flat(node: etree._Element | None) -> str:
    return "".join(str(text) for text in node.itertext()) if node is not None else ""


def _is_visible(node: etree._Element) -> bool:
    return (attribute(node, "visibility") or "visible") == "visible"


def _hidden_columns(table: etree._Element) -> frozenset[int]:
    """Return the places of columns that are not shown, of the first hundred."""
    found: set[int] = set()
    at = 0
    for column, _ in elements_within(table, "table-column", _COLUMN_GROUPS)[: 2 * _REPEATED]:
        count = count_of(attribute(column, "number-columns-repeated"), 2 * _REPEATED)
        if not _is_visible(column):
            found.update(range(at, at + count))
        at += count
    return frozenset(found)


def _spans(cell: etree._Element, most: int) -> tuple[int, int]:
    """Return the numbers of columns and rows that a cell extends over."""
    names = ("number-columns-spanned", "number-rows-spanned")
    wide, high = (count_of(attribute(cell, name), most) for name in names)
    return wide, high


def _copy(node: etree._Element, into: HtmlElement, depth: int) -> None:
    """Copy MathML without its namespace."""
    for each in node if depth < 40 else ():
        name = local(each)
        if name and name not in ("annotation", "annotation-xml"):
            _copy(each, child(into, name.lower(), (each.text or "").strip()), depth + 1)
