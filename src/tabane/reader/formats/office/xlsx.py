"""Workbooks of Excel (XLSX): their sheets as tables, with values as the workbook shows them.

Styles say how the value of a cell is shown (number, percentage, amount, date, time), and whether it can be
seen. Parts are read piece by piece, because a tree of them would be too large.
"""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Literal, NamedTuple

from lxml import etree

from tabane.messages import say
from tabane.reader.formats.data_files import CellRange, range_of
from tabane.reader.formats.media_type_detection import UNREADABLE_MEMBER
from tabane.reader.formats.office.model import OfficeContent, sheets_left_out
from tabane.reader.formats.office.package import (
    DOCUMENT,
    TRUE,
    OfficePackage,
    ThemeColors,
    attribute,
    local,
    named_child,
    number,
    tinted,
    value_of,
)
from tabane.reader.formats.office.writer import SheetWriter
from tabane.reader.formats.text import broken
from tabane.reader.hidden_text import WHITE, Color, hex_color, is_tiny, is_unreadable

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
        self._since_1904 = attribute(named_child(self._root, "workbookPr"), "date1904") in TRUE
        self._tags = _TAGS
        self._hidden = 0
        self._cut = False

    def content(self) -> OfficeContent:
        """Return the sheets that are shown."""
        sheets = list(self._sheets())
        read = [self._read(sheet) for sheet in sheets[:_SHEETS]]
        wanted = {at for each in read for at in each.strings()}
        name = self._package.first(self._relations, "sharedStrings") or "xl/sharedStrings.xml"
        strings: dict[int, tuple[_Run, ...]] = {}
        if wanted and self._package.has(name):
            last = max(wanted)
            stream = PartStream(self._package.archive, name, most=_STRINGS, tags=_TAGS)
            for nth, node in enumerate(stream.elements("si")):
                if nth in wanted:
                    strings[nth] = runs_of(node, self._styles)
                if nth >= last:
                    break
            self._cut |= stream.cut
        writer = SheetWriter()
        for each in read:
            cells = each.shown(strings, self._since_1904)
            self._hidden += each.hidden
            writer.add(each.name, cells, each.merged, each.rows_left)
            drawings = [
                part for part in self._package.relations(each.part).values() if part.kind == "drawing"
            ]
            for drawing in drawings[:10]:
                for part in list(self._package.relations(drawing.target).values())[:100]:
                    if part.kind == "chart":
                        writer.add_chart(self._package.part(part.target))
        notes = (*writer.warnings, *sheets_left_out(_SHEETS, len(sheets)))
        return OfficeContent(writer.markdown, self._hidden, cut=self._cut or self._package.cut, notes=notes)

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
        self._rows_are_hidden = self._columns_are_hidden = False
        self._sized_columns: set[int] = set()
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
            first, last = (int(number(attribute(node, name), 1)) for name in ("min", "max"))
            columns = range(max(first, 1), min(last, _LAST_COLUMN) + 1)
            if attribute(node, "hidden") in TRUE or (width is not None and number(width, 9) < _NARROW):
                if first not in self._hidden_columns:
                    self._hidden_columns.update(dict.fromkeys(columns, first))
            elif self._columns_are_hidden and width is not None and first not in self._sized_columns:
                self._sized_columns.update(columns)
        elif name == "sheetFormatPr":
            low = is_tiny(number(attribute(node, "defaultRowHeight"), 15))
            low = low and attribute(node, "customHeight") in TRUE
            self._rows_are_hidden = low or attribute(node, "zeroHeight") in TRUE
            self._columns_are_hidden = number(attribute(node, "defaultColWidth"), 9) < _NARROW
        elif name == "mergeCell":
            area = range_of(attribute(node, "ref") or "")
            if area is not None and self._merged_room > 0:
                self._merged_room -= area.rows * min(area.columns, _COLUMNS)
                self.merged.append(area)
        elif name == "conditionalFormatting":
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
        declared, height = attribute(node, "hidden"), attribute(node, "ht")
        if declared in TRUE:
            is_hidden = True
        elif height is not None:
            is_hidden = is_tiny(number(height, 15))
        elif declared is not None:
            is_hidden = False
        elif attribute(node, "customHeight") in TRUE:
            is_hidden = True  # openpyxl writes a height of zero so
        else:
            is_hidden = self._rows_are_hidden
        if is_hidden:
            self.hidden += not self._unseen_row
            self._unseen_row = True
            return
        self._unseen_row = False
        self._add(row, values)

    def _add(self, row: int, values: dict[int, _CellValue]) -> None:
        """Keep the cells of a row that are in columns that are shown."""
        shown = self._sized_columns if self._columns_are_hidden else values
        for column in [each for each in values if each not in shown or each in self._hidden_columns]:
            del values[column]
            first = self._hidden_columns.get(column, 0)
            self.hidden += first not in self._columns_with_text
            self._columns_with_text.add(first)
        if values:
            self._cells[row] = values
            self.rows += 1

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
            tiny = is_tiny(number(value_of(properties, "sz"), 11))
            color = styles.color(named_child(properties, "color"))
            found.append(_Run((text.text or "") if text is not None else "", color, tiny))
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


