"""Conversion of subtrees into blocks of Markdown: paragraphs, headings, lists, tables, quotations, notes.

Tables of data become tables. Layout tables become the contents of their cells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from lxml.html import HtmlElement

from tabane.reader.markdown import spans
from tabane.reader.markdown.elements import (
    BLOCKS,
    HEADINGS,
    LISTS,
    Admonition,
    address,
    admonition,
    around_several,
    beside_listing,
    classes,
    fenced,
    in_table,
    paragraphs_of,
    text_of,
)
from tabane.reader.markdown.inline import InlineConverter, is_permalink, notes
from tabane.reader.markdown.spans import Piece, joined

Kind = Literal["paragraph", "heading", "list", "code", "table", "quotation", "note", "rule"]


class MarkdownBlock(NamedTuple):
    """A block of Markdown, lines without indentation. ``marker`` is a list's: ``-``, ``*``, ``.``, ``)``."""

    markdown: str
    kind: Kind = "paragraph"
    marker: str = ""


def stacked(blocks: Iterable[MarkdownBlock], *, tight: bool = False) -> str:
    """Join blocks with an empty line between them; ``tight``: without one before a list."""
    parts: list[str] = []
    for block in blocks:
        if parts:
            parts.append("\n" if tight and block.kind == "list" else "\n\n")
        parts.append(block.markdown)
    return "".join(parts)


def indented(text: str, first: str) -> str:
    """Return ``text`` after ``first``, with its other lines indented by the length of ``first``."""
    margin = "\n" + " " * len(first)
    return first + text.replace("\n", margin).replace(margin + "\n", "\n\n") if text else ""


def quoted(text: str) -> str:
    """Return lines of Markdown as a quotation."""
    return "\n".join(f"> {line}" if line else ">" for line in text.split("\n"))


_WRAPPERS = frozenset({"div", "section", "article", "main", "center", "body", "span", "font", "form"})
_DEEP = 60  # nested blocks: deeper ones become paragraphs


