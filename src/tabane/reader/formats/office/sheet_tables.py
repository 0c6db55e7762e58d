"""Tables on a sheet: the areas that blank rows and columns separate, with their ranges, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tabane.messages import Message, say
from tabane.reader.formats.data_files import table
from tabane.reader.markdown import escaping

_TABLES = 100
_COLUMNS = 100
_LISTED = 400_000  # characters of a sheet

Cells = Mapping[int, Mapping[int, str]]
"""Texts by row and column, from 1."""


class CellRange(NamedTuple):
    """A range of cells, both ends included, from 1."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def rows(self) -> int:
        return self.bottom - self.top + 1

    @property
    def columns(self) -> int:
        return self.right - self.left + 1

    @property
    def name(self) -> str:
        """Return the name of the range, such as B3:F20."""
        first = f"{letters(self.left)}{self.top}"
        last = f"{letters(self.right)}{self.bottom}"
        return first if first == last else f"{first}:{last}"


class SheetText(NamedTuple):
    """A sheet as Markdown, with warnings about what is not shown."""

    markdown: str
    warnings: tuple[Message, ...]


def letters(column: int) -> str:
    """Return the name of a column, from 1: A, B, …, AA."""
    name = ""
    while column > 0:
        column, rest = divmod(column - 1, 26)
        name = chr(65 + rest) + name
    return name


def place_of(name: str) -> tuple[int, int] | None:
    """Return row and column, from 1, of a cell such as B3; None for anything else."""
    head = name.rstrip("0123456789")
    digits = name[len(head) :]
    if not 0 < len(head) <= 3 or not 0 < len(digits) <= 7 or not (head.isascii() and head.isalpha()):
        return None
    column = 0
    for letter in head.upper():
        column = column * 26 + ord(letter) - 64
    return int(digits), column


def range_of(name: str) -> CellRange | None:
    """Return the range of a name such as B3:F20 or B3."""
    first, _, last = name.replace("$", "").partition(":")
    begin, end = place_of(first), place_of(last or first)
    if begin is None or end is None:
        return None
    (top, bottom), (left, right) = sorted((begin[0], end[0])), sorted((begin[1], end[1]))
    return CellRange(top, left, bottom, right)


def sheet_text(title: str, cells: Cells, merged: Iterable[CellRange], rows_left: int = 0) -> SheetText:
    """Return a sheet: its title as a heading, and its tables below each other.

    ``rows_left`` is how many rows there are below those given.
    """
    filled = _filled(cells, merged)
    ranges = tables_of(filled)
    parts = [f"## {escaping.inline(title)}"]
    warnings: list[Message] = []
    room = _LISTED
    for shown, area in enumerate(ranges):
        if shown >= _TABLES or room <= 0:
            warnings.append(
                say(
                    "{sheet}: {shown} of {all} {all:table is|tables are} shown.",
                    sheet=title,
                    shown=shown,
                    all=len(ranges),
                )
            )
            break
        rows = [
            [filled.get(row, {}).get(column, "") for column in range(area.left, area.right + 1)]
            for row in range(area.top, area.bottom + 1)
            if row in filled
        ]
        texts = [text for each in rows for text in each if text]
        if len(texts) == 1 and len(rows) == 1:
            text = escaping.lines(escaping.inline(" ".join(texts[0].split())))
        else:
            made = table(rows)
            if area is ranges[-1]:
                made = made._replace(rows=made.rows + rows_left)
            warnings += [say("{sheet}: {warning}", sheet=title, warning=each) for each in made.warnings]
            text = made.markdown
            if len(ranges) > 1 or (area.top, area.left) != (1, 1):
                parts.append(f"### {area.name}")
        parts.append(text)
        room -= len(text)
    return SheetText("\n\n".join(parts), tuple(warnings))


def tables_of(cells: Cells) -> list[CellRange]:
    """Return the ranges of the tables, from the top, those beside each other from the left."""
    found: list[CellRange] = []
    for rows in _runs(sorted(cells)):
        for columns in _column_runs(cells, rows):
            inner = [row for row in rows if any(columns[0] <= column <= columns[-1] for column in cells[row])]
            found.extend(CellRange(part[0], columns[0], part[-1], columns[-1]) for part in _runs(inner))
    return _joined(cells, found)


def _filled(cells: Cells, merged: Iterable[CellRange]) -> dict[int, dict[int, str]]:
    """Return the cells with those that merged ones cover: a short text is repeated in each of its rows."""
    found = {row: dict(values) for row, values in cells.items() if values}
    for area in merged:
        text = cells.get(area.top, {}).get(area.left, "")
        if not text:
            continue
        for row in range(area.top, min(area.bottom, area.top + 1000) + 1):
            line = found.setdefault(row, {})
            for column in range(area.left, min(area.right, area.left + _COLUMNS) + 1):
                repeated = column == area.left and len(text) <= 60
                line.setdefault(column, text if repeated else "")
    return found


def _runs(numbers: list[int]) -> list[list[int]]:
    """Divide sorted numbers where one is missing."""
    found: list[list[int]] = []
    for each in numbers:
        if found and each == found[-1][-1] + 1:
            found[-1].append(each)
        else:
            found.append([each])
    return found


def _column_runs(cells: Cells, rows: list[int]) -> list[list[int]]:
    used = sorted({column for row in rows for column in cells[row]})
    if len(rows) < 2:
        return [used]
    return _runs(used)


def _joined(cells: Cells, ranges: list[CellRange]) -> list[CellRange]:
    """Join a table with the next one below one blank row, if that has the same columns and no head."""
    found: list[CellRange] = []
    for area in ranges:
        before = found[-1] if found else None
        if (
            before is not None
            and area.top == before.bottom + 2
            and (area.left, area.right) == (before.left, before.right)
            and area.left < area.right
            and not _is_head(cells[area.top])
        ):
            found[-1] = CellRange(before.top, before.left, area.bottom, area.right)
        else:
            found.append(area)
    return found


def _is_head(row: Mapping[int, str]) -> bool:
    """Return whether a row has words only, as heads have."""
    return all(text and not any(char.isdigit() for char in text) for text in row.values())
