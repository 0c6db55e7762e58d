"""Documents of Word (DOCX): paragraphs, headings, lists, tables, notes and text boxes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from lxml import etree
from lxml.html import HtmlElement

from tabane.reader.formats.office.docx_styles import (
    ListNumber,
    Numbering,
    WordStyle,
    WordStyles,
    combined,
    paragraph_format,
    run_format,
    shading,
)
from tabane.reader.formats.office.formulas import formula
from tabane.reader.formats.office.model import (
    DocumentFull,
    Line,
    Look,
    OfficeContent,
    Reading,
    Span,
    is_blank,
)
from tabane.reader.formats.office.package import (
    TRUE,
    OfficePackage,
    Relation,
    ThemeColors,
    attribute,
    children,
    count_of,
    elements_within,
    local,
    named_child,
    number,
    value_of,
)
from tabane.reader.formats.office.visibility import TextPlace, is_hidden
from tabane.reader.formats.office.writer import (
    BlockWriter,
    NoteWriter,
    element,
    note_mark,
    ruby,
    tags_of,
    without_bold,
    write_chart,
)
from tabane.reader.hidden_text import WHITE, Color, hex_color

_DEEPEST_INLINE = 40  # nested fields, links and insertions
_INSIDE = frozenset(
    {"hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdtContent", "dir", "bdo", "fldSimple"}
)
_CODE_STYLE = re.compile(r"html code|source text|verbatim|inline ?code|^code|コード", re.IGNORECASE)
_ADDRESS = re.compile(r'^\s*HYPERLINK\s+"([^"]{1,2000})"', re.IGNORECASE)
_SYMBOLS = {"f0fc": "✓", "f0fe": "☑", "f0a8": "☐", "f06f": "☐", "f0fb": "✗", "f0e0": "→", "f0b7": "•"}
_SIGNS = {"tab": " ", "noBreakHyphen": "-"}


class _ParagraphLook(NamedTuple):
    """What a paragraph gives its runs: place, look of its style, and ground. ``hidden``: nobody sees it."""

    place: TextPlace
    style: Look
    ground: Color | None
    hidden: bool


@dataclass(slots=True)
class _ComplexField:
    """A field whose code is read before what it shows. ``link`` is its address."""

    code: list[str] = field(default_factory=list)
    shows: bool = False
    link: str | None = None


class _InlineReader:
    """Reads the content of paragraphs."""

    def __init__(
        self, reading: Reading, styles: WordStyles, theme: ThemeColors, relations: Mapping[str, Relation]
    ) -> None:
        self._reading, self._styles, self._theme = reading, styles, theme
        self.relations = relations
        self._fields: list[_ComplexField] = []
        self._looks: dict[tuple[int, int, str], dict[str, Any]] = {}

    def line(self, node: etree._Element, paragraph: _ParagraphLook) -> Line:
        """Return the content of a paragraph."""
        line = Line(self._reading)
        self._inside(node, paragraph, line, None, 0)
        # A field whose code does not end in its paragraph is broken: it must not swallow the document.
        self._fields = [each for each in self._fields if each.shows]
        return line

    def _inside(
        self, node: etree._Element, paragraph: _ParagraphLook, line: Line, link: str | None, depth: int
    ) -> None:
        if depth > _DEEPEST_INLINE:
            self._reading.deep += 1
            return
        for each in node:
            self._reading.budget.take()
            name = local(each)
            if name == "r":
                self._run(each, paragraph, line, link)
            elif name in ("oMath", "oMathPara"):
                displayed = name == "oMathPara"
                for part in children(each, "oMath") if displayed else [each]:
                    if not paragraph.hidden and (math := formula(part, shown=displayed)) is not None:
                        line.add_element(math)
            elif name in _INSIDE:
                self._inside(each, paragraph, line, self._link(each, name) or link, depth + 1)
            elif (inner := _wrapped(each, name)) is not None:
                self._inside(inner, paragraph, line, link, depth + 1)

    def _link(self, node: etree._Element, name: str) -> str | None:
        """Return the address of a link."""
        if name == "hyperlink":
            relation = self.relations.get(attribute(node, "id") or "")
            return relation.target if relation is not None and relation.external else None
        if name == "fldSimple" and (address := _ADDRESS.match(attribute(node, "instr") or "")):
            return address[1]
        return None

    def _run(self, run: etree._Element, paragraph: _ParagraphLook, line: Line, link: str | None) -> None:
        look = self._look(run_format(named_child(run, "rPr"), self._theme), paragraph)
        hidden = paragraph.hidden or is_hidden(look, paragraph.ground)
        tags = tags_of(look)
        for each in run:
            self._reading.budget.take()
            name = local(each)
            if name == "t":
                if each.text:
                    self._text(each.text, look, line, hidden, tags, link)
            elif name == "fldChar":
                self._field_mark(attribute(each, "fldCharType"))
            elif name == "instrText":
                if self._fields and not self._fields[-1].shows and len(self._fields[-1].code) < 50:
                    self._fields[-1].code.append(each.text or "")
            elif not hidden:
                self._object(each, name, line, tags, link)

    def _field_mark(self, kind: str | None) -> None:
        """Read a mark of a field: its begin, the end of its code, its end."""
        if kind == "begin" and len(self._fields) < _DEEPEST_INLINE:
            self._fields.append(_ComplexField())
        elif kind == "separate" and self._fields:
            at = self._fields[-1]
            at.shows = True
            address = _ADDRESS.match("".join(at.code))
            at.link = address[1] if address else None
        elif kind == "end" and self._fields:
            self._fields.pop()

    def _look(self, own: dict[str, Any], paragraph: _ParagraphLook) -> dict[str, Any]:
        """Return the look of a run; the part of its styles is made once."""
        style = own.get("style") or ""
        key = (id(paragraph.style), id(paragraph.place.look), style)
        base = self._looks.get(key)
        if base is None:
            # A paragraph that is bold as a whole is not emphasis.
            styles = [_without_emphasis(paragraph.place.look), _without_emphasis(paragraph.style)]
            if style:
                character = self._styles.style(style)
                code = {"code": True} if _CODE_STYLE.search(character.name) else {}
                styles.append({**character.run, **code})
            base = combined(_without_emphasis(self._styles.defaults), tuple(styles))
            self._looks[key] = base
        return {**base, **own} if own else base

    def _text(
        self, text: str, look: Look, line: Line, hidden: bool, tags: tuple[str, ...], link: str | None
    ) -> None:
        if any(not each.shows for each in self._fields):
            return  # within the code of a field
        if look.get("web_hidden"):
            hidden = hidden or any(char.isalpha() for char in text)
            if not hidden:
                return  # numbers of pages in a table of contents
        link = link or next((each.link for each in reversed(self._fields) if each.link), None)
        line.add(text, tags, link, hidden=hidden)

    def _object(
        self, node: etree._Element, name: str, line: Line, tags: tuple[str, ...], link: str | None
    ) -> None:
        if name in _SIGNS:
            line.spans.append(Span(_SIGNS[name], tags, link))
        elif name in ("br", "cr"):
            page = attribute(node, "type") in ("page", "column")
            line.spans.append(Span(" ") if page else Span("", (), None, element("br")))
        elif name == "sym":
            sign = _SYMBOLS.get((attribute(node, "char") or "").lower(), "")
            line.spans.append(Span(sign, tags, link))
        elif name in ("footnoteReference", "endnoteReference"):
            key = (name.removesuffix("Reference"), attribute(node, "id") or "")
            line.add_element(note_mark(self._reading, key))
        elif name in ("drawing", "pict", "object"):
            line.objects.append(node)
        elif name == "AlternateContent":
            chosen = alternative(node)
            for each in chosen if chosen is not None else ():
                if local(each) != "AlternateContent":
                    self._object(each, local(each), line, tags, link)
        elif name == "ruby":
            base, reading = (
                "".join(text.text or "" for part in children(node, kind) for text in part.iter("{*}t"))
                for kind in ("rubyBase", "rt")
            )
            line.add_element(ruby(base, reading), tags)


def alternative(node: etree._Element) -> etree._Element | None:
    """Return the content that Office shows of several: the first choice, else the fallback."""
    choice = named_child(node, "Choice")
    return choice if choice is not None else named_child(node, "Fallback")


def _wrapped(node: etree._Element, name: str) -> etree._Element | None:
    """Return what a control or a choice contains."""
    if name == "sdt":
        return named_child(node, "sdtContent")
    return alternative(node) if name == "AlternateContent" else None


def _without_emphasis(look: Look) -> Look:
    return {name: value for name, value in look.items() if name not in ("bold", "italic")}


_DEEP = 6  # tables and text boxes within each other
_PAGE = (11906.0, 16838.0)  # twips: A4
_EMU = 635  # of DrawingML, in a twip
_BLOCKS = frozenset({"ins", "moveTo", "customXml", "smartTag", "sdtContent"})
_ROW_WRAPPERS = frozenset({"sdt", "sdtContent", "ins", "moveTo", "customXml"})
_LIST_STYLE = re.compile(r"(?:list (?:bullet|number)|箇条書き|段落番号) ?([2-5])", re.IGNORECASE)
_HIDDEN_SHAPE = re.compile(r"visibility\s*:\s*hidden|display\s*:\s*none", re.IGNORECASE)
_OFFSET = re.compile(r"(?:^|;)\s*(margin-left|margin-top|left|top)\s*:\s*(-?[\d.]{1,12})(pt|in|px|cm|mm)?")
_TWIPS = {"pt": 20.0, "in": 1440.0, "px": 15.0, "cm": 567.0, "mm": 56.7, "": 15.0}
_LONG_NAMES = {"light1": "lt1", "dark1": "dk1", "light2": "lt2", "dark2": "dk2"}


def read_docx(package: OfficePackage) -> OfficeContent:
    """Return the document. Raises ReadError, ``broken``."""
    return WordDocument(package).content()


class WordDocument:
    """A document as it is read once."""

    def __init__(self, package: OfficePackage) -> None:
        self._package = package
        self._main = package.main("word/document.xml")
        relations = package.relations(self._main)

        def part(kind: str) -> etree._Element | None:
            return package.part(package.first(relations, kind) or f"word/{kind}.xml")

        self._settings = part("settings")
        theme = ThemeColors(package.part(package.first(relations, "theme") or "word/theme/theme1.xml"))
        mapping = named_child(self._settings, "clrSchemeMapping")
        names = {"bg1": "bg1", "tx1": "t1", "bg2": "bg2", "tx2": "t2"}
        mapped = {name: attribute(mapping, key) for name, key in names.items()}
        self._theme = theme.with_names(
            {name: _LONG_NAMES.get(value, value) for name, value in mapped.items() if value}
        )
        self._styles = WordStyles(part("styles"), self._theme)
        self._numbering = Numbering(part("numbering"))
        self._notes = {kind: part(kind + "s") for kind in ("footnote", "endnote")}
        self._reading = Reading(package)
        self._inline = _InlineReader(self._reading, self._styles, self._theme, relations)
        self._page = _PAGE

    def content(self) -> OfficeContent:
        """Return what the document shows."""
        root = self._package.root(self._main)
        body = named_child(root, "body")
        whole = element("div")
        try:
            if body is not None:
                size = named_child(body, "sectPr", "pgSz")
                wide, high = number(attribute(size, "w")), number(attribute(size, "h"))
                self._page = max(wide, _PAGE[0]), max(high, _PAGE[1])
                self._blocks(body, BlockWriter(whole), TextPlace(self._ground(root)))
        except DocumentFull:
            self._reading.cut = True
        try:
            self._add_notes(whole)
        except DocumentFull:
            self._reading.cut = True
        return self._reading.content(whole)

    def _ground(self, root: etree._Element) -> Color:
        """Return the color of the page, if the document shows it."""
        ground = named_child(root, "background")
        displayed = named_child(self._settings, "displayBackgroundShape")
        if displayed is None or attribute(displayed, "val") in ("0", "false", "off"):
            return WHITE
        named = self._theme.named(attribute(ground, "themeColor") or "")
        return named or hex_color(attribute(ground, "color")) or WHITE

    def _blocks(
        self, container: etree._Element, writer: BlockWriter, place: TextPlace, depth: int = 0
    ) -> None:
        if depth > 40:
            self._reading.deep += 1
            return
        for node in container:
            self._reading.budget.take()
            name = local(node)
            if name == "p":
                self._paragraph(node, writer, place)
            elif name == "tbl":
                self._table(node, writer, place)
            elif name == "oMathPara":  # a formula that has no paragraph around it
                paragraph = container.makeelement("p")
                paragraph.append(node)
                self._paragraph(paragraph, writer, place)
            elif (inner := node if name in _BLOCKS else _wrapped(node, name)) is not None:
                self._blocks(inner, writer, place, depth + 1)

    def _paragraph(self, node: etree._Element, writer: BlockWriter, place: TextPlace) -> None:
        own = paragraph_format(named_child(node, "pPr"), self._theme)
        style = self._styles.style(own.get("style") or self._styles.usual("paragraph"))
        look: dict[str, Any] = {**style.paragraph, **own}
        shades = (own.get("shade"), style.paragraph.get("shade"), place.ground)
        ground = next((shade for shade in shades if shade is not None), None)
        hidden = place.hidden or self._is_off_page(look)
        line = self._inline.line(node, _ParagraphLook(place, style.run, ground, hidden))
        if not is_blank(line.spans):
            self._write(line.spans, look.get("outline"), style, self._number(own, style), writer)
        for drawing in line.objects:
            self._drawing(drawing, writer, place._replace(hidden=hidden))

    def _write(
        self,
        spans: list[Span],
        outline: int | None,
        style: WordStyle,
        number: ListNumber | None,
        writer: BlockWriter,
    ) -> None:
        level = style.level or (min(outline + 1, 6) if outline is not None and outline < 9 else None)
        label = [Span(f"{number.label} ")] if number is not None and number.label else []
        if level is not None:
            writer.heading(level, [*label, *without_bold(spans)])
        elif style.is_code or _is_code(spans):
            writer.code(spans)
        elif number is not None and number.plain:
            writer.item(number.level, spans, number.value)
        elif number is not None:
            writer.item(number.level, [*label, *spans])
        elif style.is_quotation:
            writer.quoted(spans)
        else:
            writer.paragraph(spans)

    def _number(self, own: dict[str, Any], style: WordStyle) -> ListNumber | None:
        """Count the item."""
        ids = own.get("numbering", (None, None)), style.paragraph.get("numbering", (None, None))
        name, level = (given if given is not None else styled for given, styled in zip(*ids, strict=True))
        if name is None or name == "0":
            return None
        counted = self._numbering.next(name, level or 0)
        deeper = _LIST_STYLE.fullmatch(style.name.strip())
        if counted is not None and deeper is not None:
            return counted._replace(level=max(counted.level, int(deeper[1]) - 1))
        return counted

    def _is_off_page(self, look: dict[str, Any]) -> bool:
        """Return whether a paragraph is outside the page, or its lines have no height."""
        wide, high = self._page
        left, top, flat = look.get("frame", (0.0, 0.0, False))
        off = abs(look.get("left", 0.0)) > wide or abs(left) > wide or abs(top) > high
        return bool(off or flat or look.get("line", 240.0) < 40)

    def _table(self, node: etree._Element, writer: BlockWriter, place: TextPlace) -> None:
        if place.depth >= _DEEP:
            self._reading.deep += 1
            return
        properties = named_child(node, "tblPr")
        style = self._styles.style(value_of(properties, "tblStyle") or self._styles.usual("table"))
        every_row = (row for row, _ in elements_within(node, "tr", _ROW_WRAPPERS))
        # without those that a tracked change deletes
        rows = [row for row in every_row if named_child(row, "trPr", "del") is None]
        looks = _CellLooks(style, properties, len(rows))
        own_ground = shading(named_child(properties, "shd"), self._theme)
        if own_ground is not None:
            place = place._replace(ground=own_ground)
        table = writer.table()
        heads = [named_child(row, "trPr", "tblHeader") is not None for row in rows]
        count = next((nth for nth, head in enumerate(heads) if not head), 0)
        lines = [_cells(row) for row in rows]
        spans = _spans_down(lines)
        fixed = attribute(named_child(properties, "tblLayout"), "type") == "fixed"
        columns = children(named_child(node, "tblGrid"), "gridCol") if fixed else ()
        grid = [number(attribute(each, "w"), _WIDE) for each in islice(columns, _WIDEST)]
        for nth, (row, cells) in enumerate(zip(rows, lines, strict=True)):
            self._reading.budget.take()
            table.row(head=nth < count)
            height = named_child(row, "trPr", "trHeight")
            flat = attribute(height, "hRule") == "exact" and number(attribute(height, "val"), 240) < 40
            mark = named_child(row, "trPr", "hidden")
            flat = flat or (mark is not None and (attribute(mark, "val") or "1") in TRUE)
            column = 0
            for at, (cell, wide) in enumerate(cells):
                self._reading.budget.take(8)  # a table costs more to write
                inner = looks.place(place, nth, column, first=at == 0, last=at == len(cells) - 1)
                shade = shading(named_child(cell, "tcPr", "shd"), self._theme)
                if shade is not None:
                    inner = inner._replace(ground=shade)
                high = spans.get((nth, column), 1)
                # A cell that goes on from the row above shows nothing of its own.
                width = _cell_width(cell, grid[column : column + wide])
                unseen = flat or high == 0 or (fixed and width is not None and width < _NARROW)
                inner = inner._replace(hidden=inner.hidden or unseen, depth=place.depth + 1)
                into = table.cell(wide, high, covered=high == 0)
                self._blocks(cell, BlockWriter(into), inner)
                column += wide

    def _drawing(self, node: etree._Element, writer: BlockWriter, place: TextPlace) -> None:
        """Write the alternative text of an image, the text of boxes, and the data of charts."""
        if place.depth >= _DEEP:
            self._reading.deep += 1
            return
        box = next(iter(children(node, "inline", "anchor")), None)
        hidden = place.hidden or self._is_hidden_box(box)
        decorative = box is not None and any(
            attribute(mark, "val") in ("1", "true") for mark in box.iter("{*}decorative")
        )
        if not hidden and not decorative:
            writer.image(attribute(named_child(box, "docPr"), "descr"))
        for shape in _shapes(node):
            self._reading.budget.take()
            if local(shape) != "chart":
                self._box(shape, writer, place._replace(hidden=hidden))
            elif not hidden:
                relation = self._inline.relations.get(attribute(shape, "id") or "")
                write_chart(self._package.part(relation and relation.target), writer)

    def _box(self, content: etree._Element, writer: BlockWriter, place: TextPlace) -> None:
        """Write a text box: its ground is that of its shape."""
        shape = content.getparent()
        shape = shape.getparent() if shape is not None and local(shape) in ("txbx", "textbox") else shape
        ground = place.ground
        paint = self._theme.fill(named_child(shape, "spPr"))
        style = attribute(shape, "style") or ""
        hidden = place.hidden or bool(_HIDDEN_SHAPE.search(style)) or self._is_off(style)
        if paint is not None:
            ground = ground if paint.opacity < 0.5 else paint.color
        elif (reference := named_child(shape, "style", "fillRef")) is not None:
            ground = self._theme.paint(reference).color if attribute(reference, "idx") != "0" else ground
        elif attribute(shape, "filled") not in ("f", "false") and (fill := attribute(shape, "fillcolor")):
            name = fill.partition(" ")[0]
            ground = hex_color(name) or self._theme.preset(name)
        into = BlockWriter(writer.block("div"))
        self._blocks(content, into, TextPlace(ground, {}, place.depth + 1, hidden))

    def _is_hidden_box(self, box: etree._Element | None) -> bool:
        if attribute(named_child(box, "docPr"), "hidden") in TRUE or attribute(box, "hidden") in TRUE:
            return True
        extent = named_child(box, "extent")
        if min(number(attribute(extent, name), 1e6) for name in ("cx", "cy")) < 2 * 12_700:
            return True
        for name, limit in zip(("positionH", "positionV"), self._page, strict=True):
            offset = named_child(box, name, "posOffset")
            if offset is not None and abs(number(offset.text)) / _EMU > limit:
                return True
        return False

    def _is_off(self, style: str) -> bool:
        for name, value, unit in _OFFSET.findall(style[:2000]):
            limit = self._page[0 if "left" in name else 1]
            if abs(number(value)) * _TWIPS[unit] > limit:
                return True
        return False

    def _add_notes(self, whole: HtmlElement) -> None:
        """Append the notes that the text refers to, those that notes refer to included."""
        sources = {
            (kind, attribute(note, "id") or ""): note
            for kind, part in self._notes.items()
            for note in (part if part is not None else ())
        }
        writer = NoteWriter(whole)
        for nth, key in enumerate(self._reading.notes, 1):  # grows meanwhile
            if (note := sources.get(key)) is not None:
                self._inline.relations = self._package.relations(f"word/{key[0]}s.xml")
                self._blocks(note, writer.note(nth), TextPlace())


def _is_code(spans: list[Span]) -> bool:
    return all(span.tags == ("code",) for span in spans if span.text.strip()) and not any(
        span.link or (span.element is not None and span.element.tag != "br") for span in spans
    )


def _shapes(drawing: etree._Element) -> list[etree._Element]:
    """Return the texts of boxes and the charts of a drawing, not those within the boxes."""
    found: list[etree._Element] = []
    waiting = list(reversed(drawing))
    while waiting and len(found) < 2000:
        node = waiting.pop()
        name = local(node)
        if name in ("txbxContent", "chart"):
            found.append(node)
        elif name == "AlternateContent":
            if (chosen := alternative(node)) is not None:
                waiting.extend(reversed(chosen))
        else:
            waiting.extend(reversed(node))
    return found


_WIDEST = 100  # columns
_NARROW, _WIDE = 20.0, 1440.0  # twips of a column that shows nothing, and of one whose width is not known


def _cell_width(cell: etree._Element, grid: Sequence[float]) -> float | None:
    """Return the width of a cell in twips: its own, or that of its columns; None if it is not known."""
    own = named_child(cell, "tcPr", "tcW")
    if attribute(own, "type") == "dxa":
        return number(attribute(own, "w"), _WIDE)
    return sum(grid) if grid else None


_FLAGS = {"firstRow": 0x20, "lastRow": 0x40, "firstColumn": 0x80, "lastColumn": 0x100}
_NO_BANDS = {"noHBand": 0x200, "noVBand": 0x400}


class _CellLooks:
    """What the style of a table gives its cells by their places."""

    def __init__(self, style: WordStyle, properties: etree._Element | None, rows: int) -> None:
        self._style, self._rows = style, rows
        look = named_child(properties, "tblLook")
        self._on = {name: look is None or _is_set(look, name, bit) for name, bit in _FLAGS.items()}
        self._without = {
            name: look is not None and _is_set(look, name, bit) for name, bit in _NO_BANDS.items()
        }
        self._looks: dict[tuple[str, ...], dict[str, Any]] = {}

    def place(self, around: TextPlace, row: int, column: int, *, first: bool, last: bool) -> TextPlace:
        """Return where the text of a cell is: its ground and look by the style of the table."""
        cells = self._style.cells
        if not cells:
            return around
        conditions = tuple(
            name for name in self._conditions(row, column, first=first, last=last) if name in cells
        )
        look = self._looks.get(conditions)
        if look is None:
            look = dict(self._style.run)
            for name in conditions:
                look.update(cells[name][0])
            self._looks[conditions] = look
        shades = [cells[name][1] for name in conditions]
        ground = next((shade for shade in reversed(shades) if shade is not None), around.ground)
        return around._replace(ground=ground, look=look)

    def _conditions(self, row: int, column: int, *, first: bool, last: bool) -> list[str]:
        """Return the conditions that hold for a cell, the strongest last."""
        on, without = self._on, self._without
        head, side = on["firstRow"] and row == 0, on["firstColumn"] and first
        conditions = (
            ("", True),
            (f"band{(column - on['firstColumn']) % 2 + 1}Vert", not without["noVBand"] and not side),
            (f"band{(row - on['firstRow']) % 2 + 1}Horz", not without["noHBand"] and not head),
            ("firstCol", side),
            ("lastCol", on["lastColumn"] and last),
            ("firstRow", head),
            ("lastRow", on["lastRow"] and row == self._rows - 1 and row > 0),
        )
        return [name for name, holds in conditions if holds]


def _is_set(look: etree._Element, name: str, bit: int) -> bool:
    own = attribute(look, name)
    if own is not None:
        return own in TRUE
    try:
        return bool(int(attribute(look, "val") or "0", 16) & bit)
    except ValueError:
        return False


def _cells(row: etree._Element) -> list[tuple[etree._Element, int]]:
    """Return the cells of a row with the number of columns of each."""
    found: list[tuple[etree._Element, int]] = []
    for node, _ in elements_within(row, "tc", _ROW_WRAPPERS):
        merged = named_child(node, "tcPr", "hMerge")
        if merged is not None and attribute(merged, "val") != "restart" and found:
            found[-1] = (found[-1][0], min(found[-1][1] + 1, _WIDEST))
        else:
            found.append((node, count_of(value_of(node, "tcPr", "gridSpan"), _WIDEST)))
    return found[:_WIDEST]


def _spans_down(rows: list[list[tuple[etree._Element, int]]]) -> dict[tuple[int, int], int]:
    """Return the number of rows of each cell that extends over more than one; 0 for those it covers."""
    found: dict[tuple[int, int], int] = {}
    above: dict[int, tuple[int, int]] = {}  # column → the cell that extends down there
    for nth, cells in enumerate(rows):
        column = 0
        going: dict[int, tuple[int, int]] = {}
        for cell, wide in cells:
            merged = named_child(cell, "tcPr", "vMerge")
            if merged is not None:
                if attribute(merged, "val") == "restart" or column not in above:
                    going[column] = (nth, column)
                else:
                    going[column] = above[column]
                    found[above[column]] = found.get(above[column], 1) + 1
                    found[nth, column] = 0
            column += wide
        above = going
    return found