class MarkdownConverter:
    """Converts these elements. One walk beforehand finds the blocks, the headings and the footnotes."""

    def __init__(self, elements: Sequence[HtmlElement], base: str, *, links: bool = True) -> None:
        self.notes = notes(elements)
        self._base, self._links = base, links
        self._inline = InlineConverter(base, self.notes, links=links)
        self._mixed = _ancestors_of(elements, BLOCKS)
        self._shared = around_several(elements)
        self._headed = _ancestors_of(elements, HEADINGS.keys())
        self._written: set[HtmlElement] = set()  # titles that were written before what they are in
        self._depth = 0
        self._card: str | None = None  # address of the current card
        self._headline = False  # whether its heading carries the link

    def all(self, elements: Sequence[HtmlElement]) -> list[MarkdownBlock]:
        """Return the blocks that the elements are."""
        blocks: list[MarkdownBlock] = []
        for element in elements:
            extend(blocks, self._flow_blocks("", [element]))
        return blocks

    def blocks(self, element: HtmlElement) -> list[MarkdownBlock]:
        """Return the content of the element as blocks."""
        return self._flow_blocks(element.text or "", element)

    def line(self, element: HtmlElement) -> str:
        """Return the content of the element as one line, with its blocks in a row."""
        return self._inline.line(element, plain=element.tag == "th")

    def has_headings(self, element: HtmlElement) -> bool:
        """Return whether it contains a heading."""
        return element in self._headed

    def _flow_blocks(self, text: str, children: Sequence[HtmlElement] | HtmlElement) -> list[MarkdownBlock]:
        """Runs of text between blocks are paragraphs."""
        blocks: list[MarkdownBlock] = []
        run: list[Piece] = [text]
        for child in children:
            if self._is_block(child):
                self._end_run(run, blocks)
                extend(blocks, self.written(child))
            elif not beside_listing(child):
                self._inline.add(child, run)
            if isinstance(children, HtmlElement):
                run.append(child.tail or "")
        self._end_run(run, blocks)
        return blocks

    def _is_block(self, element: HtmlElement) -> bool:
        return element.tag in BLOCKS or element in self._mixed or _is_listing(element)

    def _end_run(self, run: list[Piece], blocks: list[MarkdownBlock]) -> None:
        """End a run: its text becomes paragraphs, with a link if it is on a card without a heading."""
        line = "" if all(isinstance(piece, str) and not piece.strip() for piece in run) else joined(run)
        run.clear()
        texts = (spans.lines(text.strip()) for text in line.split("\n\n"))
        blocks.extend(MarkdownBlock(self._link_card(text)) for text in texts if text)

    def _link_card(self, text: str) -> str:
        if self._card is None or self._headline or "](" in text or "\n" in text:
            return text
        url, self._card = self._card, None
        return f"[{spans.label(text)}]({url})"

    def said(self, text: str | None) -> list[MarkdownBlock]:
        """Return text as a paragraph; nothing for white space."""
        blocks: list[MarkdownBlock] = []
        self._end_run([text or ""], blocks)
        return blocks

    def written(self, element: HtmlElement) -> list[MarkdownBlock]:
        """Return the blocks that the element is."""
        if element in self._written or beside_listing(element) or self.notes.leads_back(element):
            return []
        if (kind := admonition(element)) is not None:
            return self._write_admonition(element, kind)
        element = self._unwrap(element)
        if self._depth >= _DEEP:
            return [MarkdownBlock(spans.lines(spans.inline(line))) for line in paragraphs_of(element)]
        self._depth += 1
        try:
            tag = str(element.tag)
            if tag in HEADINGS:
                return self._write_heading(element, HEADINGS[tag])
            if tag in LISTS:
                return listed(self, element)
            if writing := _WRITING.get(tag):
                return writing(self, element)
            if element.get("role") == "heading":
                digits = element.get("aria-level", "2")
                return self._write_heading(
                    element,
                    (
                        min(max(int(digits), 1), 6)
                        if digits.isascii() and digits.isdigit() and len(digits) < 3
                        else 2
                    ),
                )
            if _is_listing(element):
                return self.listing(element)
            label = self.notes.note(element)
            blocks = self.blocks(element)
            return [note(label, blocks)] if label and blocks else blocks
        finally:
            self._depth -= 1

    def _unwrap(self, element: HtmlElement) -> HtmlElement:
        """Return the innermost of nested wrappers with a single child: page builders nest dozens of them."""
        while element.tag in _WRAPPERS and len(element) == 1 and not (element.text or "").strip():
            inner = element[0]
            if (inner.tail or "").strip() or not self._is_block(inner) or self.notes.note(element):
                break
            if element.get("role") == "heading" or admonition(inner) is not None:
                break
            element = inner
        return element

    def _write_heading(self, element: HtmlElement, level: int) -> list[MarkdownBlock]:
        text = self._inline.line(element, plain=True)
        if not text:
            return []
        if self._card is not None and "](" not in text:
            url, self._card = self._card, None
            text = f"[{spans.label(text)}]({url})"
        return [MarkdownBlock(f"{'#' * level} {spans.heading(text)}", "heading")]

    def listing(self, element: HtmlElement) -> list[MarkdownBlock]:
        """Return the element as a code block; nothing if it is empty."""
        code = fenced(element, self._shared)
        return [MarkdownBlock(code, "code")] if code else []

    def _write_quotation(self, element: HtmlElement) -> list[MarkdownBlock]:
        blocks = self.blocks(element)
        # A page that indents listings, lists or tables this way quotes them from nobody.
        if all(block.kind in ("code", "list", "table") for block in blocks):
            return blocks
        text = stacked(blocks)
        return [MarkdownBlock(quoted(text), "quotation")] if text else []

    def _write_admonition(self, element: HtmlElement, what: Admonition) -> list[MarkdownBlock]:
        """Return an admonition: its kind and title, and its content below it.

        It is a quotation if it has only paragraphs in it.
        """
        kind = what.kind.capitalize()
        title = ""
        if what.title is not None:
            title = self._inline.line(what.title, plain=True)
            self._written.add(what.title)
        blocks = self._inside(element)
        if not blocks and not title:
            return []
        bare = re.sub(r"\W+", "", title).casefold()
        if not title or bare == re.sub(r"\W+", "", kind).casefold():
            title = kind
        elif not bare.startswith(kind.casefold()):
            title = f"{kind}: {title}"
        first = blocks[0].markdown if blocks else ""
        if what.title is None and re.match(rf"\*{{0,2}}{kind}\b", first, re.IGNORECASE):
            whole = blocks
        else:
            whole = [MarkdownBlock(f"**{title}**"), *blocks]
        if any(block.kind not in ("paragraph", "quotation") for block in whole):
            return whole
        return [MarkdownBlock(quoted(stacked(whole)), "quotation")]

    def _inside(self, element: HtmlElement) -> list[MarkdownBlock]:
        """Return the blocks in an element, within the limit of depth."""
        if self._depth >= _DEEP:
            return [MarkdownBlock(spans.lines(spans.inline(line))) for line in paragraphs_of(element)]
        self._depth += 1
        try:
            return self.blocks(element)
        finally:
            self._depth -= 1

    def _write_item(self, element: HtmlElement) -> list[MarkdownBlock]:
        """Return a list item without its list."""
        blocks = self.blocks(element)
        if not blocks or self.has_headings(element):
            return blocks
        if label := self.notes.note(element):
            return [note(label, blocks)]
        return [MarkdownBlock(indented(stacked(blocks, tight=True), "- "), "list", "-")]

    def _write_summary(self, element: HtmlElement) -> list[MarkdownBlock]:
        if self.has_headings(element):
            return self.blocks(element)
        line = self._inline.line(element, plain=True)
        return [MarkdownBlock(f"**{line}**")] if line else []

    def _write_card(self, element: HtmlElement) -> list[MarkdownBlock]:
        """Return a card: a link around blocks. Its heading is linked, or else its first paragraph."""
        self._card = address(element.get("href"), self._base) if self._links else None
        self._headline = self.has_headings(element)
        blocks = self.blocks(element)
        if self._card is not None and len(blocks) == 1 and blocks[0].markdown.startswith("!["):
            blocks[0] = MarkdownBlock(f"[{blocks[0].markdown}]({self._card})")
        self._card = None
        return blocks


