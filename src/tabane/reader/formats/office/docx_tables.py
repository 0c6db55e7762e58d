"""Cells of tables of WordprocessingML: their places, spans, and what the style of the table gives them."""

from __future__ import annotations

from typing import Any

from lxml import etree

from tabane.reader.formats.office.docx_inline import TextPlace
from tabane.reader.formats.office.docx_styles import WordStyle
from tabane.reader.formats.office.drawing_colors import local, number
from tabane.reader.formats.office.package import attribute, named_child

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
