"""OpenDocument files: texts (ODT), spreadsheets (ODS) and presentations (ODP), without what nobody sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from lxml import etree
from lxml.html import HtmlElement

from tabane.messages import Message, say
from tabane.reader.formats.archive import said
from tabane.reader.formats.data_files import CellRange, sheet_text
from tabane.reader.formats.office.docx_styles import formatted
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
    attribute,
    local,
    named_child,
    number,
)
from tabane.reader.formats.office.page_tree import (
    ContentBudget,
    DocumentFull,
    Format,
    OfficeContent,
    Span,
    add_text,
    child,
    element,
    fill,
    is_blank,
    is_hidden,
    tags_of,
)
from tabane.reader.formats.text import broken
from tabane.reader.hidden_text import WHITE, Color, hex_color

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
                text = self._text(
                    cell,
                    attribute(cell, "style-name")
                    or usual
                    or next((name for first, last, name in self._usual if first <= column <= last), None),
                )
                if text and name == "covered-table-cell":
                    self.hidden += 1
                elif text:
                    for nth in range(min(count, _COLUMNS)):
                        if away or not self._is_away(column + nth):
                            found[column + nth] = text
                    wide = int(number(attribute(cell, "number-columns-spanned"), 1))
                    high = int(number(attribute(cell, "number-rows-spanned"), 1))
                    if (wide > 1 or high > 1) and len(self.merged) < 5000:
                        self.merged.append(
                            CellRange(at, column, at + max(high, 1) - 1, column + max(wide, 1) - 1)
                        )
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

    def _is_away(self, column: int) -> bool:
        for nth, (first, last) in enumerate(self._away):
            if first <= column <= last:
                self.hidden += nth not in self._seen_away
                self._seen_away.add(nth)
                return True
        return False


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
            if area is not None and (
                area[0] < other[2] and other[0] < area[2] and area[1] < other[3] and other[1] < area[3]
            ):
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
_SHAPES_IN_TEXT = frozenset({
    "frame", "g", "custom-shape", "rect", "ellipse", "circle", "polygon", "polyline", "path", "line",
    "connector", "regular-polygon", "caption", "measure",
})  # fmt: skip
_CODE = re.compile(r"preformatted|source (?:code|text)|整形済み|ソースコード|コード$", re.IGNORECASE)
_QUOTATION = re.compile(r"quot|引用", re.IGNORECASE)
_WIDE = re.compile("[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff01-\uff60]")
_HEADING = re.compile(r"Heading (\d)")  # of the web layout, whose headings are paragraphs
_TITLE = re.compile(r"title|表題|タイトル", re.IGNORECASE)
_NUMBERS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman",
            "ア, イ, ウ, ...": "aiueo", "一, 二, 三, ...": "japaneseCounting"}  # fmt: skip


class OpenPlace(NamedTuple):
    """Where text is: its background, None if unknown, its format, and how deep. ``hidden``: all there is."""

    ground: Color | None = WHITE
    format: Format = {}
    nested: int = 0
    hidden: bool = False


class _Look(NamedTuple):
    """Whether text is hidden, and the elements for its format: for most letters, and for wide ones."""

    usual: tuple[bool, tuple[str, ...]]
    wide: tuple[bool, tuple[str, ...]]

    @classmethod
    def of(cls, made: Format, ground: Color | None, hidden: bool) -> _Look:
        other = of_wide_letters(made)
        usual = (hidden or is_hidden(made, ground), tags_of(made))
        wide = usual if other is made else (hidden or is_hidden(other, ground), tags_of(other))
        return cls(usual, wide)


class _Line(NamedTuple):
    spans: list[Span]
    frames: list[etree._Element]


class OpenTextReader:
    """Reads text. ``hidden`` counts the parts that nobody sees, ``deep`` those nested too deeply.

    ``size`` is that of a page, in points.
    """

    def __init__(
        self,
        package: OfficePackage,
        styles: OpenStyles,
        budget: ContentBudget,
        size: tuple[float, float],
    ) -> None:
        self._package, self._styles, self._budget = package, styles, budget
        self.size = size
        self.hidden = self.deep = 0
        self._notes: list[etree._Element] = []
        self._unseen = False
        self._listing: HtmlElement | None = None

    def blocks(self, container: etree._Element, into: HtmlElement, place: OpenPlace, depth: int = 0) -> None:
        """Append the blocks of an element."""
        if depth > _DEEP:
            self.deep += 1
            return
        for node in container:
            self._budget.take()
            name = local(node)
            if name in ("p", "h"):
                self._paragraph(node, name, into, place)
                continue
            self._listing = None
            if name == "list":
                self._list(node, into, place, None, 1)
            elif name == "table":
                self.table(node, into, place)
            elif name in _SHAPES_IN_TEXT:
                self.frame(node, into, place)
            elif name and name not in _LEFT_OUT:
                section = name == "section" and attribute(node, "display") in ("none", "condition")
                self.blocks(node, into, place._replace(hidden=place.hidden or section), depth + 1)

    def notes(self, whole: HtmlElement) -> None:
        """Append the notes that the text refers to."""
        if not self._notes:
            return
        into = child(child(whole, "section", **{"class": "footnotes"}), "ol")
        for nth, note in enumerate(self._notes, 1):  # grows meanwhile
            body = named_child(note, "note-body")
            if body is not None:
                self.blocks(body, child(into, "li", id=f"note-{nth}"), OpenPlace())

    def line(self, node: etree._Element, place: OpenPlace, family: str = "paragraph") -> list[Span]:
        """Return a paragraph as spans, without its frames."""
        return self._content(node, place, family).spans

    def _content(self, node: etree._Element, place: OpenPlace, family: str = "paragraph") -> _Line:
        style = self._styles.format(family, attribute(node, "style-name"))
        made = {**place.format, **style}
        found = _Line([], [])
        self._unseen = False
        wide = self.size[0]
        off = abs(made.get("left", 0.0)) > wide or abs(made.get("indent", 0.0)) > wide
        hidden = (
            place.hidden
            or off
            or made.get("line", 12.0) < 2
            or any(
                local(each) == "hidden-paragraph" and attribute(each, "is-hidden") != "false" for each in node
            )
        )
        ground = made["ground"] if style.get("ground") is not None else place.ground
        self._inside(node, made, ground, hidden, None, found, 0)
        return found

    def _inside(
        self,
        node: etree._Element,
        made: dict[str, Any],
        ground: Color | None,
        hidden: bool,
        link: str | None,
        found: _Line,
        depth: int,
    ) -> None:
        """Add what is in a paragraph or a part of it."""
        if depth > _DEEP:
            self.deep += 1
            return
        look = _Look.of(made, ground, hidden)
        unseen, tags = look.usual
        self._text(node.text, look, link, found)
        for each in node:
            self._budget.take()
            name = local(each)
            if name == "span":
                style = self._styles.format("text", attribute(each, "style-name"))
                own = {**made, **style}
                self._inside(each, own, ground, hidden, link, found, depth + 1)
            elif name == "a":
                href = (attribute(each, "href") or "").strip()
                self._inside(each, made, ground, hidden, href or link, found, depth + 1)
            elif name in _SHAPES_IN_TEXT:
                found.frames.append(each)
            elif name in _SPECIAL:
                if not unseen:
                    _SPECIAL[name](self, each, tags, found)
            elif name and name not in _LEFT_OUT:
                self._inside(each, made, ground, hidden, link, found, depth + 1)
            elif name == "hidden-text":
                self.hidden += 1
            self._text(each.tail, look, link, found)

    def _text(self, text: str | None, look: _Look, link: str | None, found: _Line) -> None:
        if not text:
            return
        unseen, tags = look.wide if _WIDE.search(text) else look.usual
        if unseen:
            if text.strip():
                self.hidden += not self._unseen
                self._unseen = True
            return
        self._unseen = False
        self._budget.take(0, len(text))
        found.spans.append(Span(text, tags, link))

    def _space(self, node: etree._Element, tags: tuple[str, ...], found: _Line) -> None:
        count = min(max(int(number(attribute(node, "c"), 1)), 1), 200)
        found.spans.append(Span(" " * count, tags))

    def _tab(self, _node: etree._Element, tags: tuple[str, ...], found: _Line) -> None:
        found.spans.append(Span(" ", tags))

    def _break(self, _node: etree._Element, _tags: tuple[str, ...], found: _Line) -> None:
        found.spans.append(Span("", (), None, element("br")))

    def _note(self, node: etree._Element, _tags: tuple[str, ...], found: _Line) -> None:
        self._notes.append(node)
        nth = len(self._notes)
        mark = element("sup")
        child(mark, "a", str(nth), href=f"#note-{nth}")
        found.spans.append(Span("", (), None, mark))

    def _ruby(self, node: etree._Element, tags: tuple[str, ...], found: _Line) -> None:
        made = element("ruby", _flat(named_child(node, "ruby-base"))[:200])
        child(made, "rt", _flat(named_child(node, "ruby-text"))[:200])
        found.spans.append(Span("", tags, None, made))

    def _paragraph(self, node: etree._Element, name: str, into: HtmlElement, place: OpenPlace) -> None:
        line = self._content(node, place)
        style = attribute(node, "style-name")
        names = self._styles.ancestors("paragraph", style)
        if not is_blank(line.spans):
            self._write(line.spans, node, name, names, into)
        elif self._listing is None or line.frames:
            self._listing = None
        for each in line.frames:
            self.frame(each, into, place)

    def _write(
        self, spans: list[Span], node: etree._Element, name: str, names: list[str], into: HtmlElement
    ) -> None:
        code = any(_CODE.search(each) for each in names)
        if code and name == "p":
            text = "".join("\n" if span.element is not None else span.text for span in spans)
            if self._listing is None:
                self._listing = child(into, "pre", text)
            else:
                add_text(self._listing, "\n" + text)
            return
        self._listing = None
        level: int | None = None
        if name == "h":
            level = min(max(int(number(attribute(node, "outline-level"), 1)), 1), 6)
        elif any(_TITLE.fullmatch(each) for each in names):
            level = 1
        elif found := next((at for each in names if (at := _HEADING.fullmatch(each))), None):
            level = min(max(int(found[1]), 1), 6)
        if level is not None:
            spans = [span._replace(tags=tuple(tag for tag in span.tags if tag != "strong")) for span in spans]
            fill(child(into, f"h{level}"), spans)
        elif any(_QUOTATION.search(each) for each in names):
            fill(child(child(into, "blockquote"), "p"), spans)
        else:
            fill(child(into, "p"), spans)

    def _list(
        self, node: etree._Element, into: HtmlElement, place: OpenPlace, style: str | None, level: int
    ) -> None:
        if level > _LEVELS:
            self.deep += 1
            return
        style = attribute(node, "style-name") or style or self._of_first(node)
        form = self._styles.lists.get(style or "", {}).get(level)
        numbered = form is not None and local(form) == "list-level-style-number"
        kind = (attribute(form, "num-format") or "") if form is not None and numbered else ""
        made = child(into, "ol" if numbered and kind == "1" else "ul")
        count = int(number(attribute(form, "start-value"), 1)) if form is not None else 1
        for item in node:
            self._budget.take()
            if local(item) not in ("list-item", "list-header"):
                continue
            count = int(number(attribute(item, "start-value"), count))
            at = child(made, "li")
            if made.tag == "ol":
                at.set("value", str(min(max(count, 0), 99_999_999)))
            for each in item:
                if local(each) == "list":
                    self._list(each, at, place, style, level + 1)
                elif local(each) in ("p", "h"):
                    self._paragraph(each, "p" if local(each) == "p" else "h", at, place)
            if kind and kind != "1" and form is not None and len(at):
                label = formatted(count, _NUMBERS.get(kind, "decimal"))
                before, behind = attribute(form, "num-prefix") or "", attribute(form, "num-suffix") or ""
                at[0].text = f"{before[:8]}{label}{behind[:8]} {at[0].text or ''}"
            count += local(item) == "list-item"
        self._listing = None

    def _of_first(self, node: etree._Element) -> str | None:
        """Return the list style that the first paragraph of a list refers to."""
        paragraph = next(iter(node.iter("{*}p")), None)
        return self._styles.list_style(attribute(paragraph, "style-name")) if paragraph is not None else None

    def table(self, node: etree._Element, into: HtmlElement, place: OpenPlace) -> None:
        """Append a table of text."""
        if place.nested >= _NESTED:
            self.deep += 1
            return
        style = self._styles.format("table", attribute(node, "style-name"))
        hidden = place.hidden or style.get("display") == "false"
        ground = style.get("ground") or place.ground
        table = child(into, "table", role="table")
        head: HtmlElement | None = None
        columns = _columns(node)
        for row, is_head in _rows(node):
            self._budget.take()
            if is_head and head is None:
                head = child(table, "thead")
            made = child(head if is_head and head is not None else table, "tr")
            rows = self._styles.format("table-row", attribute(row, "style-name"))
            shown = (attribute(row, "visibility") or "visible") == "visible"
            away = hidden or not shown or rows.get("height", 12.0) < 2
            behind = rows.get("ground") or ground
            column = 0
            for cell in row:
                name = local(cell)
                if name not in ("table-cell", "covered-table-cell"):
                    continue
                self._budget.take(8)
                repeated = min(max(int(number(attribute(cell, "number-columns-repeated"), 1)), 1), _REPEATED)
                own = self._styles.format("table-cell", attribute(cell, "style-name"))
                inner = OpenPlace(
                    own.get("ground") or behind,
                    {**place.format, **text_format(own)},
                    place.nested + 1,
                    away or name != "table-cell" or column in columns,
                )
                for _ in range(repeated if name == "table-cell" else 1):
                    at = element("div") if name != "table-cell" else child(made, "td", **_spans(cell))
                    self.blocks(cell, at, inner)
                    column += 1
        self._listing = None

    def frame(self, node: etree._Element, into: HtmlElement, place: OpenPlace) -> None:
        """Append what a frame or a shape shows: its text, its table, its formula or its description."""
        if place.nested >= _NESTED:
            self.deep += 1
            return
        self._budget.take(4)
        style = self.look(node)
        kind = local(node)
        if kind != "g":
            place = place._replace(ground=filled(style, place.ground, usual=kind != "frame"))
        hidden = place.hidden or self.is_hidden_shape(node, style)
        inner = place._replace(nested=place.nested + 1, hidden=hidden, format=text_format(style))
        for each in node:
            name = local(each)
            if name == "object" and not hidden and self._object(each, into):
                break  # the image after it is its picture
            if name == "text-box":
                self.blocks(each, child(into, "div"), inner)
            elif name == "table":
                self.table(each, into, inner)
            elif name in _SHAPES_IN_TEXT:
                self.frame(each, into, inner)
        if kind == "frame" and not hidden:
            words = named_child(node, "desc")
            text = ((words.text if words is not None else "") or "").strip()
            if text and named_child(node, "image") is not None and named_child(node, "object") is None:
                child(child(into, "p"), "img", alt=text[:1000])
        elif kind != "g":
            paragraphs = element("div")
            made = node.makeelement("text")
            for each in list(node):
                if local(each) in ("p", "list"):
                    made.append(each)
            self.blocks(made, paragraphs, inner)
            if len(paragraphs):
                into.append(paragraphs)
        self._listing = None

    def look(self, node: etree._Element) -> Format:
        """Return the style of a shape, of a presentation or another."""
        name = attribute(node, "style-name")
        family = "presentation" if self._styles.has("presentation", name) else "graphic"
        return self._styles.format(family, name)

    def is_hidden_shape(self, node: etree._Element, style: Format) -> bool:
        """Return whether a shape is not shown, or is outside the page."""
        if attribute(node, "display") == "none" or attribute(node, "visible") == "false":
            return True
        if attribute(node, "layer") in self._styles.hidden_layers or style.get("visibility") == "hidden":
            return True
        left, top = attribute(node, "x"), attribute(node, "y")
        wide, high = points(attribute(node, "width"), 100.0), points(attribute(node, "height"), 100.0)
        if (attribute(node, "width") and wide < 2) or (attribute(node, "height") and high < 2):
            return local(node) == "frame"
        away_left = left is not None and not -wide < points(left) < self.size[0]
        away_top = top is not None and not -high < points(top) < self.size[1]
        return away_left or away_top

    def _object(self, node: etree._Element, into: HtmlElement) -> bool:
        """Append a formula; return whether the object is one."""
        href = (attribute(node, "href") or "").removeprefix("./").strip("/")
        root = named_child(node, "math")
        if root is None and href:
            root = self._package.part(f"{href}/content.xml")
        if root is None or local(root) != "math":
            return False
        math = element("math")
        _copy(root, math, 0)
        self._budget.take(sum(1 for _ in math.iter()))
        if "".join(math.itertext()).strip():
            child(into, "p").append(math)
        return True


_SPECIAL: dict[str, Callable[[OpenTextReader, etree._Element, tuple[str, ...], _Line], None]] = {
    "s": OpenTextReader._space,
    "tab": OpenTextReader._tab,
    "line-break": OpenTextReader._break,
    "note": OpenTextReader._note,
    "ruby": OpenTextReader._ruby,
}


def text_format(made: Format) -> dict[str, Any]:
    """Return what a style says of text, without what it says of its shape or cell."""
    left_out = ("ground", "fill", "fill_color", "opacity", "display", "visibility", "height", "left", "line")
    return {name: value for name, value in made.items() if name not in left_out}


def _flat(node: etree._Element | None) -> str:
    return "".join(str(text) for text in node.itertext()) if node is not None else ""


def _columns(table: etree._Element) -> frozenset[int]:
    """Return the places of columns that are not shown, of the first hundred."""
    found: set[int] = set()
    at = 0
    waiting = list(reversed(table))
    while waiting and at < 2 * _REPEATED:
        node = waiting.pop()
        name = local(node)
        if name == "table-column":
            count = min(max(int(number(attribute(node, "number-columns-repeated"), 1)), 1), 2 * _REPEATED)
            if (attribute(node, "visibility") or "visible") != "visible":
                found.update(range(at, at + count))
            at += count
        elif name in ("table-columns", "table-header-columns", "table-column-group"):
            waiting.extend(reversed(node))
    return frozenset(found)


def _rows(table: etree._Element) -> list[tuple[etree._Element, bool]]:
    """Return the rows of a table, and whether each is part of its head."""
    found: list[tuple[etree._Element, bool]] = []
    waiting = [(node, False) for node in reversed(table)]
    while waiting:
        node, head = waiting.pop()
        name = local(node)
        if name == "table-row":
            found.append((node, head))
        elif name in ("table-rows", "table-row-group", "table-header-rows"):
            inside = head or name == "table-header-rows"
            waiting += [(each, inside) for each in reversed(node)]
    return found


def _spans(cell: etree._Element) -> dict[str, str]:
    found = {}
    for name, made in (("number-columns-spanned", "colspan"), ("number-rows-spanned", "rowspan")):
        count = min(max(int(number(attribute(cell, name), 1)), 1), _REPEATED)
        if count > 1:
            found[made] = str(count)
    return found


def _copy(node: etree._Element, into: HtmlElement, depth: int) -> None:
    """Copy MathML without its namespace."""
    for each in node if depth < 40 else ():
        name = local(each)
        if name and name not in ("annotation", "annotation-xml"):
            made = child(into, name.lower(), (each.text or "").strip())
            _copy(each, made, depth + 1)
