"""The writer of office documents: their blocks as a tree of HTML, before it becomes Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree
from lxml.html import HtmlElement, HTMLParser

from tabane.messages import Message
from tabane.reader.formats.data_files import CellRange, Cells, sheet_text
from tabane.reader.formats.office.model import Look, Reading, Span
from tabane.reader.formats.office.package import attribute, local, named_child, number
from tabane.reader.markdown import markdown

_MAKER = HTMLParser()


def element(tag: str, text: str = "", **attributes: str) -> HtmlElement:
    """Return a new element of HTML."""
    made: HtmlElement = _MAKER.makeelement(tag, attributes)
    if text:
        made.text = text
    return made


def child(parent: HtmlElement, tag: str, text: str = "", **attributes: str) -> HtmlElement:
    """Append a new element and return it."""
    made: HtmlElement = etree.SubElement(parent, tag, attributes)
    if text:
        made.text = text
    return made


def add_text(parent: HtmlElement, text: str) -> None:
    """Append text to what is in an element."""
    if len(parent):
        last = parent[-1]
        last.tail = (last.tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def fill(parent: HtmlElement, spans: Iterable[Span]) -> None:
    """Append spans of text. Neighbors in the same format become one, so that no marks meet between them."""
    for link, inside in _linked(spans):
        place = child(parent, "a", href=link) if link else parent
        for tags, pieces in inside:
            at = place
            for tag in tags:
                at = child(at, tag)
            for piece in pieces:
                if isinstance(piece, str):
                    add_text(at, piece)
                else:
                    at.append(piece)


def tags_of(look: Look) -> tuple[str, ...]:
    """Return the elements of HTML for a look."""
    if look.get("code"):
        return ("code",)
    tags = [tag for name, tag in (("bold", "strong"), ("italic", "em"), ("strike", "del")) if look.get(name)]
    if align := look.get("align"):
        tags.append(align)
    return tuple(tags)


def without_bold(spans: list[Span]) -> list[Span]:
    """Return the spans of a heading: it is bold anyway."""
    return [span._replace(tags=tuple(tag for tag in span.tags if tag != "strong")) for span in spans]


def note_mark(reading: Reading, key: tuple[str, str]) -> HtmlElement:
    """Return the mark of a note with its number."""
    number_ = reading.note_number(key)
    mark = element("sup")
    child(mark, "a", str(number_), href=f"#note-{number_}")
    return mark


def ruby(base: str, reading: str) -> HtmlElement:
    """Return a text with its reading above it."""
    written = element("ruby", base[:200])
    child(written, "rt", reading[:200])
    return written


class BlockWriter:
    """Writes blocks into an element: lists, listings and quotations collect paragraphs."""

    def __init__(self, parent: HtmlElement) -> None:
        self.parent = parent
        self._lists: list[tuple[int, HtmlElement, HtmlElement]] = []
        self._listing: HtmlElement | None = None
        self._quotation: HtmlElement | None = None

    def block(self, tag: str, **attributes: str) -> HtmlElement:
        """Append an element that belongs to nothing before it."""
        self.end()
        return child(self.parent, tag, **attributes)

    def end(self) -> None:
        """End the list, listing or quotation."""
        self._lists.clear()
        self._listing = self._quotation = None

    def paragraph(self, spans: Iterable[Span]) -> None:
        fill(self.block("p"), spans)

    def heading(self, level: int, spans: Iterable[Span]) -> None:
        fill(self.block(f"h{level}"), spans)

    def quoted(self, spans: Iterable[Span]) -> None:
        """Append a paragraph to the quotation."""
        if self._quotation is None:
            self._quotation = self.block("blockquote")
        fill(child(self._quotation, "p"), spans)

    def code(self, spans: Iterable[Span]) -> None:
        """Append lines to the listing."""
        text = "".join(_plain(span) for span in spans)
        if self._listing is None:
            self._listing = self.block("pre")
            self._listing.text = text
        else:
            add_text(self._listing, "\n" + text)

    def item(self, level: int, spans: Iterable[Span], value: int | None = None) -> None:
        """Append an item to the list of its level; ``value`` is its number."""
        self._listing = self._quotation = None
        tag = "ul" if value is None else "ol"
        while self._lists and self._lists[-1][0] > level:
            self._lists.pop()
        parent: HtmlElement | None = None
        if self._lists and self._lists[-1][0] == level:
            _, same, _ = self._lists.pop()
            parent = same if same.tag == tag else None
        if parent is None:
            parent = child(self._lists[-1][2] if self._lists else self.parent, tag)
        made = child(parent, "li", **({} if value is None else {"value": str(value)}))
        self._lists.append((level, parent, made))
        fill(made, spans)

    def image(self, words: str | None) -> None:
        """Append an image by its alternative text, if it has one."""
        if words and words.strip():
            child(self.block("p"), "img", alt=words[:1000])

    def append(self, block: HtmlElement) -> None:
        """Append an element that is written already."""
        self.end()
        self.parent.append(block)

    def table(self) -> TableWriter:
        """Append a table."""
        return TableWriter(self.block("table", role="table"))


class NoteWriter:
    """Writes notes at the end of a document."""

    def __init__(self, whole: HtmlElement) -> None:
        self._whole = whole
        self._section: HtmlElement | None = None

    def note(self, nth: int) -> BlockWriter:
        """Append the note of this number."""
        if self._section is None:
            self._section = child(child(self._whole, "section", **{"class": "footnotes"}), "ol")
        return BlockWriter(child(self._section, "li", id=f"note-{nth}"))


class SheetWriter:
    """Writes the sheets of a workbook as Markdown: their tables are bounded, and have no blocks in them."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.warnings: list[Message] = []

    @property
    def markdown(self) -> str:
        """Return what was written."""
        return "\n\n".join(part for part in self._parts if part)

    def add(self, name: str, cells: Cells, merged: Iterable[CellRange], rows_left: int = 0) -> None:
        """Append a sheet; ``rows_left`` is how many rows there are below those given."""
        sheet = sheet_text(name, cells, merged, rows_left)
        self._parts.append(sheet.markdown)
        self.warnings += sheet.warnings

    def add_chart(self, part: etree._Element | None) -> None:
        """Append the data of a chart."""
        holder = element("div")
        write_chart(part, BlockWriter(holder))
        self._parts.append(markdown([holder], ""))


