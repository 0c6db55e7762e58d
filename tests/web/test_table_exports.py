"""Files of tables: what is in them, how spreadsheets read them, and how much they hold."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.web import table_exports
from tabane.web.table_exports import csv_line, table_file

COLUMNS = ("name", "calls", "tags")
ROWS: list[dict[str, Any]] = [
    {"name": 'a "b", c\nd', "calls": -3, "tags": ["x"]},
    {"name": "味噌", "calls": 1_234.5, "unknown": 1},
]


def read_csv(data: bytes) -> list[list[str]]:
    """Return the cells as a program reads them that knows the byte order mark."""
    return list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))


def test_csv_has_the_columns_in_order_and_keeps_texts_and_numbers() -> None:
    file = table_file("csv", "usage", COLUMNS, ROWS)
    assert file.type == "text/csv; charset=utf-8"
    assert file.data.startswith(b"\xef\xbb\xbfname,calls,tags\r\n")
    assert read_csv(file.data)[1:] == [['a "b", c\nd', "-3", '["x"]'], ["味噌", "1234.5", ""]]
    assert file.name.startswith("usage-20")
    assert (file.name.endswith(".csv"), file.message) == (True, None)


def test_json_has_the_same_rows() -> None:
    file = table_file("json", "usage", COLUMNS, ROWS)
    assert json.loads(file.data) == [{name: row.get(name) for name in COLUMNS} for row in ROWS]
    assert json.loads(table_file("json", "usage", COLUMNS, []).data) == []


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1", '=HYPERLINK("http://x")']
)
def test_no_text_is_a_formula(text: str) -> None:
    assert read_csv(csv_line([text]).encode()) == [[f"'{text}"]]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=5))
def test_every_text_is_one_cell(texts: list[str]) -> None:
    [cells] = read_csv(csv_line(texts).encode())
    assert [cell.removeprefix("'") for cell in cells] == [text.removeprefix("'") for text in texts]


@pytest.mark.parametrize(("limit", "value"), [("MOST_ROWS", 3), ("MOST_BYTES", 30)])
def test_a_file_that_is_cut_says_so(monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    monkeypatch.setattr(table_exports, limit, value)
    file = table_file("csv", "audit", ["name"], [{"name": "12345678"}] * 10)
    assert len(read_csv(file.data)) == 4
    assert file.name.endswith("-first-3.csv")
    assert file.message is not None
    assert "first 3 rows" in file.message.render("en")
