"""Data files as Markdown: CSV, TSV and sheets as bounded tables, JSON shortened by its structure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tabane.messages import Message, say
from tabane.reader.formats.text import LISTED, bounded, broken, fence, plain, unix
from tabane.reader.page import Page

_ROWS = 1000
_COLUMNS = 100
_DELIMITERS = (",", "\t", ";", "|")


class MarkdownTable(NamedTuple):
    """A table as Markdown, ``shown`` of its ``rows``, the head not counted; ``wide``: columns it has."""

    markdown: str
    shown: int
    rows: int
    wide: int

    @property
    def warnings(self) -> tuple[Message, ...]:
        found = []
        if self.shown < self.rows:
            found.append(
                say("{shown} of {rows} {rows:row is|rows are} shown.", shown=self.shown, rows=self.rows)
            )
        if self.wide > _COLUMNS:
            found.append(
                say(
                    "{shown} of {columns} {columns:column is|columns are} shown.",
                    shown=_COLUMNS,
                    columns=self.wide,
                )
            )
        return tuple(found)


def csv_page(text: str, url: str, delimiter: str = "") -> Page:
    """Return rows of text as a table; text without rows is shown unchanged."""
    text = unix(text)
    delimiter = delimiter or _delimiter(text)
    try:
        made = table(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        return plain(text, url)
    media = "text/tab-separated-values" if delimiter == "\t" else "text/csv"
    return Page(url, made.markdown, way="csv", media_type=media, warnings=made.warnings)


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
        value = list(_lines(text)) if lines else json.loads(text)
    except RecursionError:
        raise broken("JSON", say("it is nested too deeply")) from None
    except ValueError as error:
        shown, cut = bounded(text.strip(), LISTED)
        warning = say("This is not valid JSON: {reason}", reason=str(error)[:100])
        return _page(url, shown, (warning, *cut))
    shown, warnings = _shown(value)
    return _page(url, shown, warnings, _title(value))


def _page(url: str, shown: str, warnings: tuple[Message, ...], title: str | None = None) -> Page:
    return Page(
        url, fence(shown, "json"), title=title, way="json", media_type="application/json", warnings=warnings
    )


def _lines(text: str) -> Iterator[object]:
    for line in text.splitlines():
        if line.strip():
            yield json.loads(line)


def _title(value: object) -> str | None:
    for name in ("title", "name", "full_name"):
        if isinstance(value, dict) and isinstance(said := value.get(name), str) and said.strip():
            return " ".join(said.split())[:200]
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
            return text, () if whole else (_said(items, chars),)
    text, warnings = bounded(text if len(text) < LISTED * 20 else text[: LISTED * 20], LISTED)
    return text, (_said(*_LEVELS[-1]), *warnings)


def _said(items: int, chars: int) -> Message:
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
            return self._array(value, depth)
        if isinstance(value, dict):
            return self._object(value, depth)
        return value

    def _text(self, value: str) -> str:
        kept = value[: self._chars]
        self._room -= len(kept)
        rest = len(value) - len(kept)
        return f"{kept}… (+{rest})" if rest else value

    def _array(self, value: list[object], depth: int) -> list[object]:
        if depth >= _DEEPEST and value:
            return [f"… ({len(value)})"]
        kept = [self.of(item, depth + 1) for item in value[: self._items]]
        rest = len(value) - len(kept)
        return [*kept, f"… (+{rest})"] if rest else kept

    def _object(self, value: dict[str, object], depth: int) -> dict[str, object]:
        if depth >= _DEEPEST and value:
            return {"…": len(value)}
        most = max(self._items, 20)  # the members of an object say different things
        kept = {name[:500]: self.of(item, depth + 1) for name, item in list(value.items())[:most]}
        rest = len(value) - most
        return {**kept, "…": f"(+{rest})"} if rest > 0 else kept