_STYLES = 70_000
INDEXED = (
    "000000", "FFFFFF", "FF0000", "00FF00", "0000FF", "FFFF00", "FF00FF", "00FFFF", "800000", "008000",
    "000080", "808000", "800080", "008080", "C0C0C0", "808080", "9999FF", "993366", "FFFFCC", "CCFFFF",
    "660066", "FF8080", "0066CC", "CCCCFF", "000080", "FF00FF", "FFFF00", "00FFFF", "800080", "800000",
    "008080", "0000FF", "00CCFF", "CCFFFF", "CCFFCC", "FFFF99", "99CCFF", "FF99CC", "CC99FF", "FFCC99",
    "3366FF", "33CCCC", "99CC00", "FFCC00", "FF9900", "FF6600", "666699", "969696", "003366", "339966",
    "003300", "333300", "993300", "993366", "333399", "333333",
)  # fmt: skip


class CellStyle(NamedTuple):
    """A style: its format, its background (None: unknown), and whether it makes text invisible."""

    form: NumberFormat
    ground: Color | None = WHITE
    hidden: bool = False


class CellStyles:
    """The styles of a workbook by their numbers."""

    def __init__(self, part: etree._Element | None, theme: ThemeColors) -> None:
        self._theme = theme.ordered()
        codes = {
            int(number(attribute(entry, "numFmtId"))): attribute(entry, "formatCode") or ""
            for entry in _children(part, "numFmts")
        }
        fonts = [  # the color, and whether it is too small to be seen
            (self.color(named_child(entry, "color")), is_tiny(number(value_of(entry, "sz"), 11)))
            for entry in _children(part, "fonts")
        ]
        fills = [self._fill(entry) for entry in _children(part, "fills")]
        self._formats: dict[int, NumberFormat] = {}
        self._styles = [self._style(entry, codes, fonts, fills) for entry in _children(part, "cellXfs")]
        self._usual = CellStyle(NumberFormat("General"))
        self._conditional = [self._is_invisible(entry) for entry in _children(part, "dxfs")]

    def style(self, name: str | None) -> CellStyle:
        """Return the style with this number; the default one if there is none."""
        if name is None:
            return self._styles[0] if self._styles else self._usual
        nth = int(number(name, -1))
        return self._styles[nth] if 0 <= nth < len(self._styles) else self._usual

    def hides(self, name: str | None) -> bool:
        """Return whether a conditional style with this number makes text invisible."""
        nth = int(number(name, -1))
        return 0 <= nth < len(self._conditional) and self._conditional[nth]

    def color(self, entry: etree._Element | None) -> Color | None:
        """Return a color; None for an automatic one."""
        if entry is None or attribute(entry, "auto") in ("1", "true"):
            return None
        color: Color | None = None
        if (theme := attribute(entry, "theme")) is not None:
            nth = int(number(theme, -1))
            color = self._theme[nth] if 0 <= nth < len(self._theme) else None
        elif (indexed := attribute(entry, "indexed")) is not None:
            nth = int(number(indexed, -1))
            if nth == 65:
                return WHITE
            nth = nth - 8 if nth >= 8 else nth
            color = hex_color(INDEXED[nth]) if 0 <= nth < len(INDEXED) else None
        else:
            color = hex_color(attribute(entry, "rgb"))
        tint = number(attribute(entry, "tint"))
        return tinted(color, max(min(tint, 1.0), -1.0)) if color is not None and tint else color

    def _fill(self, entry: etree._Element) -> Color | None:
        """Return a background; None if it is a pattern."""
        pattern = named_child(entry, "patternFill")
        if pattern is None:
            return None if named_child(entry, "gradientFill") is not None else WHITE
        kind = attribute(pattern, "patternType") or "none"
        if kind == "none":
            return WHITE
        if kind == "solid":
            return self.color(named_child(pattern, "fgColor")) or WHITE
        return None

    def _style(
        self,
        entry: etree._Element,
        codes: dict[int, str],
        fonts: list[tuple[Color | None, bool]],
        fills: list[Color | None],
    ) -> CellStyle:
        form, font, fill = (
            int(number(attribute(entry, name))) for name in ("numFmtId", "fontId", "fillId")
        )  # fmt: skip
        if form not in self._formats:
            code = codes.get(form)
            self._formats[form] = NumberFormat(code) if code is not None else NumberFormat.built_in(form)
        color, tiny = fonts[font] if 0 <= font < len(fonts) else (None, False)
        ground = fills[fill] if 0 <= fill < len(fills) else WHITE
        return CellStyle(self._formats[form], ground, tiny or is_unreadable(color, ground))

    def _is_invisible(self, entry: etree._Element) -> bool:
        """Return whether a conditional style hides text by its color or its format."""
        font, fill, form = (named_child(entry, name) for name in ("font", "fill", "numFmt"))
        if form is not None and NumberFormat(attribute(form, "formatCode") or "General").number(1.0) is None:
            return True
        if font is None:
            return False
        ground = self.color(named_child(fill, "patternFill", "bgColor")) or WHITE
        return is_unreadable(self.color(named_child(font, "color")), ground)


