"""Documents of Word (DOCX) as HTML: paragraphs, headings, lists, tables, notes and text boxes.

What a paragraph shows is kept in its formats; what is hidden in it is left out. Cells of tables have places,
spans, and what the style of the table gives them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lxml import etree
from lxml.html import HtmlElement

from tabane.reader.formats.office import page_tree
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
from tabane.reader.formats.office.package import (
    OfficePackage,
    Relation,
    ThemeColors,
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
from tabane.reader.hidden_text import WHITE, Color, hex_color

_DEEPEST_INLINE = 40  # nested fields, links and insertions
_INSIDE = frozenset(
    {"hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdtContent", "dir", "bdo", "fldSimple"}
)
_CODE_STYLE = re.compile(r"html code|source text|verbatim|inline ?code|^code|コード", re.IGNORECASE)
_ADDRESS = re.compile(r'^\s*HYPERLINK\s+"([^"]{1,2000})"', re.IGNORECASE)
_SYMBOLS = {"f0fc": "✓", "f0fe": "☑", "f0a8": "☐", "f06f": "☐", "f0fb": "✗", "f0e0": "→", "f0b7": "•"}
_SIGNS = {"tab": " ", "noBreakHyphen": "-"}


class TextPlace(NamedTuple):
    """Where text is: its background, None if unknown, the format that its table gives it, and how deep.
    ``hidden``: everything there is.
    """

    ground: Color | None = WHITE
    table: Format = {}
    depth: int = 0
    hidden: bool = False


class ParagraphFormat(NamedTuple):
    """What a paragraph gives its runs: format of its style, and background. ``hidden``: nobody sees it."""

    place: TextPlace
    style: Format
    ground: Color | None
    hidden: bool


@dataclass(slots=True)
class _ComplexField:
    """A field whose code is read before what it shows. ``link`` is its address."""

    code: list[str] = field(default_factory=list)
    shows: bool = False
    link: str | None = None


@dataclass(slots=True)
class ParagraphContent:
    """The spans of a paragraph, and the drawings in it, which come after it."""

    spans: list[Span] = field(default_factory=list)
    drawings: list[etree._Element] = field(default_factory=list)
    breaks: bool = False


class InlineReader:
    """Reads the content of paragraphs. ``hidden`` counts the parts that nobody sees, ``deep`` those nested
    too deeply, ``order`` has the kinds and ids of the notes that are referred to.
    """

    def __init__(
        self,
        styles: WordStyles,
        theme: ThemeColors,
        relations: Mapping[str, Relation],
        budget: ContentBudget,
    ) -> None:
        self._styles, self._theme, self._budget = styles, theme, budget
        self.relations = relations
        self.hidden = self.deep = 0
        self.order: list[tuple[str, str]] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._fields: list[_ComplexField] = []
        self._unseen = False
        self._formats: dict[tuple[int, int, str], dict[str, Any]] = {}

    def content(self, node: etree._Element, form: ParagraphFormat) -> ParagraphContent:
        """Return the content of a paragraph."""
        found = ParagraphContent()
        self._unseen = False
        self._inside(node, form, found, None, 0)
        # A field whose code does not end in its paragraph is broken: it must not swallow the document.
        self._fields = [each for each in self._fields if each.shows]
        return found

    def _inside(
        self,
        node: etree._Element,
        form: ParagraphFormat,
        found: ParagraphContent,
        link: str | None,
        depth: int,
    ) -> None:
        if depth > _DEEPEST_INLINE:
            self.deep += 1
            return
        for each in node:
            self._budget.take()
            name = local(each)
            if name == "r":
                self._run(each, form, found, link)
            elif name in ("oMath", "oMathPara"):
                self._formula(each, form, found, shown=name == "oMathPara")
            elif (inner := self._container(each, name)) is not None:
                self._inside(inner, form, found, self._link(each, name) or link, depth + 1)

    def _container(self, node: etree._Element, name: str) -> etree._Element | None:
        """Return what contains the runs of an element."""
        if name in _INSIDE:
            return node
        if name == "sdt":
            return named_child(node, "sdtContent")
        return alternative(node) if name == "AlternateContent" else None

    def _link(self, node: etree._Element, name: str) -> str | None:
        """Return the address of a link."""
        if name == "hyperlink":
            relation = self.relations.get(attribute(node, "id") or "")
            return relation.target if relation is not None and relation.external else None
        if name == "fldSimple" and (address := _ADDRESS.match(attribute(node, "instr") or "")):
            return address[1]
        return None

    def _run(
        self, run: etree._Element, form: ParagraphFormat, found: ParagraphContent, link: str | None
    ) -> None:
        properties = named_child(run, "rPr")
        own = run_format(properties, self._theme) if properties is not None else {}
        made = self._format(own, form)
        hidden = form.hidden or is_hidden(made, form.ground)
        tags = tags_of(made)
        for each in run:
            self._budget.take()
            name = local(each)
            if name in ("t", "delText"):
                if name == "t" and each.text:
                    self._text(each.text, made, found, hidden, tags, link)
            elif name == "fldChar":
                # The marks of a field: its begin, the end of its code, its end.
                kind = attribute(each, "fldCharType")
                if kind == "begin" and len(self._fields) < _DEEPEST_INLINE:
                    self._fields.append(_ComplexField())
                elif kind == "separate" and self._fields:
                    at = self._fields[-1]
                    at.shows = True
                    address = _ADDRESS.match("".join(at.code))
                    at.link = address[1] if address else None
                elif kind == "end" and self._fields:
                    self._fields.pop()
            elif name == "instrText":
                if self._fields and not self._fields[-1].shows and len(self._fields[-1].code) < 50:
                    self._fields[-1].code.append(each.text or "")
            elif not hidden:
                self._object(each, name, found, tags, link)

    def _format(self, own: dict[str, Any], form: ParagraphFormat) -> dict[str, Any]:
        """Return the format of a run; the part of its styles is made once."""
        style = own.get("style") or ""
        key = (id(form.style), id(form.place.table), style)
        base = self._formats.get(key)
        if base is None:
            character = self._styles.style(style) if style else None
            # A paragraph that is bold as a whole is not emphasis.
            styles = [_without_emphasis(form.place.table), _without_emphasis(form.style)]
            if character is not None:
                run = dict(character.run)
                if _CODE_STYLE.search(character.name):
                    run["code"] = True
                styles.append(run)
            base = combined(_without_emphasis(self._styles.defaults), tuple(styles), {})
            self._formats[key] = base
        return {**base, **own} if own else base

    def _text(
        self,
        text: str,
        made: Format,
        found: ParagraphContent,
        hidden: bool,
        tags: tuple[str, ...],
        link: str | None,
    ) -> None:
        if any(not each.shows for each in self._fields):
            return  # within the code of a field
        if made.get("web_hidden"):
            hidden = hidden or any(char.isalpha() for char in text)
            if not hidden:
                return  # numbers of pages in a table of contents
        if hidden:
            if text.strip():
                self.hidden += not self._unseen
                self._unseen = True
            return
        self._unseen = False
        self._budget.take(0, len(text))
        link = link or next((each.link for each in reversed(self._fields) if each.link), None)
        found.spans.append(Span(text, tags, link))

    def _object(
        self,
        node: etree._Element,
        name: str,
        found: ParagraphContent,
        tags: tuple[str, ...],
        link: str | None,
    ) -> None:
        if name in _SIGNS:
            found.spans.append(Span(_SIGNS[name], tags, link))
        elif name in ("br", "cr"):
            page = attribute(node, "type") in ("page", "column")
            found.spans.append(Span(" ") if page else Span("", (), None, element("br")))
        elif name == "sym":
            sign = _SYMBOLS.get((attribute(node, "char") or "").lower(), "")
            found.spans.append(Span(sign, tags, link))
        elif name in ("footnoteReference", "endnoteReference"):
            key = (name.removesuffix("Reference"), attribute(node, "id") or "")
            if key not in self._numbers:
                self.order.append(key)
                self._numbers[key] = len(self.order)
            nth = self._numbers[key]
            mark = element("sup")
            child(mark, "a", str(nth), href=f"#note-{nth}")
            found.spans.append(Span("", (), None, mark))
        elif name in ("drawing", "pict", "object"):
            found.drawings.append(node)
        elif name == "AlternateContent":
            chosen = alternative(node)
            for each in chosen if chosen is not None else ():
                if local(each) != "AlternateContent":
                    self._object(each, local(each), found, tags, link)
        elif name == "ruby":
            self._ruby(node, found, tags)

    def _ruby(self, node: etree._Element, found: ParagraphContent, tags: tuple[str, ...]) -> None:
        base, reading = (
            "".join(
                text.text or ""
                for part in node if local(part) == name
                for text in part.iter("{*}t")
            )
            for name in ("rubyBase", "rt")
        )  # fmt: skip
        made = element("ruby", base[:200])
        child(made, "rt", reading[:200])
        found.spans.append(Span("", tags, None, made))

    def _formula(
        self, node: etree._Element, form: ParagraphFormat, found: ParagraphContent, *, shown: bool
    ) -> None:
        if form.hidden:
            return
        parts = [each for each in node if local(each) == "oMath"] if shown else [node]
        for part in parts:
            math = page_tree.formula(part, shown=shown)
            if math is not None:
                self._budget.take(len(math) + 1)
                found.spans.append(Span("", (), None, math))


def alternative(node: etree._Element) -> etree._Element | None:
    """Return the content that Office shows of several: the first choice, else the fallback."""
    choice = named_child(node, "Choice")
    return choice if choice is not None else named_child(node, "Fallback")


def paragraph_ground(place: TextPlace, *shades: Color | None) -> Color | None:
    """Return the background of a paragraph: the first shading that there is."""
    return next((shade for shade in shades if shade is not None), place.ground)


def _without_emphasis(made: Format) -> Format:
    return {name: value for name, value in made.items() if name not in ("bold", "italic")}


_CHARACTERS = 4_000_000
_ELEMENTS = 1_200_000
_DEEP = 6  # tables and text boxes within each other
_PAGE = (11906.0, 16838.0)  # twips: A4
_EMU = 635  # of DrawingML, in a twip
_BLOCKS = frozenset({"ins", "moveTo", "customXml", "smartTag", "sdtContent"})
_LIST_STYLE = re.compile(r"(?:list (?:bullet|number)|箇条書き|段落番号) ?([2-5])", re.IGNORECASE)
_HIDDEN_SHAPE = re.compile(r"visibility\s*:\s*hidden|display\s*:\s*none", re.IGNORECASE)
_PLACE = re.compile(r"(?:^|;)\s*(margin-left|margin-top|left|top)\s*:\s*(-?[\d.]{1,12})(pt|in|px|cm|mm)?")
_POINTS = {"pt": 20.0, "in": 1440.0, "px": 15.0, "cm": 567.0, "mm": 56.7, "": 15.0}  # twips


def read_docx(package: OfficePackage) -> OfficeContent:
    """Return the document. Raises ReadError, ``broken``."""
    return WordDocument(package).content()


class _Flow:
    """Blocks that are being written into an element: lists, listings and quotations collect paragraphs."""

    def __init__(self, parent: HtmlElement) -> None:
        self.parent = parent
        self._lists: list[tuple[int, HtmlElement, HtmlElement]] = []
        self._listing: HtmlElement | None = None
        self._quotation: HtmlElement | None = None

    def block(self) -> HtmlElement:
        """Return where a block goes that belongs to nothing before it."""
        self._lists.clear()
        self._listing = self._quotation = None
        return self.parent

    def quotation(self) -> HtmlElement:
        if self._quotation is None:
            self._quotation = child(self.block(), "blockquote")
        return self._quotation

    def line_of_code(self, text: str) -> None:
        if self._listing is None:
            self._listing = child(self.block(), "pre")
            self._listing.text = text
        else:
            add_text(self._listing, "\n" + text)

    def item(self, number: ListNumber) -> HtmlElement:
        """Return a new item of the list, in those of the levels above."""
        self._listing = self._quotation = None
        tag = "ol" if number.plain else "ul"
        while self._lists and self._lists[-1][0] > number.level:
            self._lists.pop()
        if self._lists and self._lists[-1][0] == number.level:
            if self._lists[-1][1].tag == tag:
                return self._add(number, self._lists.pop()[1])
            self._lists.pop()
        parent = self._lists[-1][2] if self._lists else self.parent
        return self._add(number, child(parent, tag))

    def _add(self, number: ListNumber, into: HtmlElement) -> HtmlElement:
        made = child(into, "li", **({"value": str(number.value)} if number.plain else {}))
        self._lists.append((number.level, into, made))
        return made


class WordDocument:
    """A document as it is read once."""

    def __init__(self, package: OfficePackage) -> None:
        self._package = package
        self._main = package.main("word/document.xml")
        relations = package.relations(self._main)

        def part(kind: str) -> etree._Element | None:
            return package.part(package.first(relations, kind) or f"word/{kind}.xml")

        settings = part("settings")
        theme = ThemeColors(package.part(package.first(relations, "theme") or "word/theme/theme1.xml"))
        mapping = named_child(settings, "clrSchemeMapping")
        long = {"light1": "lt1", "dark1": "dk1", "light2": "lt2", "dark2": "dk2"}
        found: dict[str, str] = {}
        for key in ("bg1", "t1", "bg2", "t2") if mapping is not None else ():
            value = attribute(mapping, key) if mapping is not None else None
            if value:
                found["tx" + key[1] if key.startswith("t") else key] = long.get(value, value)
        self._theme = theme.with_names(found)
        self._styles = WordStyles(part("styles"), self._theme)
        self._numbering = Numbering(part("numbering"))
        self._notes = {kind: part(kind + "s") for kind in ("footnote", "endnote")}
        self._budget = ContentBudget(_CHARACTERS, _ELEMENTS, package.seconds)
        self._inline = InlineReader(self._styles, self._theme, relations, self._budget)
        self._settings = settings
        self._page = _PAGE

    def content(self) -> OfficeContent:
        """Return what the document shows."""
        root = self._package.root(self._main)
        body = named_child(root, "body")
        whole = element("div")
        cut = False
        try:
            if body is not None:
                self._page = _page(body)
                self._blocks(body, _Flow(whole), TextPlace(self._ground(root)))
        except DocumentFull:
            cut = True
        try:
            self._add_notes(whole)
        except DocumentFull:
            cut = True
        inline = self._inline
        return OfficeContent(whole, inline.hidden, inline.deep, cut or self._package.cut)

    def _ground(self, root: etree._Element) -> Color:
        """Return the color of the page, if the document shows it."""
        ground = named_child(root, "background")
        shown = named_child(self._settings, "displayBackgroundShape")
        if ground is None or shown is None or attribute(shown, "val") in ("0", "false", "off"):
            return WHITE
        named = self._theme.named(attribute(ground, "themeColor") or "")
        return named or hex_color(attribute(ground, "color")) or WHITE

    def _blocks(self, container: etree._Element, flow: _Flow, place: TextPlace, depth: int = 0) -> None:
        if depth > 40:
            self._inline.deep += 1
            return
        for node in container:
            self._budget.take()
            name = local(node)
            if name == "p":
                self._paragraph(node, flow, place)
            elif name == "tbl":
                self._table(node, flow, place)
            elif name == "oMathPara":
                self._paragraph(container.makeelement(node.tag), flow, place, node)
            elif (inner := _content(node, name)) is not None:
                self._blocks(inner, flow, place, depth + 1)

    def _paragraph(
        self, node: etree._Element, flow: _Flow, place: TextPlace, formula: etree._Element | None = None
    ) -> None:
        own = paragraph_format(named_child(node, "pPr"), self._theme)
        style = self._styles.style(own.get("style") or self._styles.usual("paragraph"))
        made: dict[str, Any] = {**style.paragraph, **own}
        ground = paragraph_ground(place, own.get("shade"), style.paragraph.get("shade"))
        hidden = place.hidden or self._is_off_page(made)
        form = ParagraphFormat(place, style.run, ground, hidden)
        content = self._inline.content(node if formula is None else _around(formula), form)
        number = self._number(own, style, is_empty=is_blank(content.spans))
        if not is_blank(content.spans):
            spans = content.spans
            outline = made.get("outline")
            level = style.level or (min(outline + 1, 6) if outline is not None and outline < 9 else None)
            if level is not None:
                label = [Span(f"{number.label} ")] if number is not None and number.label else []
                fill(child(flow.block(), f"h{level}"), [*label, *_unmarked(spans)])
            elif style.is_code or _is_code(spans):
                flow.line_of_code("".join(_plain(span) for span in spans))
            elif number is not None:
                label = [Span(f"{number.label} ")] if number.label and not number.plain else []
                fill(flow.item(number), [*label, *spans])
            elif style.is_quotation:
                fill(child(flow.quotation(), "p"), spans)
            else:
                fill(child(flow.block(), "p"), spans)
        for drawing in content.drawings:
            self._drawing(drawing, flow, place._replace(hidden=hidden))

    def _number(self, own: dict[str, Any], style: WordStyle, *, is_empty: bool) -> ListNumber | None:
        """Count the item; an empty paragraph is shown with its number, but it says nothing."""
        ids = own.get("numbering", (None, None)), style.paragraph.get("numbering", (None, None))
        name = ids[0][0] if ids[0][0] is not None else ids[1][0]
        if name is None or name == "0":
            return None
        level = ids[0][1] if ids[0][1] is not None else ids[1][1]
        number = self._numbering.next(name, level or 0) if not is_empty else None
        deeper = _LIST_STYLE.fullmatch(style.name.strip())
        if number is not None and deeper is not None:
            return number._replace(level=max(number.level, int(deeper[1]) - 1))
        return number

    def _is_off_page(self, made: dict[str, Any]) -> bool:
        """Return whether a paragraph is outside the page, or its lines have no height."""
        wide, high = self._page
        if abs(made.get("left", 0.0)) > wide or made.get("line", 240.0) < 40:
            return True
        if (frame := made.get("frame")) is None:
            return False
        left, top, flat = frame
        return bool(flat or abs(left) > wide or abs(top) > high)

    def _table(self, node: etree._Element, flow: _Flow, place: TextPlace) -> None:
        if place.depth >= _DEEP:
            self._inline.deep += 1
            return
        properties = named_child(node, "tblPr")
        named = named_child(properties, "tblStyle")
        style = self._styles.style(
            attribute(named, "val") if named is not None else self._styles.usual("table")
        )
        rows = [row for row in _rows(node) if not is_deleted_row(row)]
        formats = CellFormats(style, properties, len(rows))
        own_ground = shading(named_child(properties, "shd"), self._theme)
        if own_ground is not None:
            place = place._replace(ground=own_ground)
        table = child(flow.block(), "table", role="table")
        heads = [named_child(named_child(row, "trPr"), "tblHeader") is not None for row in rows]
        count = next((nth for nth, head in enumerate(heads) if not head), len(heads))
        spans = spans_down(rows)
        head = child(table, "thead") if 0 < count < len(rows) else None
        for nth, row in enumerate(rows):
            self._budget.take()
            into = child(table if head is None or nth >= count else head, "tr")
            flat = _is_flat(row)
            column = 0
            cells = columns_of(row)
            for at, (cell, wide) in enumerate(cells):
                self._budget.take(8)  # a table costs more to write
                first, last = at == 0, at == len(cells) - 1
                inner = formats.place(place, nth, column, first=first, last=last)
                shade = shading(named_child(named_child(cell, "tcPr"), "shd"), self._theme)
                if shade is not None:
                    inner = inner._replace(ground=shade)
                high = spans.get((nth, column), 1)
                # A cell that goes on from the row above shows nothing of its own.
                inner = inner._replace(hidden=inner.hidden or flat or high == 0, depth=place.depth + 1)
                if high == 0:
                    self._blocks(cell, _Flow(element("div")), inner)
                else:
                    made = child(into, "td", **_spans(wide, high))
                    self._blocks(cell, _Flow(made), inner)
                column += wide

    def _drawing(self, node: etree._Element, flow: _Flow, place: TextPlace) -> None:
        """Write the alternative text of an image, the text of boxes, and the data of charts."""
        if place.depth >= _DEEP:
            self._inline.deep += 1
            return
        box = next((each for each in node if local(each) in ("inline", "anchor")), None)
        hidden = place.hidden or (box is not None and self._is_hidden_box(box))
        about = named_child(box, "docPr")
        words = attribute(about, "descr") if about is not None else None
        if words and words.strip() and not hidden and not _is_decorative(box):
            paragraph = child(flow.block(), "p")
            child(paragraph, "img", alt=words[:1000])
        for shape in _shapes(node):
            self._budget.take()
            name = local(shape)
            if name == "chart":
                relation = self._inline.relations.get(attribute(shape, "id") or "")
                part = self._package.part(relation.target) if relation is not None and not hidden else None
                if part is not None:
                    page_tree.add(part, flow.block())
            else:
                self._box(shape, flow, place._replace(hidden=hidden))

    def _box(self, content: etree._Element, flow: _Flow, place: TextPlace) -> None:
        """Write a text box: its background is that of its shape."""
        shape = content.getparent()
        shape = shape.getparent() if shape is not None and local(shape) in ("txbx", "textbox") else shape
        hidden, ground = place.hidden, place.ground
        if shape is not None:
            properties = named_child(shape, "spPr")
            paint = self._theme.fill(properties)
            style = attribute(shape, "style") or ""
            hidden = hidden or bool(_HIDDEN_SHAPE.search(style)) or self._is_off(style)
            if paint is not None:
                ground = ground if paint.opacity < 0.5 else paint.color
            elif (reference := named_child(named_child(shape, "style"), "fillRef")) is not None:
                ground = self._theme.paint(reference).color if attribute(reference, "idx") != "0" else ground
            elif attribute(shape, "filled") not in ("f", "false") and (
                fill_ := attribute(shape, "fillcolor")
            ):
                ground = hex_color(fill_.split(" ")[0]) or self._theme.paint(_named_color(fill_)).color
        into = child(flow.block(), "div")
        self._blocks(content, _Flow(into), TextPlace(ground, {}, place.depth + 1, hidden))

    def _is_hidden_box(self, box: etree._Element) -> bool:
        about = named_child(box, "docPr")
        if about is not None and attribute(about, "hidden") in ("1", "true", "on"):
            return True
        if attribute(box, "hidden") in ("1", "true", "on"):
            return True
        extent = named_child(box, "extent")
        if (
            extent is not None
            and min(number(attribute(extent, "cx"), 1e6), number(attribute(extent, "cy"), 1e6)) < 2 * 12_700
        ):
            return True
        limits = zip(("positionH", "positionV"), self._page, strict=True)
        for name, limit in limits:
            offset = named_child(named_child(box, name), "posOffset")
            if offset is not None and abs(number(offset.text)) / _EMU > limit:
                return True
        return False

    def _is_off(self, style: str) -> bool:
        for name, value, unit in _PLACE.findall(style[:2000]):
            limit = self._page[0 if "left" in name else 1]
            if abs(number(value)) * _POINTS[unit] > limit:
                return True
        return False

    def _add_notes(self, whole: HtmlElement) -> None:
        """Append the notes that the text refers to, those that notes refer to included."""
        sources = {
            (kind, attribute(note, "id") or ""): note
            for kind, part in self._notes.items()
            for note in (part if part is not None else ())
        }
        section: HtmlElement | None = None
        relations = self._inline.relations
        for nth, (kind, name) in enumerate(self._inline.order, 1):  # grows meanwhile
            if (note := sources.get((kind, name))) is None:
                continue
            if section is None:
                section = child(child(whole, "section", **{"class": "footnotes"}), "ol")
            self._inline.relations = self._package.relations(f"word/{kind}s.xml")
            self._blocks(note, _Flow(child(section, "li", id=f"note-{nth}")), TextPlace())
        self._inline.relations = relations


def _content(node: etree._Element, name: str) -> etree._Element | None:
    """Return the element with the blocks of one that only wraps them."""
    if name == "sdt":
        return named_child(node, "sdtContent")
    if name == "AlternateContent":
        return alternative(node)
    return node if name in _BLOCKS else None


def _page(body: etree._Element) -> tuple[float, float]:
    """Return the width and height of a page, at least those of A4."""
    size = named_child(named_child(body, "sectPr"), "pgSz")
    if size is None:
        return _PAGE
    return max(number(attribute(size, "w")), _PAGE[0]), max(number(attribute(size, "h")), _PAGE[1])


def _around(formula: etree._Element) -> etree._Element:
    """Return a paragraph with a formula that has none around it."""
    made = formula.makeelement("p")
    made.append(formula)
    return made


def _unmarked(spans: list[Span]) -> list[Span]:
    """Return the spans of a heading: it is bold anyway."""
    return [span._replace(tags=tuple(tag for tag in span.tags if tag != "strong")) for span in spans]


def _plain(span: Span) -> str:
    if span.element is None:
        return span.text
    return "\n" if span.element.tag == "br" else "".join(str(text) for text in span.element.itertext())


def _is_code(spans: list[Span]) -> bool:
    return all(span.tags == ("code",) for span in spans if span.text.strip()) and not any(
        span.link or (span.element is not None and span.element.tag != "br") for span in spans
    )


def _rows(table: etree._Element) -> list[etree._Element]:
    """Return the rows of a table, also those within insertions and controls."""
    found: list[etree._Element] = []
    waiting = list(reversed(table))
    while waiting:
        node = waiting.pop()
        name = local(node)
        if name == "tr":
            found.append(node)
        elif name in ("sdt", "sdtContent", "ins", "moveTo", "customXml"):
            waiting.extend(reversed(node))
    return found


def _is_flat(row: etree._Element) -> bool:
    """Return whether a row has no height."""
    height = named_child(named_child(row, "trPr"), "trHeight")
    if height is None or attribute(height, "hRule") != "exact":
        return False
    return number(attribute(height, "val"), 240) < 40


def _spans(wide: int, high: int) -> dict[str, str]:
    found = {"colspan": str(wide)} if wide > 1 else {}
    return {**found, "rowspan": str(high)} if high > 1 else found


def _is_decorative(box: etree._Element | None) -> bool:
    return box is not None and any(
        attribute(mark, "val") in ("1", "true") for mark in box.iter("{*}decorative")
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


def _named_color(name: str) -> etree._Element:
    """Return a color of DrawingML for one that VML names."""
    holder = etree.Element("fill")
    etree.SubElement(holder, "prstClr", val=name.split(" ")[0])
    return holder


_WIDEST = 100  # columns
_FLAGS = {"firstRow": 0x20, "lastRow": 0x40, "firstColumn": 0x80, "lastColumn": 0x100}
_NO_BANDS = {"noHBand": 0x200, "noVBand": 0x400}


class CellFormats:
    """What the style of a table gives its cells by their places."""

    def __init__(self, style: WordStyle, properties: etree._Element | None, rows: int) -> None:
        self._cells, self._rows = style.cells, rows
        self._run = style.run
        look = named_child(properties, "tblLook")
        self._on = {name: look is None or _is_set(look, name, bit) for name, bit in _FLAGS.items()}
        self._without = {
            name: look is not None and _is_set(look, name, bit) for name, bit in _NO_BANDS.items()
        }
        self._made: dict[tuple[str, ...], dict[str, Any]] = {}

    def place(self, around: TextPlace, row: int, column: int, *, first: bool, last: bool) -> TextPlace:
        """Return where the text of a cell is: its background and format by the style of the table."""
        if not self._cells:
            return around
        conditions = tuple(
            name for name in self._conditions(row, column, first=first, last=last) if name in self._cells
        )
        run = self._made.get(conditions)
        if run is None:
            run = dict(self._run)
            for name in conditions:
                run.update(self._cells[name][0])
            self._made[conditions] = run
        shades = [self._cells[name][1] for name in conditions]
        ground = next((shade for shade in reversed(shades) if shade is not None), around.ground)
        return around._replace(ground=ground, table=run)

    def _conditions(self, row: int, column: int, *, first: bool, last: bool) -> list[str]:
        """Return the conditions that hold for a cell, the strongest last."""
        found = [""]
        head = self._on["firstRow"] and row == 0
        side = self._on["firstColumn"] and first
        if not self._without["noVBand"] and not side:
            found.append(f"band{(column - self._on['firstColumn']) % 2 + 1}Vert")
        if not self._without["noHBand"] and not head:
            found.append(f"band{(row - self._on['firstRow']) % 2 + 1}Horz")
        if side:
            found.append("firstCol")
        if self._on["lastColumn"] and last:
            found.append("lastCol")
        if head:
            found.append("firstRow")
        if self._on["lastRow"] and row == self._rows - 1 and row > 0:
            found.append("lastRow")
        return found


def _is_set(look: etree._Element, name: str, bit: int) -> bool:
    said = attribute(look, name)
    if said is not None:
        return said in ("1", "true", "on")
    try:
        return bool(int(attribute(look, "val") or "0", 16) & bit)
    except ValueError:
        return False


def columns_of(row: etree._Element) -> list[tuple[etree._Element, int]]:
    """Return the cells of a row with the number of columns of each."""
    found: list[tuple[etree._Element, int]] = []
    waiting = list(reversed(row))
    while waiting:
        node = waiting.pop()
        name = local(node)
        if name == "tc":
            properties = named_child(node, "tcPr")
            merged = named_child(properties, "hMerge")
            if merged is not None and attribute(merged, "val") != "restart" and found:
                found[-1] = (found[-1][0], min(found[-1][1] + 1, _WIDEST))
                continue
            span = named_child(properties, "gridSpan")
            wide = int(number(attribute(span, "val"), 1)) if span is not None else 1
            found.append((node, min(max(wide, 1), _WIDEST)))
        elif name in ("sdt", "sdtContent", "ins", "moveTo", "customXml"):
            waiting.extend(reversed(node))
    return found[:_WIDEST]


def spans_down(rows: list[etree._Element]) -> dict[tuple[int, int], int]:
    """Return the number of rows of each cell that extends over more than one; 0 for those it covers."""
    found: dict[tuple[int, int], int] = {}
    above: dict[int, tuple[int, int]] = {}  # column → the cell that extends down there
    for nth, row in enumerate(rows):
        column = 0
        going: dict[int, tuple[int, int]] = {}
        for cell, wide in columns_of(row):
            merged = named_child(named_child(cell, "tcPr"), "vMerge")
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


def is_deleted_row(row: etree._Element) -> bool:
    """Return whether a tracked change deletes the row."""
    return named_child(named_child(row, "trPr"), "del") is not None
