"""OpenDocument files: texts (ODT), spreadsheets (ODS) and presentations (ODP)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lxml import etree
from lxml.html import HtmlElement

from tabane.messages import Message, say
from tabane.reader.formats.archive import said
from tabane.reader.formats.office.drawing_colors import local, number
from tabane.reader.formats.office.odf_styles import OpenStyles, filled, page_properties, page_size, points
from tabane.reader.formats.office.odf_text import OpenPlace, OpenTextReader, text_format
from tabane.reader.formats.office.package import DOCUMENT, OfficePackage, attribute, named_child
from tabane.reader.formats.office.page_tree import ContentBudget, DocumentFull, Span, child, element, fill
from tabane.reader.formats.office.reading import OfficeContent
from tabane.reader.formats.office.sheet_tables import CellRange, sheet_text
from tabane.reader.formats.office.text_formats import Format
from tabane.reader.formats.text import broken
from tabane.reader.visibility import WHITE, Color, hex_color

_CHARACTERS = 4_000_000
_ELEMENTS = 1_200_000
_SHEETS = 50
_SLIDES = 1000
_CELLS = 150_000
_COLUMNS = 200
_ROWS = 2000  # how often a row with text is repeated at most
_COVERS = 50  # shapes of a slide whose places are compared
_DISPLAYED = 60  # characters of a number as it is shown
_FOOTERS = frozenset({"header", "footer", "date-time", "page-number", "page"})
_SHAPES = frozenset({"frame", "g", "custom-shape", "rect", "ellipse", "circle", "polygon", "path", "caption"})


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

    def __init__(self, package: OfficePackage, body: str) -> None:
        self.package = package
        root = package.root("content.xml")
        self.body = named_child(named_child(root, "body"), body)
        if self.body is None:
            raise broken(DOCUMENT, say("it has no content"))
        self.styles = OpenStyles(root, package.part("styles.xml"))
        self.budget = ContentBudget(_CHARACTERS, _ELEMENTS, package.seconds)
        masters = self.styles.masters
        self.master = masters.get("Standard", next(iter(masters.values()), None))
        self.texts = OpenTextReader(package, self.styles, self.budget, page_size(self.styles, self.master))


def read_odt(package: OfficePackage) -> OfficeContent:
    """Return a text. Raises ReadError, ``broken``."""
    document = _OpenDocument(package, "text")
    properties = page_properties(document.styles, document.master)
    ground = hex_color(attribute(properties, "background-color")) if properties is not None else None
    whole = element("div")
    cut = False
    try:
        if document.body is not None:
            document.texts.blocks(document.body, whole, OpenPlace(ground or WHITE))
        document.texts.notes(whole)
    except DocumentFull:
        cut = True
    texts = document.texts
    return OfficeContent(whole, texts.hidden, texts.deep, cut or package.cut)


def read_ods(package: OfficePackage) -> OfficeContent:
    """Return the sheets of a spreadsheet. Raises ReadError, ``broken``."""
    document = _OpenDocument(package, "spreadsheet")
    tables = [each for each in (document.body if document.body is not None else ()) if local(each) == "table"]
    shown: list[etree._Element] = []
    hidden = 0
    for table in tables:
        style = document.styles.format("table", attribute(table, "style-name"))
        if style.get("display") == "false":
            hidden += 1
        else:
            shown.append(table)
    parts: list[str] = []
    warnings: list[Message] = []
    cut = False
    for table in shown[:_SHEETS]:
        sheet = _OpenSheet(document)
        try:
            sheet.read(table)
        except DocumentFull:
            cut = True
        made = sheet_text(attribute(table, "name") or "", sheet.cells, sheet.merged)
        parts.append(made.markdown)
        warnings += made.warnings
        hidden += sheet.hidden
    if len(shown) > _SHEETS:
        warnings.append(
            say("{shown} of {all} {all:sheet is|sheets are} shown.", shown=_SHEETS, all=len(shown))
        )
    return OfficeContent(
        "\n\n".join(parts), hidden + document.texts.hidden, cut=cut or package.cut, notes=tuple(warnings)
    )


class _OpenSheet:
    """A sheet: its texts by row and column, its merged cells, and how many parts of it nobody sees."""

    def __init__(self, document: _OpenDocument) -> None:
        self._styles, self._budget, self._texts = document.styles, document.budget, document.texts
        self.cells: dict[int, dict[int, str]] = {}
        self.merged: list[CellRange] = []
        self.hidden = 0
        self._room = _CELLS
        self._away: list[tuple[int, int]] = []
        self._usual: list[tuple[int, int, str]] = []
        self._seen_away: set[int] = set()

    def read(self, table: etree._Element) -> None:
        """Read the rows. Raises DocumentFull."""
        self._columns(table)
        at = 1
        before = False
        for row in _sheet_rows(table):
            self._budget.take()
            count = max(int(number(attribute(row, "number-rows-repeated"), 1)), 1)
            style = self._styles.format("table-row", attribute(row, "style-name"))
            away = (attribute(row, "visibility") or "visible") != "visible" or style.get("height", 12.0) < 2
            values = self._row(row, at, away)
            if away:
                self.hidden += bool(values) and not before
                before = bool(values)
            else:
                before = False
                for nth in range(min(count, _ROWS) if values else 0):
                    self.cells[at + nth] = values
                    self._room -= len(values)
                    if self._room < 0:
                        raise DocumentFull
            at += count

    def _columns(self, table: etree._Element) -> None:
        at = 1
        waiting = list(reversed(table))
        while waiting:
            node = waiting.pop()
            name = local(node)
            if name == "table-column":
                count = max(int(number(attribute(node, "number-columns-repeated"), 1)), 1)
                if (attribute(node, "visibility") or "visible") != "visible":
                    self._away.append((at, at + count - 1))
                usual = attribute(node, "default-cell-style-name")
                if usual and len(self._usual) < _COLUMNS:
                    self._usual.append((at, at + count - 1, usual))
                at += count
            elif name in ("table-columns", "table-header-columns", "table-column-group"):
                waiting.extend(reversed(node))

    def _row(self, row: etree._Element, at: int, away: bool) -> dict[int, str]:
        found: dict[int, str] = {}
        column = 1
        usual = attribute(row, "default-cell-style-name")
        for cell in row:
            self._budget.take()
            name = local(cell)
            if name not in ("table-cell", "covered-table-cell"):
                continue
            count = max(int(number(attribute(cell, "number-columns-repeated"), 1)), 1)
            if len(cell) and column <= 16_384:
                text = self._text(cell, attribute(cell, "style-name") or usual or self._style_at(column))
                if text and name == "covered-table-cell":
                    self.hidden += 1
                elif text:
                    for nth in range(min(count, _COLUMNS)):
                        if away or not self._is_away(column + nth):
                            found[column + nth] = text
                    self._merge(cell, at, column)
            column += count
        return found

    def _text(self, cell: etree._Element, style: str | None) -> str:
        made = self._styles.format("table-cell", style)
        ground: Color | None = made.get("ground") or WHITE
        place = OpenPlace(ground, {name: value for name, value in made.items() if name != "ground"})
        lines = []
        for each in cell:
            if local(each) == "p":
                spans = self._texts.line(each, place, "cell text")
                lines.append("".join(span.text for span in spans))
        text = " ".join(line for line in lines if line.strip())
        kind = attribute(cell, "value-type")
        if kind in ("float", "percentage", "currency") and len(text) > _DISPLAYED:
            self.hidden += 1  # a spreadsheet shows the value, not this text
            return attribute(cell, "value") or ""
        return text

    def _style_at(self, column: int) -> str | None:
        return next((name for first, last, name in self._usual if first <= column <= last), None)

    def _is_away(self, column: int) -> bool:
        for nth, (first, last) in enumerate(self._away):
            if first <= column <= last:
                self.hidden += nth not in self._seen_away
                self._seen_away.add(nth)
                return True
        return False

    def _merge(self, cell: etree._Element, row: int, column: int) -> None:
        wide = int(number(attribute(cell, "number-columns-spanned"), 1))
        high = int(number(attribute(cell, "number-rows-spanned"), 1))
        if (wide > 1 or high > 1) and len(self.merged) < 5000:
            self.merged.append(CellRange(row, column, row + max(high, 1) - 1, column + max(wide, 1) - 1))


def read_odp(package: OfficePackage) -> OfficeContent:
    """Return a presentation. Raises ReadError, ``broken``."""
    document = _OpenDocument(package, "presentation")
    pages = [each for each in (document.body if document.body is not None else ()) if local(each) == "page"]
    whole = element("div")
    cut = False
    hidden = 0
    try:
        for nth, page in enumerate(pages[:_SLIDES], 1):
            style = document.styles.format("drawing-page", attribute(page, "style-name"))
            if style.get("visibility") == "hidden":
                hidden += 1
            else:
                _OpenSlide(document, page, style).add(nth, whole)
    except DocumentFull:
        cut = True
    notes: tuple[Message, ...] = ()
    if len(pages) > _SLIDES:
        notes = (say("{shown} of {all} {all:slide is|slides are} shown.", shown=_SLIDES, all=len(pages)),)
    texts = document.texts
    return OfficeContent(whole, hidden + texts.hidden, texts.deep, cut or package.cut, notes)


class _OpenSlide:
    """A slide with the background of its master."""

    def __init__(self, document: _OpenDocument, page: etree._Element, style: Format) -> None:
        self._texts, self._styles = document.texts, document.styles
        self._page = page
        master = document.styles.masters.get(attribute(page, "master-page-name") or "", document.master)
        self._texts.size = page_size(document.styles, master)
        self._ground: Color | None = WHITE
        name = attribute(master, "style-name") if master is not None else None
        for look in (self._styles.format("drawing-page", name), style):
            self._ground = filled(look, self._ground)
        self._areas: list[tuple[_Area, Color | None]] = []
        if master is not None and style.get("objects", True):
            for shape in master:
                if local(shape) in _SHAPES and attribute(shape, "class") is None:
                    self._paint(shape)

    def add(self, nth: int, whole: HtmlElement) -> None:
        """Append the slide: its title as a heading, its shapes and its notes."""
        shapes = [each for each in self._page if local(each) in _SHAPES]
        title = next((each for each in shapes if attribute(each, "class") == "title"), None)
        fill(child(whole, "h2"), [Span(f"{nth}. "), *self._title(title)])
        covers = self._covers(shapes)
        for at, shape in enumerate(shapes):
            if shape is not title and attribute(shape, "class") not in _FOOTERS:
                area = _area(shape)
                covered = area is not None and any(nth > at and _contains(each, area) for nth, each in covers)
                place = OpenPlace(self._behind(shape), hidden=covered)
                self._texts.frame(shape, whole, place)
            self._paint(shape)
        notes = named_child(self._page, "notes")
        for shape in notes if notes is not None else ():
            if attribute(shape, "class") == "notes":
                into = element("blockquote")
                self._texts.blocks(_text_box(shape), into, OpenPlace())
                if "".join(str(text) for text in into.itertext()).strip():
                    whole.append(into)

    def _title(self, shape: etree._Element | None) -> list[Span]:
        if shape is None:
            return []
        style = self._texts.look(shape)
        hidden = self._texts.is_hidden_shape(shape, style)
        ground = filled(style, self._behind(shape))
        place = OpenPlace(ground, text_format(style), hidden=hidden)
        spans: list[Span] = []
        for each in _text_box(shape).iter("{*}p"):
            line = self._texts.line(each, place)
            spans += [*([Span(" ")] if spans else []), *line]
        return [
            span._replace(tags=tuple(tag for tag in span.tags if tag != "strong"))
            for span in spans
            if span.element is None or span.element.tag != "br"
        ]

    def _paint(self, shape: etree._Element) -> None:
        """Remember what a shape covers."""
        style = self._texts.look(shape)
        area = _area(shape)
        is_image = any(local(each) == "image" for each in shape)
        fill = style.get("fill")
        is_filled = fill in ("solid", "bitmap", "gradient", "hatch") and style.get("opacity", 1.0) >= 0.5
        if area is not None and (is_image or is_filled) and len(self._areas) < _COVERS:
            self._areas.append((area, style.get("fill_color") if fill == "solid" and not is_image else None))

    def _behind(self, shape: etree._Element) -> Color | None:
        area = _area(shape)
        for other, color in reversed(self._areas) if area is not None else ():
            if area is not None and _meet(area, other):
                return color if _contains(other, area) else None
        return self._ground

    def _covers(self, shapes: list[etree._Element]) -> list[tuple[int, _Area]]:
        """Return the rectangles of one color, with their places among the shapes."""
        if named_child(self._page, "par") is not None:
            return []  # an animation may move them
        found: list[tuple[int, _Area]] = []
        for nth, shape in enumerate(shapes):
            if local(shape) != "rect" or len(found) >= _COVERS:
                continue
            style = self._texts.look(shape)
            area = _area(shape)
            if area is not None and style.get("fill") == "solid" and style.get("opacity", 1.0) >= 1:
                found.append((nth, area))
        return found


_Area = tuple[float, float, float, float]


def _area(shape: etree._Element) -> _Area | None:
    left, top = attribute(shape, "x"), attribute(shape, "y")
    wide, high = attribute(shape, "width"), attribute(shape, "height")
    if left is None or top is None or wide is None or high is None:
        return None
    return points(left), points(top), points(left) + points(wide), points(top) + points(high)


def _meet(one: _Area, other: _Area) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _contains(outer: _Area, inner: _Area) -> bool:
    return outer[0] <= inner[0] and outer[1] <= inner[1] and outer[2] >= inner[2] and outer[3] >= inner[3]


def _text_box(shape: etree._Element) -> etree._Element:
    box = named_child(shape, "text-box")
    return shape if box is None else box


def _sheet_rows(table: etree._Element) -> Iterator[etree._Element]:
    waiting = list(reversed(table))
    while waiting:
        node = waiting.pop()
        name = local(node)
        if name == "table-row":
            yield node
        elif name in ("table-rows", "table-row-group", "table-header-rows"):
            waiting.extend(reversed(node))