def _children(part: etree._Element | None, name: str) -> list[etree._Element]:
    holder = named_child(part, name)
    return [entry for entry in holder if local(entry)][:_STYLES] if holder is not None else []


_BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 5: "#,##0", 6: "#,##0", 7: "#,##0.00", 8: "#,##0.00",
    9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "General", 13: "General", 14: "yyyy-mm-dd", 15: "d-mmm-yy",
    16: "d-mmm", 17: "mmm-yy", 18: "h:mm", 19: "h:mm:ss", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm",
    37: "#,##0", 38: "#,##0", 39: "#,##0.00", 40: "#,##0.00", 41: "#,##0", 42: "#,##0", 43: "#,##0.00",
    44: "#,##0.00", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss", 48: "0.00E+00", 49: "@",
    **dict.fromkeys((27, 28, 29, 30, 31, 36, 50, 51, 52, 53, 54, 57, 58), "yyyy-mm-dd"),
    **dict.fromkeys((32, 33, 34, 35, 55, 56), "h:mm:ss"),
}  # fmt: skip
_LONGEST_FORMAT = 500  # characters of a format
_PRECISE = Context(prec=400)
_TOKEN = re.compile(r'"[^"]*+"|\\.|\[[^\]]*+\]|_.|\*.|.', re.DOTALL)
_DIGITS = frozenset("0#?")
_CURRENCY = re.compile(r"\[\$([^\]-]{0,8})")
_LAST_DAY = 2_958_466  # of the year 9999


Kind = Literal["general", "number", "date", "time", "moment", "elapsed", "text", "literal", "nothing"]


class _Section(NamedTuple):
    """A part of a format, for positive or negative numbers, zero or text."""

    kind: Kind
    before: str = ""
    behind: str = ""
    decimals: int = 0
    grouped: bool = False
    percents: int = 0
    thousands: int = 0


class NumberFormat:
    """A format by its code; each part is read once."""

    def __init__(self, code: str) -> None:
        parts = _sections(code[:_LONGEST_FORMAT] or "General")
        self._sections = [_section(part) for part in parts[:4]]

    @classmethod
    def built_in(cls, number: int) -> NumberFormat:
        """Return the built-in format of that number (ECMA-376, 18.8.30)."""
        return cls(_BUILT_IN.get(number, "General"))

    def text(self, value: str) -> str | None:
        """Return a text as it is shown; None if the format hides it."""
        if len(self._sections) >= 4 and self._sections[3].kind == "nothing":
            return None
        return value

    def number(self, value: float, *, since_1904: bool = False) -> str | None:
        """Return a number as it is shown; None if the format hides it."""
        sections = self._sections
        nth = 0
        if value < 0 and len(sections) > 1:
            nth = 1
        elif value == 0 and len(sections) > 2:
            nth = 2
        section = sections[nth]
        if section.kind == "nothing":
            return "" if value == 0 else None
        if section.kind in ("date", "time", "moment", "elapsed"):
            if section.kind == "elapsed":
                seconds = round(abs(value) * 86_400) if abs(value) < 1e9 else 0
                sign = "-" if value < 0 else ""
                return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
            if not 0 <= value < _LAST_DAY - 1462 * since_1904:
                return general(value)
            # 1900 is a leap year there.
            start = datetime(1904, 1, 1) if since_1904 else datetime(1899, 12, 30 if value >= 60 else 31)
            when = start + timedelta(seconds=round(value * 86_400))
            if section.kind == "time":
                return f"{when:%H:%M:%S}" if when.second else f"{when:%H:%M}"
            clock = "" if section.kind == "date" else f" {when:%H:%M:%S}" if when.second else f" {when:%H:%M}"
            return f"{when.year:04}-{when.month:02}-{when.day:02}{clock}"
        if section.kind == "literal":
            return section.before
        if section.kind in ("general", "text"):
            return general(value)
        return _written(abs(value) if nth == 1 else value, section)