_WRITING: Mapping[str, Callable[[MarkdownConverter, HtmlElement], list[MarkdownBlock]]] = {
    "a": MarkdownConverter._write_card,
    "pre": MarkdownConverter.listing,
    "listing": MarkdownConverter.listing,
    "xmp": MarkdownConverter.listing,
    "table": lambda writer, element: tabled(writer, element),
    "dl": lambda writer, element: defined(writer, element),
    "blockquote": MarkdownConverter._write_quotation,
    "hr": lambda writer, element: [MarkdownBlock("---", "rule")],
    "li": MarkdownConverter._write_item,
    "summary": MarkdownConverter._write_summary,
}
TAGS = frozenset(_WRITING)
"""Blocks that are written in a way of their own, beside headings and lists."""


def _ancestors_of(elements: Sequence[HtmlElement], tags: Iterable[str]) -> set[HtmlElement]:
    """Return every element that has one of the tags somewhere in it."""
    ancestors: set[HtmlElement] = set()
    for element in elements:
        for inner in element.iter(*tags):
            for above in inner.iterancestors():
                if inner is element or above in ancestors:
                    break
                ancestors.add(above)
                if above is element:
                    break
    return ancestors


def _is_listing(element: HtmlElement) -> bool:
    """Return whether code that is not in a ``<pre>`` is a listing: lines of it, with nothing beside it."""
    if element.tag != "code" or (element.tail or "").strip():
        return False
    parent = element.getparent()
    if parent is None or (parent.text or "").strip():
        return False
    if element.getprevious() is not None or element.getnext() is not None:
        return False
    return len([line for line in text_of(element).split("\n") if line.strip()]) > 1 or "block" in classes(
        element
    )


