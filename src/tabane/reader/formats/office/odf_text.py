"""Text of OpenDocument files: paragraphs, headings, lists, tables and frames, without what nobody sees."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from lxml import etree
from lxml.html import HtmlElement

from tabane.reader.formats.office.docx_numbering import formatted
from tabane.reader.formats.office.drawing_colors import local, number
from tabane.reader.formats.office.odf_styles import OpenStyles, filled, of_wide_letters, points
from tabane.reader.formats.office.package import OfficePackage, attribute, named_child
from tabane.reader.formats.office.page_tree import (
    ContentBudget,
    Span,
    add_text,
    child,
    element,
    fill,
    is_blank,
)
from tabane.reader.formats.office.text_formats import Format, is_hidden, tags_of
from tabane.reader.visibility import WHITE, Color

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
_SHAPES = frozenset({
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
            elif name in _SHAPES:
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
        hidden = place.hidden or off or made.get("line", 12.0) < 2 or _is_hidden_paragraph(node)
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
            elif name in _SHAPES:
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
        level = _heading_level(node, name, names)
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
            elif name in _SHAPES:
                self.frame(each, into, inner)
        if kind == "frame" and not hidden:
            _describe(node, into)
        elif kind != "g":
            self._own_text(node, into, inner)
        self._listing = None

    def _own_text(self, node: etree._Element, into: HtmlElement, place: OpenPlace) -> None:
        """Append the text of a shape that is not a frame."""
        paragraphs = element("div")
        self.blocks(_without_shapes(node), paragraphs, place)
        if len(paragraphs):
            into.append(paragraphs)

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


def _is_hidden_paragraph(node: etree._Element) -> bool:
    """Return whether a field hides the paragraph."""
    return any(local(each) == "hidden-paragraph" and attribute(each, "is-hidden") != "false" for each in node)


def _describe(node: etree._Element, into: HtmlElement) -> None:
    """Append the description of an image."""
    words = named_child(node, "desc")
    text = ((words.text if words is not None else "") or "").strip()
    if text and named_child(node, "image") is not None and named_child(node, "object") is None:
        child(child(into, "p"), "img", alt=text[:1000])


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


def _without_shapes(node: etree._Element) -> etree._Element:
    """Return the paragraphs and lists of a shape alone."""
    made = node.makeelement("text")
    for each in list(node):
        if local(each) in ("p", "list"):
            made.append(each)
    return made


def _copy(node: etree._Element, into: HtmlElement, depth: int) -> None:
    """Copy MathML without its namespace."""
    for each in node if depth < 40 else ():
        name = local(each)
        if name and name not in ("annotation", "annotation-xml"):
            made = child(into, name.lower(), (each.text or "").strip())
            _copy(each, made, depth + 1)


def _heading_level(node: etree._Element, name: str, names: list[str]) -> int | None:
    """Return the level of a heading by its element or by the names of its styles; None for a paragraph."""
    if name == "h":
        return min(max(int(number(attribute(node, "outline-level"), 1)), 1), 6)
    if any(_TITLE.fullmatch(each) for each in names):
        return 1
    found = next((at for each in names if (at := _HEADING.fullmatch(each))), None)
    return min(max(int(found[1]), 1), 6) if found is not None else None