def title_of_slide(nth: int, spans: list[Span], writer: BlockWriter) -> None:
    """Append the number of a slide and its title as a heading."""
    title = [span for span in without_bold(spans) if span.element is None or span.element.tag != "br"]
    writer.heading(2, [Span(f"{nth}. "), *title] if title else [Span(f"{nth}.")])


class TableWriter:
    """Writes the rows of a table; those of its head come first."""

    def __init__(self, table: HtmlElement) -> None:
        self._table = table
        self._head: HtmlElement | None = None
        self._row = table

    def row(self, *, head: bool = False) -> None:
        """Begin a row."""
        if head and self._head is None:
            self._head = child(self._table, "thead")
        self._row = child(self._head if head and self._head is not None else self._table, "tr")

    def cell(self, wide: int = 1, high: int = 1, *, covered: bool = False) -> HtmlElement:
        """Append a cell to the row and return it; one that another covers is read, but not written."""
        if covered:
            return element("td")
        spans = (("colspan", wide), ("rowspan", high))
        return child(self._row, "td", **{name: str(count) for name, count in spans if count > 1})


def _plain(span: Span) -> str:
    if span.element is None:
        return span.text
    return "\n" if span.element.tag == "br" else "".join(str(text) for text in span.element.itertext())


_Pieces = list["str | HtmlElement"]
_Formats = list[tuple[tuple[str, ...], _Pieces]]


def _linked(spans: Iterable[Span]) -> list[tuple[str | None, _Formats]]:
    """Group spans by their link, and those of a link by their format."""
    groups: list[tuple[str | None, _Formats]] = []
    texts: list[str] = []

    def end() -> None:
        if texts:
            groups[-1][1][-1][1].append("".join(texts))
            texts.clear()

    for span in spans:
        if not groups or groups[-1][0] != span.link:
            end()
            groups.append((span.link, []))
        formats = groups[-1][1]
        if not formats or formats[-1][0] != span.tags:
            end()
            formats.append((span.tags, []))
        if span.element is None:
            texts.append(span.text)
        else:
            end()
            formats[-1][1].append(span.element)
    end()
    return groups


_SERIES = 30
_POINTS = 200
_LONGEST = 300  # characters of a value


def write_chart(part: etree._Element | None, writer: BlockWriter) -> None:
    """Append the title of a chart and its cached data: a row for each category, a column for each series."""
    title = _title(named_child(part, "chart", "title"))
    series = list(part.iter("{*}ser") if part is not None else ())[:_SERIES]
    names = [_title(named_child(each, "tx")) for each in series]
    columns = [_values(named_child(each, "val"), named_child(each, "yVal")) for each in series]
    heads = [_values(named_child(each, "cat"), named_child(each, "xVal")) for each in series]
    first = next((head for head in heads if head), {})
    places = sorted({place for values in [first, *columns] for place in values})[:_POINTS]
    if not places or not any(columns):
        return
    table = writer.block("table")
    if title:
        child(table, "caption", title)
    row = child(child(table, "thead"), "tr")
    for name in ["", *names]:
        child(row, "th", name)
    for place in places:
        row = child(table, "tr")
        for values in [first, *columns]:
            child(row, "td", values.get(place, ""))


def _title(node: etree._Element | None) -> str:
    """Return the text of a title, or the cached one of a cell."""
    if node is None:
        return ""
    parts = [str(each.text or "") for each in node.iter("{*}t", "{*}v")]
    return " ".join("".join(parts).split())[:_LONGEST]


def _values(*holders: etree._Element | None) -> dict[int, str]:
    """Return the cached values of a series by their place."""
    found: dict[int, str] = {}
    for holder in holders:
        for point in holder.iter("{*}pt") if holder is not None else ():
            value = named_child(point, "v")
            if value is not None and value.text and local(point) == "pt" and len(found) < _POINTS:
                found.setdefault(int(number(attribute(point, "idx"))), _value(value.text))
    return found


def _value(text: str) -> str:
    """Return a value; a number without the digits that only binary fractions have."""
    text = " ".join(text.split())[:_LONGEST]
    return f"{float(text):.12g}" if "." in text and number(text, 1e16) != 1e16 else text
