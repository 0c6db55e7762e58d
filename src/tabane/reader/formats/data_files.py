"""Data as Markdown: CSV, TSV and sheets as bounded tables, JSON shortened by its structure.

A sheet has a table for each area that blank rows and columns separate, with its range.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tabane.messages import Message, say
from tabane.reader.formats.text import LISTED, bounded, broken, fence, plain, unix
from tabane.reader.markdown import spans
from tabane.reader.page import Page

_ROWS = 1000
_COLUMNS = 100
_JSON_FEED = "https://jsonfeed.org/version/"
_DELIMITERS = (",", "\t", ";", "|")


class MarkdownTable(NamedTuple):
    """A table as Markdown, ``shown`` of its ``rows``, the head not counted; ``wide``: columns it has."""

    markdown: str
    shown: int
    rows: int
    wide: int

    @property
    def warnings(self) -> tuple[Message, ...]:
        warnings = []
        if self.shown < self.rows:
            warnings.append(
                say("{shown} of {rows} {rows:row is|rows are} shown.", shown=self.shown, rows=self.rows)
            )
        if self.wide > _COLUMNS:
            warnings.append(
                say(
                    "{shown} of {columns} {columns:column is|columns are} shown.",
                    shown=_COLUMNS,
                    columns=self.wide,
                )
            )
        return tuple(warnings)


def csv_page(text: str, url: str, delimiter: str = "") -> Page:
    """Return rows of text as a table; text without rows is shown unchanged."""
    text = unix(text)
    delimiter = delimiter or _delimiter(text)
    try:
        rows = table(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        return plain(text, url)
    media = "text/tab-separated-values" if delimiter == "\t" else "text/csv"
    return Page(url, rows.markdown, way="csv", media_type=media, warnings=rows.warnings)


def _delimiter(text: str) -> str:
    """Return the delimiter that divides the first lines into the most columns, the same number in each."""
    lines = [line for line in text[:20_000].split("\n")[:20] if line.strip()]
    best, most = ",", 0.0
    for delimiter in _DELIMITERS:
        counts = [len(row) for row in csv.reader(lines, delimiter=delimiter)] or [0]
        usual = max(set(counts), key=counts.count)
        score = usual * counts.count(usual) / len(counts)
        if usual > 1 and score > most:
            best, most = delimiter, score
    return best


def table(rows: Iterable[Sequence[object]], most: int = _ROWS) -> MarkdownTable:
    """Return a table whose first row is its head. Rows beyond ``most``, or a page's length, are counted
    alone.
    """
    lines: list[str] = []
    count = wide = length = 0
    for row in rows:
        if not any(_text(value) for value in row):
            continue
        wide = max(wide, len(row))
        count += 1
        if count > most + 1 or length > LISTED:
            continue
        line = "| " + " | ".join(_text(value) for value in row[:_COLUMNS]) + " |"
        lines.append(line)
        length += len(line)
        if count == 1:
            lines.append("|" + " --- |" * max(1, min(len(row), _COLUMNS)))
    shown = max(0, len(lines) - 2)
    return MarkdownTable("\n".join(lines), shown, max(0, count - 1), wide)


def _text(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|") if value is not None else ""


_LEVELS = (  # items of an array or members of an object, characters of a string: until it fits
    (1_000_000, 1_000_000),
    (1000, 20_000),
    (200, 5000),
    (50, 2000),
    (20, 1000),
    (10, 500),
    (5, 200),
    (3, 100),
    (1, 50),
)
_DEEPEST = 60


class _OutlineTooLarge(Exception):
    """More characters than allowed remain at this level."""


def json_page(text: str, url: str, *, lines: bool = False) -> Page:
    """JSON, or with ``lines`` a JSON value in each line. Text that is not JSON is shown unchanged."""
    try:
        if lines:
            value: object = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            value = json.loads(text)
    except RecursionError:
        raise broken("JSON", say("it is nested too deeply")) from None
    except ValueError as error:
        shown, cut = bounded(text.strip(), LISTED)
        warning = say("This is not valid JSON: {reason}", reason=str(error)[:100])
        return _data_page(url, shown, (warning, *cut))
    if isinstance(value, dict) and str(value.get("version", "")).startswith(_JSON_FEED):
        from tabane.reader.formats.feeds import json_feed_page  # lxml

        return json_feed_page(value, url)
    shown, warnings = _shown(value)
    return _data_page(url, shown, warnings, _title_of_value(value))


def _data_page(url: str, shown: str, warnings: tuple[Message, ...], title: str | None = None) -> Page:
    return Page(
        url, fence(shown, "json"), title=title, way="json", media_type="application/json", warnings=warnings
    )


def _title_of_value(value: object) -> str | None:
    for name in ("title", "name", "full_name"):
        if isinstance(value, dict) and isinstance(text := value.get(name), str) and text.strip():
            return " ".join(text.split())[:200]
    return None


def _shown(value: object) -> tuple[str, tuple[Message, ...]]:
    for items, chars in _LEVELS:
        try:
            text = json.dumps(_JsonOutline(items, chars).of(value), ensure_ascii=False, indent=2)
        except _OutlineTooLarge:
            continue
        except RecursionError:
            raise broken("JSON", say("it is nested too deeply")) from None
        if len(text) <= LISTED:
            whole = (items, chars) == _LEVELS[0]
            return text, () if whole else (_omission_note(items, chars),)
    text, warnings = bounded(text if len(text) < LISTED * 20 else text[: LISTED * 20], LISTED)
    return text, (_omission_note(*_LEVELS[-1]), *warnings)


def _omission_note(items: int, chars: int) -> Message:
    return say(
        "This JSON is long. Only {items} {items:item|items} of each array and {chars} "
        "{chars:character|characters} of each string are shown; the number left out is given in their "
        "place.",
        items=items,
        chars=chars,
    )


class _JsonOutline:
    """A copy with so many items in an array and so many characters in a string; deeper than 60 nothing."""

    def __init__(self, items: int, chars: int) -> None:
        self._items, self._chars = items, chars
        self._room = LISTED * 4

    def of(self, value: object, depth: int = 0) -> object:
        self._room -= 1
        if isinstance(value, str):
            return self._text(value)
        if self._room < 0:
            raise _OutlineTooLarge
        if isinstance(value, list):
            return self._outline_array(value, depth)
        if isinstance(value, dict):
            return self._outline_object(value, depth)
        return value

    def _text(self, value: str) -> str:
        kept = value[: self._chars]
        self._room -= len(kept)
        rest = len(value) - len(kept)
        return f"{kept}… (+{rest})" if rest else value

    def _outline_array(self, value: list[object], depth: int) -> list[object]:
        if depth >= _DEEPEST and value:
            return [f"… ({len(value)})"]
        kept = [self.of(item, depth + 1) for item in value[: self._items]]
        rest = len(value) - len(kept)
        return [*kept, f"… (+{rest})"] if rest else kept

    def _outline_object(self, value: dict[str, object], depth: int) -> dict[str, object]:
        if depth >= _DEEPEST and value:
            return {"…": len(value)}
        most = max(self._items, 20)  # the members of an object say different things
        kept = {name[:500]: self.of(item, depth + 1) for name, item in list(value.items())[:most]}
        rest = len(value) - most
        return {**kept, "…": f"(+{rest})"} if rest > 0 else kept


_TABLES = 100
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
        """Number of columns."""
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
    filled = _filled_cells(cells, merged)
    ranges = tables_of(filled)
    parts = [f"## {spans.inline(title)}"]
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
            text = spans.lines(spans.inline(" ".join(texts[0].split())))
        else:
            written = table(rows)
            if area is ranges[-1]:
                written = written._replace(rows=written.rows + rows_left)
            warnings += [say("{sheet}: {warning}", sheet=title, warning=each) for each in written.warnings]
            text = written.markdown
            if len(ranges) > 1 or (area.top, area.left) != (1, 1):
                parts.append(f"### {area.name}")
        parts.append(text)
        room -= len(text)
    return SheetText("\n\n".join(parts), tuple(warnings))


def tables_of(cells: Cells) -> list[CellRange]:
    """Return the ranges of the tables, from the top, those beside each other from the left."""
    ranges: list[CellRange] = []
    for rows in _runs_of(sorted(cells)):
        used = sorted({column for row in rows for column in cells[row]})
        for columns in [used] if len(rows) < 2 else _runs_of(used):
            inner = [row for row in rows if any(columns[0] <= column <= columns[-1] for column in cells[row])]
            ranges.extend(CellRange(part[0], columns[0], part[-1], columns[-1]) for part in _runs_of(inner))
    return _join_tables(cells, ranges)


def _filled_cells(cells: Cells, merged: Iterable[CellRange]) -> dict[int, dict[int, str]]:
    """Return the cells with those that merged ones cover: a short text is repeated in each of its rows."""
    filled = {row: dict(values) for row, values in cells.items() if values}
    for area in merged:
        text = cells.get(area.top, {}).get(area.left, "")
        if not text:
            continue
        for row in range(area.top, min(area.bottom, area.top + 1000) + 1):
            line = filled.setdefault(row, {})
            for column in range(area.left, min(area.right, area.left + _COLUMNS) + 1):
                repeated = column == area.left and len(text) <= 60
                line.setdefault(column, text if repeated else "")
    return filled


def _runs_of(numbers: list[int]) -> list[list[int]]:
    """Divide sorted numbers where one is missing."""
    runs: list[list[int]] = []
    for each in numbers:
        if runs and each == runs[-1][-1] + 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs


def _join_tables(cells: Cells, ranges: list[CellRange]) -> list[CellRange]:
    """Join a table with the next one below one blank row, if that has the same columns and no head."""
    joined: list[CellRange] = []
    for area in ranges:
        before = joined[-1] if joined else None
        if (
            before is not None
            and area.top == before.bottom + 2
            and (area.left, area.right) == (before.left, before.right)
            and area.left < area.right
            # A head has words only.
            and any(not text or any(map(str.isdigit, text)) for text in cells[area.top].values())
        ):
            joined[-1] = CellRange(before.top, before.left, area.bottom, area.right)
        else:
            joined.append(area)
    return joined