_WRAPPED = 8  # elements between a list and its items


class _ListItem(NamedTuple):
    element: HtmlElement
    blocks: list[MarkdownBlock]


def listed(writer: MarkdownConverter, element: HtmlElement) -> list[MarkdownBlock]:
    """Return a list as one block. If its items have headings, as cards and search results do, return their
    blocks.
    """
    # Only items that say something. A list right within a list belongs to the item before it.
    items: list[_ListItem] = []
    for child, text in _list_children(element):
        nested = child.tag in LISTS and text is None
        if text is not None:
            blocks = writer.said(text)
        else:
            blocks = writer.blocks(child) if child.tag == "li" else writer.written(child)
        if nested and items:
            items[-1].blocks.extend(blocks)
        elif blocks:
            items.append(_ListItem(child, blocks))
    if not items:
        return []
    if any(item.element is not element and writer.has_headings(item.element) for item in items):
        return [block for item in items for block in item.blocks]
    labels = [writer.notes.note(item.element) for item in items]
    if any(labels):
        return [
            block
            for item, label in zip(items, labels, strict=True)
            for block in ([note(label, item.blocks)] if label else item.blocks)
        ]
    ordered = element.tag == "ol"
    texts = (
        list(_numbered_items(element, items))
        if ordered
        else [indented(stacked(item.blocks, tight=True), "- ") for item in items]
    )
    loose = any(
        len(item.blocks) > 2 or (len(item.blocks) == 2 and item.blocks[1].kind != "list") for item in items
    )
    return [MarkdownBlock(("\n\n" if loose else "\n").join(texts), "list", "." if ordered else "-")]


def _list_children(element: HtmlElement, depth: int = 0) -> Iterator[tuple[HtmlElement, str | None]]:
    """Yield the items, also inside wrappers; text directly in the list comes with the list element."""
    yield element, element.text or ""
    for child in element:
        if child.tag not in LISTS and child.tag != "li" and child.find("li") is not None and depth < _WRAPPED:
            yield from _list_children(child, depth + 1)
        elif isinstance(child.tag, str):
            yield child, None
        yield element, child.tail or ""


def _numbered_items(element: HtmlElement, items: list[_ListItem]) -> Iterator[str]:
    step = -1 if element.get("reversed") is not None else 1
    number = _number_of(element.get("start"), len(items) if step < 0 else 1)
    for item in items:
        number = _number_of(item.element.get("value"), number)
        yield indented(stacked(item.blocks, tight=True), f"{number}. ")
        number = max(0, number + step)


def _number_of(text: str | None, otherwise: int) -> int:
    """Return the number in an attribute, if a Markdown list can begin with it: up to nine digits."""
    return int(text) if text and re.fullmatch(r"\s*\d{1,9}\s*", text) else otherwise


def extend(above: list[MarkdownBlock], blocks: list[MarkdownBlock]) -> None:
    """Put blocks below those there are."""
    for block in blocks:
        above.append(again(block, above[-1]) if above else block)


def again(block: MarkdownBlock, before: MarkdownBlock) -> MarkdownBlock:
    """Return the list that follows another right away, with another marker: else they would be read as
    one.
    """
    if block.kind != "list" or before.kind != "list" or block.marker != before.marker:
        return block
    if block.marker == "-":
        return MarkdownBlock(re.sub(r"^- ", "* ", block.markdown, flags=re.M), "list", "*")
    if block.marker == ".":
        return MarkdownBlock(re.sub(r"^(\d+)\. ", r"\1) ", block.markdown, flags=re.M), "list", ")")
    return block


