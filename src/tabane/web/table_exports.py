"""Tables of pages as files to save: CSV (RFC 4180) for spreadsheets, and JSON.

A page with a table answers its own URL with ``export=csv`` or ``export=json`` added, so that the file has the
filters of the page. The macro ``ui.export(url)`` shows the buttons. A handler asks :func:`export_format`,
collects its rows, and answers :func:`table_file`.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from tabane.messages import say
from tabane.web.page import FileDownload, PageRequest

Format = Literal["csv", "json"]

MOST_ROWS = 10_000
"""Rows of a file."""

MOST_BYTES = 32 << 20
"""Bytes of a file, about: a row that would exceed it is left out, and all after it."""

_TYPES: Mapping[Format, str] = {"csv": "text/csv; charset=utf-8", "json": "application/json"}

_BYTE_ORDER_MARK = "\ufeff"
"""Without it, Excel reads UTF-8 as the code page of the system, and Japanese is garbled."""

_FORMULA_STARTS = frozenset("=+-@\t\r\n＝＋－＠")
"""Characters with which a spreadsheet begins a formula, also in full width."""


def export_format(request: PageRequest) -> Format | None:
    """Return the format of the file that a request wants; None if it wants the page."""
    wanted = request.query.get("export", "")
    return "csv" if wanted == "csv" else "json" if wanted == "json" else None


async def collect_rows(
    request: PageRequest,
    operation: str,
    /,
    *,
    most: int = MOST_ROWS,
    part: int = 200,
    cursor: tuple[str, str] = ("cursor", "next_cursor"),
    **params: Any,
) -> tuple[list[dict[str, Any]], bool]:
    """Return the rows of a list that is answered in parts, and whether there are more than ``most``.

    ``part`` is the ``limit`` of one part. ``cursor`` has the names of the parameter and of the field that
    lead to the next one. Raises TabaneError.
    """
    rows: list[dict[str, Any]] = []
    after = None
    for _ in range(2 * most // part + 20):  # a search for a text may answer parts without rows
        found = await request.call(operation, limit=min(part, most), **params, **{cursor[0]: after})
        rows.extend(found["results"])
        after = found[cursor[1]]
        if after is None or len(rows) >= most:
            break
    return rows[:most], after is not None or len(rows) > most


def table_file(
    format: Format,
    name: str,
    columns: Sequence[str],
    rows: Iterable[Mapping[str, Any]],
    *,
    cut: bool = False,
) -> FileDownload:
    """Return a file with those columns of the rows. ``name`` begins its name, such as ``audit``.

    A row without a column has an empty cell in CSV, and null in JSON. With ``cut``, and if the rows exceed
    :data:`MOST_ROWS` or :data:`MOST_BYTES`, the name of the file and a message of the page say that rows are
    missing.
    """
    lines: list[str] = []
    size = 0
    for row in rows:
        values = [row.get(column) for column in columns]
        line = csv_line(values) if format == "csv" else _json_text(dict(zip(columns, values, strict=True)))
        size += len(line.encode())
        if len(lines) == MOST_ROWS or size > MOST_BYTES:
            cut = True
            break
        lines.append(line)
    if format == "csv":
        text = _BYTE_ORDER_MARK + csv_line(columns) + "".join(lines)
    else:
        text = "[\n" + ",\n".join(lines) + "\n]\n" if lines else "[]\n"
    day = time.strftime("%Y-%m-%d")
    file = f"{name}-{day}-first-{len(lines)}.{format}" if cut else f"{name}-{day}.{format}"
    message = (
        say("The file has the first {count:,} {count:row|rows}. Choose narrower filters.", count=len(lines))
        if cut
        else None
    )
    return FileDownload(text.encode(), _TYPES[format], file, message)


def csv_line(values: Iterable[Any]) -> str:
    """Return values as a line of CSV, with CRLF at its end. No cell is a formula for a spreadsheet."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_cell(value) for value in values])
    return out.getvalue()


def _cell(value: Any) -> str:
    """Return a value as text. Numbers stay numbers; texts that would be formulas get an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    text = value if isinstance(value, str) else _json_text(value)
    return f"'{text}" if text.lstrip(" ")[:1] in _FORMULA_STARTS else text


def _json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