def general(value: float) -> str:
    """Return a number without a format."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.15g}"


def _sections(code: str) -> list[str]:
    parts = [""]
    for token in _TOKEN.findall(code):
        if token == ";":
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _section(code: str) -> _Section:
    tokens: list[str] = _TOKEN.findall(code)
    if not code.strip() or all(_literal(token) == "" for token in tokens):
        return _Section("nothing")
    bare = "".join(token for token in tokens if len(token) == 1).lower()
    marks = "".join(token.lower() for token in tokens if token.startswith("["))
    if "general" in bare:
        return _Section("general")
    if re.search(r"\[(?:h+|m+|s+)\]", marks):
        return _Section("elapsed")
    if not bare.strip():
        return _Section("literal", "".join(_literal(token) or "" for token in tokens).strip())
    if _DIGITS.isdisjoint(bare) or re.search(r"[ymdhs]", re.sub(r"e[+-]", "", bare)):
        day = bool(re.search(r"[yde]|g", bare)) or ("m" in bare and not re.search(r"[hs]", bare))
        clock = bool(re.search(r"[hs]", bare))
        if day and clock:
            return _Section("moment")
        if day:
            return _Section("date")
        return _Section("time" if clock else "text")
    if "/" in bare or re.search(r"e[+-]", bare):
        return _Section("general")
    return _numeric(tokens)


def _literal(token: str) -> str | None:
    """Return the text that a token of a format shows; None for a place of the value."""
    if token.startswith('"'):
        return token[1:-1]
    if token.startswith("\\"):
        return token[1:]
    if token.startswith("["):
        found = _CURRENCY.match(token)
        return found[1] if found else ""
    if token[0] in "_*" and len(token) == 2:
        return ""
    return " " if token == " " else None


def _numeric(tokens: list[str]) -> _Section:
    before: list[str] = []
    behind: list[str] = []
    digits = ""
    percents = 0
    for token in tokens:
        shown = _literal(token)
        if shown is not None:
            (behind if digits else before).append(shown)
        elif token in "0#?.,":
            if behind and "".join(behind).strip() == "":
                behind.clear()
            digits += token
        else:
            percents += token == "%"
            (behind if digits else before).append(token)
    whole, _, fraction = digits.partition(".")
    thousands = len(digits) - len(digits.rstrip(","))
    return _Section(
        "number",
        "".join(before).strip(),
        "".join(behind).rstrip(),
        sum(char in _DIGITS for char in fraction),
        "," in whole.rstrip(","),
        percents,
        thousands,
    )


def _written(value: float, section: _Section) -> str:
    if not math.isfinite(value) or abs(value) >= 1e300:
        return general(value)
    value = value * 100 ** min(section.percents, 3) / 1000 ** min(section.thousands, 5)
    decimals = min(section.decimals, 15)
    # Half of the last digit is rounded up, as spreadsheets do.
    exact = Decimal(f"{value:.15g}").quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP, _PRECISE)
    text = f"{exact:{',' if section.grouped else ''}.{decimals}f}"
    sign = "-" if text.startswith("-") else ""
    return f"{sign}{section.before}{text.removeprefix('-')}{section.behind}"


class PartStream:
    """Elements of a part in the order of their ends. ``cut`` is whether it ended before the part did."""

    def __init__(self, archive: zipfile.ZipFile, name: str, *, most: int, tags: int) -> None:
        self._archive, self._name = archive, name
        self._room, self.tags_left = most, tags
        self.cut = False

    def elements(self, *names: str) -> Iterator[etree._Element]:
        """Yield the elements with these local names; each is emptied after it was used.

        Raises ReadError, ``broken``, if nothing can be read.
        """
        found = 0
        wanted = [f"{{*}}{name}" for name in names]
        try:
            with self._archive.open(self._name) as file:
                self._file = file
                events = etree.iterparse(
                    self,
                    events=("end",),
                    tag=wanted,
                    resolve_entities=False,
                    no_network=True,
                    load_dtd=False,
                    remove_comments=True,
                    remove_pis=True,
                )
                for _, node in events:
                    found += 1
                    yield node
                    node.clear(keep_tail=False)
                    while (before := node.getprevious()) is not None:
                        before.getparent().remove(before)  # type: ignore[union-attr]
        except etree.XMLSyntaxError as error:
            if not (found or self.cut):
                raise broken(DOCUMENT, error) from None
            self.cut = True
        except UNREADABLE_MEMBER as error:
            raise broken(DOCUMENT, error) from None

    def read(self, size: int = 65_536) -> bytes:
        """Return the next bytes; none after the limit of bytes or tags."""
        if self._room <= 0 or self.tags_left <= 0:
            self.cut = True
            return b""
        data = self._file.read(min(size, self._room))
        self._room -= len(data)
        self.tags_left -= data.count(b"<")
        return data