def note(label: str, blocks: list[MarkdownBlock]) -> MarkdownBlock:
    """Return a footnote below the text; its further blocks are four spaces in."""
    first = f"[^{label}]: "
    body = re.sub(r"^(?:[.)\]](?=\s)|:)\s*", "", stacked(blocks))
    return MarkdownBlock(first + re.sub(r"\n(?=.)", "\n    ", body), "note")


def defined(writer: MarkdownConverter, element: HtmlElement) -> list[MarkdownBlock]:
    """Return a definition list: items if each is one line, else terms with their definitions below them."""
    groups = list(_groups(writer, element))
    if all(
        len(group.blocks) <= 1
        and all(block.kind == "paragraph" and "\n" not in block.markdown for block in group.blocks)
        for group in groups
    ):
        items = [  # a term may end in a colon
            (" " if re.search(r"[:：]\W*$", term) else ": ").join(
                part for part in (term, blocks[0].markdown if blocks else "") if part
            )
            for term, blocks in groups
        ]
        return (
            [MarkdownBlock("\n".join(f"- {item}" for item in items if item), "list", "-")]
            if any(items)
            else []
        )
    entries: list[MarkdownBlock] = []
    for term, blocks in groups:
        if term:
            entries.append(MarkdownBlock(term))
        entries.extend(blocks)
    return entries


class _ListGroup(NamedTuple):
    term: str
    blocks: list[MarkdownBlock]


def _groups(writer: MarkdownConverter, element: HtmlElement) -> Iterator[_ListGroup]:
    terms: list[str] = []
    for child, text in _terms_and_texts(element):
        if text is not None:
            if stray := writer.said(text):
                yield _ListGroup("", stray)
            continue
        if child.tag == "dt":
            if writer.has_headings(child):
                yield _ListGroup("", writer.blocks(child))
            elif not writer.notes.leads_back(child) and (term := _term_markdown(writer, child)):
                terms.append(term)
            continue
        blocks = writer.blocks(child) if child.tag == "dd" else writer.written(child)
        label = writer.notes.note(child) if child.tag == "dd" else None
        if label and blocks:
            blocks = [note(label, blocks)]
        if terms or blocks:
            yield _ListGroup(", ".join(terms), blocks)
        terms = []
    if terms:
        yield _ListGroup(", ".join(terms), [])


def _terms_and_texts(element: HtmlElement, depth: int = 0) -> Iterator[tuple[HtmlElement, str | None]]:
    """Terms and definitions, and text beside them; HTML allows a ``<div>`` around a group."""
    yield element, element.text or ""
    for child in element:
        wraps = child.tag == "div" and (child.find("dt") is not None or child.find("dd") is not None)
        if wraps and depth < _WRAPPED:
            yield from _terms_and_texts(child, depth + 1)
        elif isinstance(child.tag, str):
            yield child, None
        yield element, child.tail or ""


def _term_markdown(writer: MarkdownConverter, element: HtmlElement) -> str:
    """Return a term in bold, a signature as code."""
    if {"sig", "sig-object"}.intersection(classes(element)):
        signs = [link for link in element.iter("a") if is_permalink(link)]
        text = text_of(element).replace("[source]", "")
        end = "".join(text_of(link) for link in signs)
        return spans.code(text.rstrip().removesuffix(end.strip()) if end.strip() else text)
    line = " ".join(writer.line(element).split())
    return line if not line or line.startswith(("**", "`")) else f"**{line}**"


_PARTS = ("thead", "tbody", "tfoot")
_CELL = frozenset({"td", "th"})
_OF_PART = _CELL | {"tr"}
_OF_TABLE = _OF_PART | {*_PARTS, "caption", "colgroup", "col"}
_WIDEST = 100  # columns
_CELLS = 50_000  # of a table: beyond them a span counts as one cell
_LONG = 1200  # characters that a cell of data hardly has
_MOST_TITLES = 4  # of a listing
_MOST_INNER = 20  # tables in cells of a table of data
_REPEATED = 60  # characters of a cell over several rows that is repeated in each of them


