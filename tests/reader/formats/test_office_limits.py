"""Office documents that were made to cost much: each is read within bounds, with a warning."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import cache

import pytest

from tabane.errors import ReadError
from tabane.reader.conversion import PageConverter
from tabane.reader.formats import page_of
from tabane.reader.formats.office import office_page
from tests.harness.patience import assert_in_proportion
from tests.reader.formats.files import epub, zipped
from tests.reader.formats.office_files import (
    deck,
    line,
    open_document,
    par,
    run,
    shape,
    sheet,
    text_cell,
    word,
    words,
    workbook,
)

URL = "https://example.org/file"
TOO_LARGE = "The page is larger than the limit, so its end is missing."
CELL = "<w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc>"

HOSTILE: dict[str, Callable[[int], bytes]] = {
    "paragraphs": lambda n: word(par(run("x")) * n),
    "runs": lambda n: word(par(run("x") * n)),
    "cells": lambda n: word("<w:tbl>" + ("<w:tr>" + CELL * 20 + "</w:tr>") * (n // 20) + "</w:tbl>"),
    "attributes": lambda n: word(
        par(run("x"), properties="<w:spacing " + " ".join(f'w:a{i}="1"' for i in range(n)) + "/>")
    ),
    "notes": lambda n: word(
        par(*(f'<w:r><w:footnoteReference w:id="{i}"/></w:r>' for i in range(n))),
        footnotes="".join(f'<w:footnote w:id="{i}">{par(run("n"))}</w:footnote>' for i in range(n)),
    ),
    "styles": lambda n: word(
        par(run("x"), properties='<w:pStyle w:val="s0"/>'),
        styles="".join(
            f'<w:style w:styleId="s{i}"><w:basedOn w:val="s{(i + 1) % n}"/></w:style>' for i in range(n)
        ),
    ),
    "merged cells": lambda n: workbook(
        {
            "S": sheet(
                *(line(i, text_cell(f"A{i}", "x")) for i in range(1, n)),
                behind="".join(f'<s:mergeCell ref="A{i}:XFD{i + 999}"/>' for i in range(1, n)),
            )
        }
    ),
    "hidden columns": lambda n: workbook(
        {
            "S": sheet(
                *(line(i, text_cell(f"A{i}", "x")) for i in range(1, n)),
                before='<s:col min="1" max="16384" hidden="1"/>' * n,
            )
        }
    ),
    "cells of a row": lambda n: workbook({"S": sheet("<s:row>" + "<s:c/>" * n * 10 + "</s:row>")}),
    "shapes": lambda n: deck([shape(words("x")) * n]),
    "rectangles": lambda n: open_document(
        "presentation",
        "<draw:page>"
        + '<draw:rect svg:x="1cm" svg:y="1cm" svg:width="2cm" svg:height="2cm"><text:p>x</text:p></draw:rect>'
        * n
        + "</draw:page>",
    ),
    "items": lambda n: open_document(
        "text", "<text:list>" + "<text:list-item><text:p>x</text:p></text:list-item>" * n + "</text:list>"
    ),
    "chapters": lambda n: epub(["<p>x</p>" * n] * 3),
}


@pytest.mark.heavy("input that is expensive on purpose")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents_are_read_in_linear_time(name: str) -> None:
    body = cache(HOSTILE[name])
    assert_in_proportion(lambda size: page_of(body(size), URL), 1_250)


def test_the_beginning_of_a_document_that_is_too_large() -> None:
    page = page_of(word(par(run("first")) + par(run("word " * 200)) * 6_000), URL)
    assert page.markdown.startswith("first\n\nword word")
    assert len(page.markdown) <= 4_000_000
    assert TOO_LARGE in [str(each) for each in page.warnings]


@pytest.mark.heavy("input that is expensive on purpose")
def test_the_beginning_of_a_document_of_too_many_tags() -> None:
    page = page_of(word(par(run("first")) + "<w:p/>" * 2_600_000), URL)
    assert page.markdown == "first"
    assert [str(each) for each in page.warnings] == [TOO_LARGE]


@pytest.mark.parametrize(
    "body",
    [
        word(par(run("first")) + "<w:tbl><w:tr><w:tc>" * 12 + par(run("deep")) + "</w:tc></w:tr></w:tbl>" * 12),
        open_document("text", "<text:p>first</text:p>" + "<text:list><text:list-item>" * 40 + "<text:p>deep</text:p>"
                      + "</text:list-item></text:list>" * 40),
        deck([shape(words("first")) + "<p:grpSp>" * 40 + shape(words("deep")) + "</p:grpSp>" * 40]),
    ],
)  # fmt: skip
def test_what_is_nested_too_deeply_is_left_out_with_a_warning(body: bytes) -> None:
    page = page_of(body, URL)
    assert "first" in page.markdown
    assert "deep" not in page.markdown
    assert [str(each) for each in page.warnings] == ["1 part is nested too deeply and left out."]


def test_xml_that_is_nested_too_deeply_is_read_until_there() -> None:
    page = page_of(word(par(run("first")) + "<w:ins>" * 2_000 + "</w:ins>" * 2_000), URL)
    assert page.markdown == "first"
    assert TOO_LARGE in [str(each) for each in page.warnings]


@pytest.mark.parametrize(
    "content", ["<a/>", "", "<a", "<a>" * 3_000, "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"]
)
@pytest.mark.parametrize(
    "main", ["word/document.xml", "content.xml", "xl/workbook.xml", "ppt/presentation.xml"]
)
def test_other_xml_is_broken_or_empty_and_never_another_error(main: str, content: str) -> None:
    mimetype = "application/vnd.oasis.opendocument.text" if main == "content.xml" else ""
    with contextlib.suppress(ReadError):
        page = page_of(zipped({"mimetype": mimetype, main: content}), URL)
        assert page.markdown == ""


ROWS = 3000
LONG: dict[str, Callable[[], bytes]] = {
    "docx": lambda: word("".join(par(run(f"row {n}")) for n in range(ROWS))),
    "odt": lambda: open_document("text", "".join(f"<text:p>row {n}</text:p>" for n in range(ROWS))),
}


@pytest.mark.parametrize("kind", ["docx", "odt"])
def test_of_a_document_that_takes_too_long_the_beginning_is_read(kind: str) -> None:
    """As one of 500,000 paragraphs: here with no time at all, which is looked at every 500 elements."""
    page = office_page(LONG[kind](), URL, kind, seconds=0.0)
    lines = page.markdown.split("\n\n")
    assert [str(warning) for warning in page.warnings] == [TOO_LARGE]
    assert 50 < len(lines) < 1000
    assert lines == [f"row {n}" for n in range(len(lines))]
    assert office_page(LONG[kind](), URL, kind).warnings == ()


@pytest.mark.heavy("a document of 200,000 paragraphs")
async def test_a_document_that_is_too_slow_as_a_whole_comes_as_its_beginning() -> None:
    body = word("".join(par(run(f"row {n}")) for n in range(200_000)))
    converter = PageConverter(os.environ, seconds=0.6)
    try:
        page = await converter.page(body, URL, name="long.docx")
    finally:
        await converter.close()
    assert page.markdown.startswith("row 0\n\nrow 1\n\n")
    assert TOO_LARGE in [str(warning) for warning in page.warnings]
