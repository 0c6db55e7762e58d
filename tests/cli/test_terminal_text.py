"""Text on a terminal: results of tools, and lines cut to its columns."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.cli.terminal_text import cells, fitted, padded, wrapped
from tabane.cli.tools import shown


def data(size: int) -> str:
    return base64.b64encode(bytes(size)).decode()


def inside(**resource: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": resource}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b\nc"}], "a\nb\nc"),
        ([{"type": "image", "mimeType": "image/png", "data": data(7)}], "[image image/png 7 B]"),
        ([{"type": "audio", "mimeType": "audio/ogg", "data": data(20_000)}], "[audio audio/ogg 20 kB]"),
        ([inside(uri="file:///a", text="within")], "within"),
        ([inside(uri="x:1", blob=data(3))], "[resource x:1 3 B]"),
        ([{"type": "resource_link", "uri": "x:1", "name": "one"}], "[resource one x:1]"),
        ([{"type": "hologram"}, {}, 5, None], "[hologram]\n[block]\n5\nnull"),
        ([{"type": "text"}, {"type": "resource"}, {"type": "image"}], "[text]\n[resource]\n[image]"),
    ],
)
def test_content_is_its_texts_and_a_word_on_the_rest(content: list[Any], text: str) -> None:
    assert shown({"content": content, "structuredContent": {"x": 1}}) == text


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": [], "structuredContent": {"あ": 1}}, '{\n  "あ": 1\n}'),
        ({"content": []}, '{\n  "content": []\n}'),
        ({"resultType": "complete"}, '{\n  "resultType": "complete"\n}'),
        ([], "[]"),
        (None, "null"),
    ],
)
def test_a_result_without_content_is_what_else_it_has(result: Any, text: str) -> None:
    assert shown(result) == text


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("束ねる", 6, "束ねる"),
        ("束ねる", 5, "束ね…"),
        ("束ねる", 1, "…"),
        ("か\u3099ん", 4, "か\u3099ん"),
        ("か\u3099んばる", 6, "か\u3099ん…"),
        ("e\u0301te\u0301", 3, "e\u0301te\u0301"),
        ("e\u0301te\u0301s", 3, "e\u0301t…"),
        ("e\u0301\u0323", 1, "e\u0301\u0323"),
    ],
)
def test_a_line_is_cut_to_the_columns_that_it_takes(text: str, columns: int, shown: str) -> None:
    assert fitted(text, columns) == shown
    assert cells(shown) <= columns
    assert cells(padded(text, columns)) == columns


@given(st.text("a 束\u3099\u0301ー", max_size=40), st.integers(2, 9))
def test_a_wrapped_line_keeps_its_characters_and_its_columns(text: str, columns: int) -> None:
    lines = list(wrapped(text, columns))
    assert all(cells(line) <= columns for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        ("of multiple files simultaneously.", 29, ["of multiple files", "simultaneously."]),
        ("the file /a/long/path/to/some/where", 20, ["the file /a/long/pat", "h/to/some/where"]),
        ("設定 file_name を", 9, ["設定", "file_name", "を"]),
        ("束ねる。束", 6, ["束ね", "る。束"]),
    ],
)
def test_a_line_is_not_divided_in_a_word_that_fits(text: str, columns: int, lines: list[str]) -> None:
    assert list(wrapped(text, columns)) == lines