class _TableCell(NamedTuple):
    element: HtmlElement
    wide: int
    high: int


class _TableRow(NamedTuple):
    cells: list[_TableCell]
    head: bool


def tabled(writer: MarkdownConverter, element: HtmlElement) -> list[MarkdownBlock]:
    """Return the table's caption and the table; or the blocks of its cells, if it is not one of data."""
    listing = in_table(element)
    if listing is not None:
        titles = [] if listing is element else list(_titles_of_listing(writer, element))
        return titles + writer.listing(listing)
    rows = list(_table_rows(element))
    blocks = [block for caption in element.iterchildren("caption") for block in writer.blocks(caption)]
    blocks += _content_outside_cells(writer, element)
    if _is_layout(element, rows):
        return blocks + [block for row in rows for cell in row.cells for block in writer.blocks(cell.element)]
    lefts = [row.cells[0].element.tag == "th" for row in rows if row.cells]
    table = _write_table(
        _text_grid(writer, rows),
        _count_heads(rows),
        titled=(_count_heads(rows) == 0 and sum(lefts) * 2 > len(lefts)),
    )
    return [*blocks, MarkdownBlock(table, "table")] if table else blocks


def _titles_of_listing(writer: MarkdownConverter, table: HtmlElement) -> Iterator[MarkdownBlock]:
    """Yield the titles of a table that is a listing with its line numbers."""
    for cell in islice(table.iter("caption", "th"), _MOST_TITLES):
        if not text_of(cell, _LONG).strip("0123456789 \t\r\n\xa0"):
            continue
        yield from writer.blocks(cell)


def _content_outside_cells(writer: MarkdownConverter, table: HtmlElement) -> list[MarkdownBlock]:
    """Return the content of a table outside its cells: browsers show it above the table."""
    blocks: list[MarkdownBlock] = []
    parts = list(table.iterchildren(*_PARTS))
    rows = [row for part in (table, *parts) for row in part.iterchildren("tr")]
    for own, holders in ((_OF_TABLE, [table]), (_OF_PART, parts), (_CELL, rows)):
        for holder in holders:
            blocks += writer.said(holder.text)
            for child in holder:
                if isinstance(child.tag, str) and child.tag not in own:
                    blocks += writer.written(child)
                blocks += writer.said(child.tail)
    return blocks


def _table_rows(table: HtmlElement) -> Iterator[_TableRow]:
    """Yield rows in display order: the foot comes last, wherever it is in the source."""
    feet: list[_TableRow] = []
    loose: list[HtmlElement] = []  # cells without a row, which libxml2 does not wrap
    for part in table:
        if part.tag in _CELL:
            loose.append(part)
            continue
        if loose:
            yield _table_row(loose, head=False)
            loose = []
        if part.tag == "tr":
            yield _table_row(part.iterchildren(*_CELL), head=False)
        elif part.tag in _PARTS:
            rows = list(_of_part(part))
            if part.tag == "tfoot":
                feet.extend(rows)
            else:
                yield from rows
    if loose:
        yield _table_row(loose, head=False)
    yield from feet


def _of_part(part: HtmlElement) -> Iterator[_TableRow]:
    loose = list(part.iterchildren(*_CELL))
    if loose:
        yield _table_row(loose, head=False)
    for row in part.iterchildren("tr"):
        yield _table_row(row.iterchildren(*_CELL), head=part.tag == "thead")


def _table_row(elements: Iterable[HtmlElement], *, head: bool) -> _TableRow:
    cells = [_TableCell(cell, _cell_span(cell, "colspan"), _cell_span(cell, "rowspan")) for cell in elements]
    return _TableRow(cells, head or (bool(cells) and all(cell.element.tag == "th" for cell in cells)))


