"""Data tables as tables, and layout tables as the contents of their cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from lxml.html import HtmlElement

from tabane.reader.markdown import code_blocks, escaping
from tabane.reader.markdown.elements import HEADINGS, text_of
from tabane.reader.markdown.writer import MarkdownBlock, MarkdownWriter

_PARTS = ("thead", "tbody", "tfoot")
_CELL = frozenset({"td", "th"})
_OF_PART = _CELL | {"tr"}
_OF_TABLE = _OF_PART | {*_PARTS, "caption", "colgroup", "col"}
_WIDEST = 100  # columns
_CELLS = 50_000  # of a table: beyond them a span counts as one cell
_LONG = 1200  # characters that a cell of data hardly has
_MOST_INNER = 20  # tables in cells of a table of data
_REPEATED = 60  # characters of a cell over several rows that is repeated in each of them


class _TableCell(NamedTuple):
    element: HtmlElement
    wide: int
    high: int


class _TableRow(NamedTuple):
    cells: list[_TableCell]
    head: bool


def tabled(writer: MarkdownWriter, element: HtmlElement) -> list[MarkdownBlock]:
    """Return the table's caption and the table; or the blocks of its cells, if it is not one of data."""
    listing = code_blocks.in_table(element)
    if listing is not None:
        return writer.listing(listing)
    rows = list(_rows(element))
    blocks = [block for caption in element.iterchildren("caption") for block in writer.blocks(caption)]
    blocks += _beside(writer, element)
    if _arranges(element, rows):
        return blocks + [block for row in rows for cell in row.cells for block in writer.blocks(cell.element)]
    table = _written(_grid(writer, rows), _heads(rows), titled=_titled(rows))
    return [*blocks, MarkdownBlock(table, "table")] if table else blocks


def _beside(writer: MarkdownWriter, table: HtmlElement) -> list[MarkdownBlock]:
    """Return the content of a table outside its cells: browsers show it above the table."""
    found: list[MarkdownBlock] = []
    parts = list(table.iterchildren(*_PARTS))
    rows = [row for part in (table, *parts) for row in part.iterchildren("tr")]
    for own, holders in ((_OF_TABLE, [table]), (_OF_PART, parts), (_CELL, rows)):
        for holder in holders:
            found += writer.said(holder.text)
            for child in holder:
                if isinstance(child.tag, str) and child.tag not in own:
                    found += writer.written(child)
                found += writer.said(child.tail)
    return found


def _rows(table: HtmlElement) -> Iterator[_TableRow]:
    """Yield rows in display order: the foot comes last, wherever it is in the source."""
    feet: list[_TableRow] = []
    loose: list[HtmlElement] = []  # cells without a row, which libxml2 does not wrap
    for part in table:
        if part.tag in _CELL:
            loose.append(part)
            continue
        if loose:
            yield _row(loose, head=False)
            loose = []
        if part.tag == "tr":
            yield _row(part.iterchildren(*_CELL), head=False)
        elif part.tag in _PARTS:
            found = list(_of_part(part))
            if part.tag == "tfoot":
                feet.extend(found)
            else:
                yield from found
    if loose:
        yield _row(loose, head=False)
    yield from feet


def _of_part(part: HtmlElement) -> Iterator[_TableRow]:
    loose = list(part.iterchildren(*_CELL))
    if loose:
        yield _row(loose, head=False)
    for row in part.iterchildren("tr"):
        yield _row(row.iterchildren(*_CELL), head=part.tag == "thead")


def _row(elements: Iterable[HtmlElement], *, head: bool) -> _TableRow:
    cells = [_TableCell(cell, _span(cell, "colspan"), _span(cell, "rowspan")) for cell in elements]
    return _TableRow(cells, head or (bool(cells) and all(cell.element.tag == "th" for cell in cells)))


def _span(cell: HtmlElement, name: str) -> int:
    said = cell.get(name, "1").strip()
    return min(max(1, int(said)), _WIDEST) if said.isascii() and said.isdigit() and len(said) < 6 else 1


def _arranges(table: HtmlElement, rows: list[_TableRow]) -> bool:
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


def _grid(writer: MarkdownWriter, rows: list[_TableRow]) -> list[list[str]]:
    """Return a text for each place. A cell over several columns is in the first of them, or in each of a
    head's.
    """
    grid: list[list[str]] = []
    over: dict[int, tuple[int, str]] = {}  # column → rows still to fill, and their text
    room = _CELLS
    several = _heads(rows) > 1
    for row in rows:
        places: list[str] = []
        for cell in row.cells:
            _fill(places, over)
            text = escaping.cell(writer.line(cell.element))
            wide = min(cell.wide, _WIDEST - len(places)) if room > 0 else 1
            for nth in range(max(wide, 1)):
                said = text if nth == 0 or (row.head and several) else ""
                if cell.high > 1 and room > 0:
                    over[len(places)] = (cell.high - 1, said if len(said) <= _REPEATED else "")
                places.append(said)
            if len(places) >= _WIDEST:
                break
        _fill(places, over)
        room -= len(places)
        grid.append(places)
    return grid


def _fill(places: list[str], over: dict[int, tuple[int, str]]) -> None:
    """Insert cells that span down from rows above, up to the first free column."""
    while len(places) in over:
        column = len(places)
        left, text = over.pop(column)
        if left > 1:
            over[column] = (left - 1, text)
        places.append(text)


def _heads(rows: list[_TableRow]) -> int:
    """Return how many rows at the top are heads."""
    count = 0
    while count < len(rows) and rows[count].head:
        count += 1
    return count if count < len(rows) else min(count, 1)


def _titled(rows: list[_TableRow]) -> bool:
    """Return whether the header cells are at the left of the rows, and no row is a header."""
    lefts = [row.cells[0].element.tag == "th" for row in rows if row.cells]
    return _heads(rows) == 0 and sum(lefts) * 2 > len(lefts)


def _written(grid: list[list[str]], heads: int, *, titled: bool) -> str:
    wide = max(map(len, grid), default=0)
    padded = [row + [""] * (wide - len(row)) for row in grid]
    used = [column for column in range(wide) if any(row[column] for row in padded)]
    if not used:
        return ""
    head = _merged(padded[:heads], wide) if heads else [""] * wide
    body = padded[heads:]
    if not heads and not titled and body:
        head, body = body[0], body[1:]
    rows = [head, ["---"] * wide, *(row for row in body if any(row))]
    return "\n".join("| " + " | ".join(row[column] for column in used) + " |" for row in rows)


def _merged(heads: list[list[str]], wide: int) -> list[str]:
    """Join several header rows into one: the headers above each column, from the top."""
    return [" / ".join(dict.fromkeys(row[column] for row in heads if row[column])) for column in range(wide)]
