"""Workbooks of Excel 97 to 2003 (XLS): their sheets as tables, without what nobody sees.

The values are read by calamine (Rust). It says nothing of how cells look, reserves as many cells as a file
declares, and ends the process if there is no memory for them. So the records (MS-XLS) are walked before: they
say how large the sheets are, and which rows, columns and cells are hidden.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta

import python_calamine as calamine

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.formats.data_files import CellRange
from tabane.reader.formats.office.model import ContentBudget, DocumentFull, OfficeContent, sheets_left_out
from tabane.reader.formats.office.package import DOCUMENT
from tabane.reader.formats.office.writer import SheetWriter
from tabane.reader.formats.office.xlsx import INDEXED, NumberFormat
from tabane.reader.formats.text import broken, too_large
from tabane.reader.hidden_text import WHITE, Color, hex_color, is_tiny, is_unreadable

_SHEETS = 50
_CELLS = 150_000  # of a sheet that are kept; rows beyond are counted
_DECLARED = 65_536 * 256  # cells of a sheet
_AREA = (
    8_000_000  # cells that the sheets together extend over: calamine has memory for each, also for empty ones
)
_RECORDS = 5_000_000
_LONGEST = 33_000  # characters of a cell
_MINI = 64  # bytes of a sector of a short stream
_NO_SECTOR = 0xFFFFFFFA  # this and above are marks
_WORKBOOK = "Workbook".encode("utf-16-le")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_CELL_RECORDS = frozenset({0x0006, 0x00D6, 0x00FD, 0x0203, 0x0204, 0x0205, 0x027E})
_END, _MULTIPLE_NUMBERS = 0x000A, 0x00BD
_DAMAGED = say("its records are damaged or cut off")


def read_xls(body: bytes, seconds: float) -> OfficeContent:
    """Return the workbook. Raises ReadError: ``broken``, ``large``, ``key`` if it has a password."""
    if _ENCRYPTED in body:
        raise _locked()
    try:
        looks = _Walk(body, seconds).sheets()
    except DocumentFull:
        raise too_large(DOCUMENT, f"> {_RECORDS} records", _RECORDS) from None
    except (struct.error, IndexError, ValueError):
        raise broken(DOCUMENT, _DAMAGED) from None
    writer = SheetWriter()
    hidden = sum(not look.shown for look in looks)
    shown = [(nth, look) for nth, look in enumerate(looks) if look.shown]
    try:
        workbook = calamine.load_workbook(io.BytesIO(body))
        for nth, look in shown[:_SHEETS]:
            sheet = workbook.get_sheet_by_index(nth)
            cells, rows_left = look.cells(sheet.iter_rows(), sheet.start or (0, 0))
            merged = [
                CellRange(top + 1, left + 1, bottom + 1, right + 1)
                for (top, left), (bottom, right) in sheet.merged_cell_ranges or ()
            ]
            writer.add(sheet.name, cells, merged, rows_left)
            hidden += look.hidden
    except calamine.PasswordError:
        raise _locked() from None
    except BaseException as error:
        # A damaged file makes calamine panic, which is no Exception.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise broken(DOCUMENT, _DAMAGED) from None
        raise
    notes = (*writer.warnings, *sheets_left_out(_SHEETS, len(shown)))
    return OfficeContent(writer.markdown, hidden, notes=notes)


def _locked() -> ReadError:
    return ReadError(say("The document is protected with a password."), "key")


_Value = int | float | str | bool | time | date | datetime | timedelta


@dataclass(slots=True)
class _SheetLook:
    """What the records of a sheet say of its rows, columns and cells, counted from 0."""

    shown: bool
    formats: Mapping[int, NumberFormat]
    invisible: frozenset[int]
    styles: dict[tuple[int, int], int] = field(default_factory=dict)
    rows: set[int] = field(default_factory=set)
    columns: set[int] = field(default_factory=set)
    hidden: int = 0
    """Parts that nobody sees: rows beside each other are one, a column is one, a cell is one."""

    def cells(
        self, rows: Iterator[list[_Value]], start: tuple[int, int]
    ) -> tuple[dict[int, dict[int, str]], int]:
        """Return the texts by row and column, from 1, and the number of rows that there is no room for."""
        found: dict[int, dict[int, str]] = {}
        columns: set[int] = set()
        room = _CELLS
        rows_left = 0
        before = False
        for row, values in enumerate(rows, start[0]):
            filled = [(column, value) for column, value in enumerate(values, start[1]) if value != ""]
            if not filled:
                continue
            if room <= 0:
                rows_left += 1
            elif row in self.rows:
                self.hidden += not before
            else:
                room -= len(filled)
                columns.update(column for column, _ in filled if column in self.columns)
                texts = {
                    column + 1: text
                    for column, value in filled
                    if column not in self.columns and (text := self._text(row, column, value))
                }
                if texts:
                    found[row + 1] = texts
            before = row in self.rows
        self.hidden += len(columns)
        return found, rows_left

    def _text(self, row: int, column: int, value: _Value) -> str:
        """Return the text that a cell shows; "" if it is hidden, which is counted."""
        style = self.styles.get((row, column), 0)
        form = self.formats.get(style)
        text: str | None
        if isinstance(value, bool):
            text = str(value).upper()
        elif isinstance(value, datetime):
            text = str(value).removesuffix(":00")
        elif isinstance(value, time):
            text = f"{value:%H:%M:%S}" if value.second else f"{value:%H:%M}"
        elif isinstance(value, timedelta):
            seconds = round(value.total_seconds())
            text = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        elif isinstance(value, int | float):
            text = form.number(float(value)) if form is not None else NumberFormat("General").number(value)
        elif isinstance(value, str) and form is not None:
            text = form.text(value)
        else:
            text = str(value)
        if style in self.invisible or text is None:
            self.hidden += 1
            return ""
        return text.strip()[:_LONGEST]


class _Walk:
    """The records of a workbook, read once within the limits of records, cells and time."""

    def __init__(self, body: bytes, seconds: float) -> None:
        self._stream = _CompoundFile(body).stream(_WORKBOOK)
        self._budget = ContentBudget(seconds, elements=_RECORDS)
        self._area = 0

    def sheets(self) -> list[_SheetLook]:
        """Return the sheets in their order. Raises ReadError, DocumentFull, struct.error."""
        codes: dict[int, str] = {}
        fonts: list[tuple[int, int]] = []
        styles: list[tuple[int, int, int, int, int]] = []
        listed: list[tuple[int, int]] = []
        palette = [hex_color(color) for color in INDEXED]
        for kind, data in self._records(0):
            if kind == 0x002F:
                raise _locked()
            if kind == 0x0085:  # a sheet: where it begins, and its state
                listed.append((struct.unpack_from("<I", data)[0], data[4] & 3))
            elif kind == 0x041E:
                count, wide = struct.unpack_from("<HB", data, 2)
                text = (
                    data[5 : 5 + count * 2].decode("utf-16-le")
                    if wide & 1
                    else data[5 : 5 + count].decode("latin-1")
                )
                codes[struct.unpack_from("<H", data)[0]] = text
            elif kind == 0x0031:
                height, _, color = struct.unpack_from("<HHH", data)
                fonts.append((height, color))
            elif kind == 0x00E0 and len(data) >= 20:
                font, form = struct.unpack_from("<HH", data)
                borders, fill = struct.unpack_from("<IH", data, 14)
                styles.append((font, form, borders >> 26, fill & 127, fill >> 7 & 127))
            elif kind == 0x0092:
                palette = [(data[at], data[at + 1], data[at + 2]) for at in range(2, len(data) - 3, 4)]
            elif kind == 0x00FC and struct.unpack_from("<I", data, 4)[0] > len(self._stream):
                raise broken(DOCUMENT, say("it declares more texts than it has"))
        formats = {
            nth: NumberFormat(codes[form]) if form in codes else NumberFormat.built_in(form)
            for nth, (_, form, *_) in enumerate(styles)
        }
        invisible = frozenset(nth for nth, style in enumerate(styles) if _is_invisible(style, fonts, palette))
        return [self._sheet(at, _SheetLook(state == 0, formats, invisible)) for at, state in listed]

    def _sheet(self, at: int, look: _SheetLook) -> _SheetLook:
        top, left, bottom, right = 65_536, 65_536, 0, 0
        for kind, data in self._records(at):
            if kind in _CELL_RECORDS or kind == _MULTIPLE_NUMBERS:
                row, column = struct.unpack_from("<HH", data)
                last = column
                if kind == _MULTIPLE_NUMBERS:
                    last = column + (len(data) - 6) // 6 - 1
                for nth in range(last - column + 1) if len(look.styles) < 2 * _CELLS else ():
                    look.styles[row, column + nth] = struct.unpack_from("<H", data, 4 + 6 * nth)[0]
                top, left = min(top, row), min(left, column)
                bottom, right = max(bottom, row), max(right, last)
            elif kind == 0x0208:
                row, _, _, height, _, _, flags = struct.unpack_from("<7H", data)
                if flags & 0x20 or is_tiny((height & 0x7FFF) / 20):
                    look.rows.add(row)
            elif kind == 0x007D:
                first, last, width, _, flags = struct.unpack_from("<5H", data)
                if flags & 1 or width < 77:  # 0.3 characters
                    look.columns.update(range(first, min(last, 255) + 1))
            elif kind == 0x0200:  # what calamine reserves for a while
                limits = struct.unpack_from("<4H" if len(data) == 10 else "<IIHH", data)
                first_row, last_row, first, last = limits
                inverted = first_row > last_row or first > last
                self._check(2**32 if inverted else last_row * last, _DECLARED)
        self._area += max(bottom - top + 1, 0) * max(right - left + 1, 0)
        self._check(self._area, _AREA)
        return look

    def _check(self, cells: int, limit: int) -> None:
        if cells > limit:
            raise too_large(DOCUMENT, f"{cells} cells", limit)

    def _records(self, at: int) -> Iterator[tuple[int, bytes]]:
        """Yield the records from a place to the end of their part, with their kinds."""
        stream = self._stream
        while at + 4 <= len(stream):
            kind, length = struct.unpack_from("<HH", stream, at)
            self._budget.take()
            if kind == _END:
                return
            yield kind, stream[at + 4 : at + 4 + length]
            at += 4 + length


def _is_invisible(
    style: tuple[int, int, int, int, int], fonts: list[tuple[int, int]], palette: list[Color | None]
) -> bool:
    """Return whether text of a style cannot be seen: by its size, or its color on the fill of the cell."""
    font, _, pattern, front, _ = style
    font -= font > 4  # there is no font 4
    if not 0 <= font < len(fonts):
        return False
    height, color = fonts[font]

    def rgb(nth: int) -> Color | None:
        if nth < 8:
            return hex_color(INDEXED[nth])
        return palette[nth - 8] if nth - 8 < len(palette) else None

    ground = WHITE if pattern == 0 else rgb(front) if pattern == 1 else None
    return is_tiny(height / 20) or is_unreadable(rgb(color), ground)


class _CompoundFile:
    """A file of streams in sectors, which are chained by a table (MS-CFB). Endless chains are cut off."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._size = 1 << struct.unpack_from("<H", body, 30)[0]
        if self._size not in (512, 4096):
            raise broken(DOCUMENT, say("it has no content"))
        self._sectors = len(body) // self._size
        count, first, _, self._cutoff, mini, _, more = struct.unpack_from("<IIIIIII", body, 44)
        numbers = list(struct.unpack_from("<109I", body, 76))
        for _ in range(self._sectors):
            if more >= _NO_SECTOR:
                break
            *further, more = self._numbers(more)
            numbers += further
        else:
            raise broken(DOCUMENT, _DAMAGED)
        parts = numbers[: min(count, self._sectors)]
        self._table = [following for part in parts if part < _NO_SECTOR for following in self._numbers(part)]
        self._minis = [following for part in self._chain(mini) for following in self._numbers(part)]
        self._folder = self._joined(first)

    def stream(self, name: bytes) -> bytes:
        """Return the stream of this name. Raises ReadError, ``broken``."""
        for at in range(0, len(self._folder) - 127, 128):
            entry = self._folder[at : at + 128]
            if entry[:64].rstrip(b"\0") == name.rstrip(b"\0"):
                first, size = struct.unpack_from("<II", entry, 116)
                if size >= self._cutoff:
                    return self._joined(first)[:size]
                whole = self._joined(struct.unpack_from("<I", self._folder, 116)[0])
                parts: list[bytes] = []
                while first < _NO_SECTOR and len(parts) * _MINI < min(size, len(whole)):
                    parts.append(whole[first * _MINI : (first + 1) * _MINI])
                    first = self._minis[first]
                return b"".join(parts)[:size]
        raise broken(DOCUMENT, say("it has no sheets"))

    def _chain(self, number: int) -> Iterator[int]:
        for _ in range(self._sectors):
            if number >= _NO_SECTOR:
                return
            yield number
            number = self._table[number]

    def _numbers(self, number: int) -> tuple[int, ...]:
        return struct.unpack_from(f"<{self._size // 4}I", self._body, (number + 1) * self._size)

    def _joined(self, number: int) -> bytes:
        places = [(each + 1) * self._size for each in self._chain(number)]
        return b"".join(self._body[place : place + self._size] for place in places)