def _cell_span(cell: HtmlElement, name: str) -> int:
    digits = cell.get(name, "1").strip()
    return (
        min(max(1, int(digits)), _WIDEST) if digits.isascii() and digits.isdigit() and len(digits) < 6 else 1
    )


def _is_layout(table: HtmlElement, rows: list[_TableRow]) -> bool:
    """Return whether the table only puts parts of the page beside each other."""
    widest = max((len(row.cells) for row in rows), default=0)
    named = any(cell.element.tag == "th" for row in rows for cell in row.cells)
    inner = list(islice(table.iterdescendants("table"), _MOST_INNER + 1))
    if table.get("role") in ("presentation", "none") or (
        inner and not (named or table.get("role") == "table")
    ):
        return True
    if len(inner) > _MOST_INNER or any(len(text_of(each, _LONG + 1)) > _LONG for each in inner):
        return True
    if widest < 2 or (len(rows) < 2 and not named):
        return True
    return any(_is_page(cell.element, named) for row in rows for cell in row.cells)


def _is_page(cell: HtmlElement, named: bool) -> bool:
    """Return whether a cell holds a piece of a page more than a value."""
    long = _LONG * (3 if named else 1)
    if cell.tag == "td" and not named and next(cell.iter(*HEADINGS, "blockquote"), None) is not None:
        return True
    if any(text_of(pre).strip().count("\n") >= (8 if named else 2) for pre in cell.iter("pre")):
        return True
    return len(cell) > 0 and len(text_of(cell)) > long


def _text_grid(writer: MarkdownConverter, rows: list[_TableRow]) -> list[list[str]]:
    """Return a text for each place. A cell over several columns is in the first of them, or in each of a
    head's.
    """
    grid: list[list[str]] = []
    over: dict[int, tuple[int, str]] = {}  # column → rows still to fill, and their text
    room = _CELLS
    several = _count_heads(rows) > 1
    for row in rows:
        places: list[str] = []
        for cell in row.cells:
            _fill_places(places, over)
            text = spans.cell(writer.line(cell.element))
            wide = min(cell.wide, _WIDEST - len(places)) if room > 0 else 1
            for nth in range(max(wide, 1)):
                content = text if nth == 0 or (row.head and several) else ""
                if cell.high > 1 and room > 0:
                    over[len(places)] = (cell.high - 1, content if len(content) <= _REPEATED else "")
                places.append(content)
            if len(places) >= _WIDEST:
                break
        _fill_places(places, over)
        room -= len(places)
        grid.append(places)
    return grid


def _fill_places(places: list[str], over: dict[int, tuple[int, str]]) -> None:
    """Insert cells that span down from rows above, up to the first free column."""
    while len(places) in over:
        column = len(places)
        left, text = over.pop(column)
        if left > 1:
            over[column] = (left - 1, text)
        places.append(text)


def _count_heads(rows: list[_TableRow]) -> int:
    """Return how many rows at the top are heads."""
    count = 0
    while count < len(rows) and rows[count].head:
        count += 1
    return count if count < len(rows) else min(count, 1)


def _write_table(grid: list[list[str]], heads: int, *, titled: bool) -> str:
    wide = max(map(len, grid), default=0)
    padded = [row + [""] * (wide - len(row)) for row in grid]
    used = [column for column in range(wide) if any(row[column] for row in padded)]
    if not used:
        return ""
    body = padded[heads:]
    # Several header rows become one: the headers above each column, from the top.
    head = [" / ".join(dict.fromkeys(row[at] for row in padded[:heads] if row[at])) for at in range(wide)]
    if not heads and not titled and body:
        head, body = body[0], body[1:]
    rows = [head, ["---"] * wide, *(row for row in body if any(row))]
    return "\n".join("| " + " | ".join(row[column] for column in used) + " |" for row in rows)
