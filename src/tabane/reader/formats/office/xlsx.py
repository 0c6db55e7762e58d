"""Workbooks of Excel (XLSX): their sheets as tables, with values as the workbook shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lxml import etree

from tabane.messages import Message, say
from tabane.reader.formats.office import charts
from tabane.reader.formats.office.drawing_colors import ThemeColors, local, number
from tabane.reader.formats.office.package import DOCUMENT, OfficePackage, Relation, attribute, named_child
from tabane.reader.formats.office.page_tree import element
from tabane.reader.formats.office.part_streams import PartStream
from tabane.reader.formats.office.reading import OfficeContent
from tabane.reader.formats.office.sheet_tables import CellRange, range_of, sheet_text
from tabane.reader.formats.office.xlsx_styles import CellStyle, CellStyles
from tabane.reader.formats.text import broken
from tabane.reader.markdown import markdown
from tabane.reader.visibility import Color, is_tiny, is_unreadable

_SHEETS = 50
_CELLS = 150_000  # of a sheet that are kept; rows beyond are counted
_COLUMNS = 200
_BYTES = 100_000_000  # of a sheet
_TAGS = 6_000_000  # of all sheets together
_STRINGS = 80_000_000  # bytes of shared strings
_MERGED = 500_000  # cells of merged ranges
_LAST_COLUMN = 16_384
_LONGEST = 33_000  # characters of a cell
_NARROW = 0.3  # width of a column in characters
_TRUE = frozenset({"1", "true", "on"})


class _Run(NamedTuple):
    """A part of a text with a color and size of its own."""

    text: str
    color: Color | None
    tiny: bool


class _CellValue(NamedTuple):
    """The value of a cell before it is shown: its type, its text, or the runs of its text."""

    kind: str
    text: str
    style: CellStyle
    runs: tuple[_Run, ...] = ()


class _Sheet(NamedTuple):
    name: str
    part: str


def read_xlsx(package: OfficePackage) -> OfficeContent:
    """Return the workbook. Raises ReadError, ``broken``."""
    return Workbook(package).content()


class Workbook:
    """A workbook as it is read once."""

    def __init__(self, package: OfficePackage) -> None:
        self._package = package
        main = package.main("xl/workbook.xml")
        self._root = package.root(main)
        self._relations = package.relations(main)
        theme = ThemeColors(package.part(package.first(self._relations, "theme") or "xl/theme/theme1.xml"))
        styles = package.first(self._relations, "styles") or "xl/styles.xml"
        self._styles = CellStyles(package.part(styles), theme)
        properties = named_child(self._root, "workbookPr")
        self._since_1904 = properties is not None and attribute(properties, "date1904") in _TRUE
        self._tags = _TAGS
        self._hidden = 0
        self._cut = False

    def content(self) -> OfficeContent:
        """Return the sheets that are shown."""
        sheets = list(self._sheets())
        read = [self._read(sheet) for sheet in sheets[:_SHEETS]]
        strings = self._strings({at for each in read for at in each.strings()})
        parts: list[str] = []
        warnings: list[Message] = []
        for each in read:
            cells = each.shown(strings, self._since_1904)
            self._hidden += each.hidden
            made = sheet_text(each.name, cells, each.merged, each.rows_left)
            parts.append(made.markdown)
            parts += self._drawn(each.part)
            warnings += made.warnings
        if len(sheets) > _SHEETS:
            warnings.append(
                say("{shown} of {all} {all:sheet is|sheets are} shown.", shown=_SHEETS, all=len(sheets))
            )
        text = "\n\n".join(part for part in parts if part)
        return OfficeContent(text, self._hidden, cut=self._cut or self._package.cut, notes=tuple(warnings))

    def _sheets(self) -> Iterator[_Sheet]:
        """Yield the sheets that are shown, and count those that are not."""
        listed = named_child(self._root, "sheets")
        if listed is None:
            raise broken(DOCUMENT, say("it has no sheets"))
        for entry in listed:
            relation = self._relations.get(attribute(entry, "id") or "")
            if relation is None or relation.external or relation.kind != "worksheet":
                continue
            if not self._package.has(relation.target):
                raise broken(DOCUMENT, say("it has no sheets"))
            if (attribute(entry, "state") or "visible") != "visible":
                self._hidden += 1
                continue
            yield _Sheet(attribute(entry, "name") or "", relation.target)

    def _read(self, sheet: _Sheet) -> _SheetReader:
        stream = PartStream(self._package.archive, sheet.part, most=_BYTES, tags=self._tags)
        reader = _SheetReader(sheet, self._styles)
        for node in stream.elements(*_SheetReader.PARTS):
            reader.take(node)
        self._tags = stream.tags_left
        self._cut |= stream.cut
        return reader

    def _strings(self, wanted: set[int]) -> dict[int, tuple[_Run, ...]]:
        """Return the shared strings that cells refer to."""
        name = self._package.first(self._relations, "sharedStrings") or "xl/sharedStrings.xml"
        if not wanted or not self._package.has(name):
            return {}
        last = max(wanted)
        found: dict[int, tuple[_Run, ...]] = {}
        stream = PartStream(self._package.archive, name, most=_STRINGS, tags=_TAGS)
        for nth, node in enumerate(stream.elements("si")):
            if nth in wanted:
                found[nth] = runs_of(node, self._styles)
            if nth >= last:
                break
        self._cut |= stream.cut
        return found

    def _drawn(self, part: str) -> Iterator[str]:
        """Yield the data of charts on a sheet."""
        drawings = [each for each in self._package.relations(part).values() if each.kind == "drawing"]
        for drawing in drawings[:10]:
            for relation in list(self._package.relations(drawing.target).values())[:100]:
                yield self._chart(relation)

    def _chart(self, relation: Relation) -> str:
        chart = self._package.part(relation.target) if relation.kind == "chart" else None
        if chart is None:
            return ""
        holder = element("div")
        charts.add(chart, holder)
        return markdown([holder], "")


class _SheetReader:
    """The cells of a sheet, taken from its elements one after the other.

    ``hidden`` counts the parts that nobody sees, ``rows_left`` the rows that there was no room for.
    """

    PARTS = ("row", "col", "sheetFormatPr", "mergeCell", "conditionalFormatting")

    def __init__(self, sheet: _Sheet, styles: CellStyles) -> None:
        self.name, self.part = sheet
        self._styles = styles
        self._cells: dict[int, dict[int, _CellValue]] = {}
        self._hidden_columns: dict[int, int] = {}  # column → the first of those hidden with it
        self._rows_are_hidden = False
        self._blind: list[CellRange] = []
        self.merged: list[CellRange] = []
        self._merged_room = _MERGED
        self.hidden = 0
        self._unseen_row = False
        self._columns_with_text: set[int] = set()
        self._room = _CELLS
        self._last = 0
        self.rows = self.rows_left = 0

    def take(self, node: etree._Element) -> None:
        """Take an element of the sheet."""
        name = local(node)
        if name == "row":
            self._row(node)
        elif name == "col":
            width = attribute(node, "width")
            if attribute(node, "hidden") in _TRUE or (width is not None and number(width, 9) < _NARROW):
                first, last = (int(number(attribute(node, name), 1)) for name in ("min", "max"))
                if first not in self._hidden_columns:
                    columns = range(max(first, 1), min(last, _LAST_COLUMN) + 1)
                    self._hidden_columns.update(dict.fromkeys(columns, first))
        elif name == "sheetFormatPr":
            self._rows_are_hidden = attribute(node, "zeroHeight") in _TRUE
        elif name == "mergeCell":
            area = range_of(attribute(node, "ref") or "")
            if area is not None and self._merged_room > 0:
                self._merged_room -= area.rows * min(area.columns, _COLUMNS)
                self.merged.append(area)
        elif name == "conditionalFormatting":
            self._condition(node)

    def strings(self) -> Iterator[int]:
        """Yield the numbers of the shared strings of the cells."""
        for values in self._cells.values():
            for value in values.values():
                if value.kind == "s" and value.text.isdecimal() and len(value.text) < 9:
                    yield int(value.text)

    def shown(self, strings: dict[int, tuple[_Run, ...]], since_1904: bool) -> dict[int, dict[int, str]]:
        """Return the texts that the sheet shows by row and column."""
        covered = {
            (row, column)
            for area in self.merged
            for row in range(area.top, min(area.bottom, area.top + 2000) + 1)
            for column in range(area.left, min(area.right, area.left + _COLUMNS) + 1)
            if (row, column) != (area.top, area.left) and column in self._cells.get(row, {})
        }
        found: dict[int, dict[int, str]] = {}
        for row, values in self._cells.items():
            for column, value in values.items():
                text = self._text(value, strings, since_1904)
                if text is None or (text and ((row, column) in covered or self._is_blind(row, column))):
                    self.hidden += 1
                elif text.strip():
                    found.setdefault(row, {})[column] = text[:_LONGEST]
        return found

    def _row(self, node: etree._Element) -> None:
        at = attribute(node, "r")
        row = int(number(at, 0)) if at else self._last + 1
        self._last = row
        if self._room <= 0:
            self.rows_left += any(local(cell) == "c" and len(cell) for cell in node)
            return
        values: dict[int, _CellValue] = {}
        before = 0
        for cell in node:
            place = place_of_cell(attribute(cell, "r"), before)
            before = place
            if len(cell) and place <= _LAST_COLUMN:
                value = self._value(cell)
                if value is not None:
                    values[place] = value
        self._room -= len(node)
        if not values:
            self._unseen_row = False
            return
        if self._is_hidden_row(node):
            self.hidden += not self._unseen_row
            self._unseen_row = True
            return
        self._unseen_row = False
        self._add(row, values)

    def _add(self, row: int, values: dict[int, _CellValue]) -> None:
        """Keep the cells of a row that are in columns that are shown."""
        for column in [each for each in values if each in self._hidden_columns]:
            del values[column]
            first = self._hidden_columns[column]
            self.hidden += first not in self._columns_with_text
            self._columns_with_text.add(first)
        if values:
            self._cells[row] = values
            self.rows += 1

    def _is_hidden_row(self, node: etree._Element) -> bool:
        said = attribute(node, "hidden")
        if said is not None:
            return said in _TRUE
        height = attribute(node, "ht")
        if height is not None:
            return is_tiny(number(height, 15))
        return self._rows_are_hidden

    def _value(self, cell: etree._Element) -> _CellValue | None:
        kind = attribute(cell, "t") or "n"
        style = self._styles.style(attribute(cell, "s"))
        for each in cell:
            name = local(each)
            if name == "v" and each.text:
                return _CellValue(kind, each.text[:_LONGEST], style)
            if name == "is":
                return _CellValue("inline", "", style, runs_of(each, self._styles))
        return None

    def _text(self, value: _CellValue, strings: dict[int, tuple[_Run, ...]], since_1904: bool) -> str | None:
        """Return the text that a cell shows; None if it is hidden."""
        style = value.style
        if value.kind in ("s", "inline"):
            runs = value.runs
            if value.kind == "s":
                runs = strings.get(int(value.text), ()) if value.text.isdecimal() else ()
            seen = [
                run.text
                for run in runs
                if not run.tiny and not is_unreadable(run.color, style.ground)
                and not (style.hidden and run.color is None)
            ]  # fmt: skip
            text: str | None = style.form.text("".join(seen))
            if any(run.text.strip() for run in runs) and not (text or "").strip():
                return None
            self.hidden += len(seen) < len(runs) and bool((text or "").strip())
            return text
        text = _plain(value, since_1904)
        return None if text is None or (style.hidden and text) else text

    def _condition(self, node: etree._Element) -> None:
        """Take the ranges that a condition which is always true makes invisible."""
        for rule in node:
            formula = named_child(rule, "formula")
            always = formula is not None and (formula.text or "").strip().upper() in (
                "TRUE",
                "TRUE()",
                "1",
                "1=1",
            )
            if always and self._styles.hides(attribute(rule, "dxfId")):
                for name in (attribute(node, "sqref") or "").split()[:100]:
                    if (area := range_of(name)) is not None and len(self._blind) < 200:
                        self._blind.append(area)

    def _is_blind(self, row: int, column: int) -> bool:
        return any(
            area.top <= row <= area.bottom and area.left <= column <= area.right for area in self._blind
        )


def place_of_cell(name: str | None, before: int) -> int:
    """Return the column of a cell; the one after the cell before if it has no name."""
    if not name:
        return before + 1
    column = 0
    for letter in name[:3]:
        if not "A" <= letter <= "Z":
            break
        column = column * 26 + ord(letter) - 64
    return column or before + 1


def runs_of(node: etree._Element, styles: CellStyles) -> tuple[_Run, ...]:
    """Return the parts of a text, without the readings above it."""
    found: list[_Run] = []
    for each in node[:2000]:
        if local(each) == "t":
            found.append(_Run(each.text or "", None, False))
        elif local(each) == "r":
            properties, text = named_child(each, "rPr"), named_child(each, "t")
            size = named_child(properties, "sz")
            found.append(
                _Run(
                    (text.text or "") if text is not None else "",
                    styles.color(named_child(properties, "color")),
                    is_tiny(number(attribute(size, "val"), 11) if size is not None else None),
                )
            )
    return tuple(found)


def _plain(value: _CellValue, since_1904: bool) -> str | None:
    """Return a value that is not a text of its own."""
    if value.kind == "b":
        return "TRUE" if value.text == "1" else "FALSE"
    if value.kind in ("str", "e", "d"):
        return value.style.form.text(value.text)
    try:
        amount = float(value.text)
    except ValueError:
        return value.text
    return value.style.form.number(amount, since_1904=since_1904)
