"""Rows of values as a table: CSV, TSV, sheets. Many rows are bounded, and how many there are is said."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tabane.messages import Message, say
from tabane.reader.formats.text import LISTED, plain, unix
from tabane.reader.page import Page

_ROWS = 1000
_COLUMNS = 100
_DELIMITERS = (",", "\t", ";", "|")


class Table(NamedTuple):
    """A table as Markdown, ``shown`` of its ``rows``, the head not counted; ``wide``: columns it has."""

    markdown: str
    shown: int
    rows: int
    wide: int

    @property
    def warnings(self) -> tuple[Message, ...]:
        found = []
        if self.shown < self.rows:
            found.append(say("{shown} of {rows} rows are shown.", shown=self.shown, rows=self.rows))
        if self.wide > _COLUMNS:
            found.append(say("{shown} of {columns} columns are shown.", shown=_COLUMNS, columns=self.wide))
        return tuple(found)


def csv_page(text: str, url: str, delimiter: str = "") -> Page:
    """Rows of text; what is not rows is shown as it stands."""
    text = unix(text)
    delimiter = delimiter or _delimiter(text)
    try:
        made = table(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        return plain(text, url)
    media = "text/tab-separated-values" if delimiter == "\t" else "text/csv"
    return Page(url, made.markdown, way="csv", media_type=media, warnings=made.warnings)


def _delimiter(text: str) -> str:
    """What divides the first lines into the most columns, as many in each."""
    lines = [line for line in text[:20_000].split("\n")[:20] if line.strip()]
    best, most = ",", 0.0
    for delimiter in _DELIMITERS:
        counts = [len(row) for row in csv.reader(lines, delimiter=delimiter)] or [0]
        usual = max(set(counts), key=counts.count)
        score = usual * counts.count(usual) / len(counts)
        if usual > 1 and score > most:
            best, most = delimiter, score
    return best


def table(rows: Iterable[Sequence[object]], most: int = _ROWS) -> Table:
    """A table whose first row is its head. Rows beyond ``most``, or a page's length, are counted alone."""
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
    return Table("\n".join(lines), shown, max(0, count - 1), wide)


def _text(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|") if value is not None else ""
