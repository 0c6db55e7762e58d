"""Files that were damaged, by accident or on purpose, are a page or a ReadError, and nothing else."""

from __future__ import annotations

import contextlib
import io
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.errors import ReadError
from tabane.reader.conversion import ConvertedPage, pack
from tabane.reader.formats import page_of
from tests.reader.formats.files import docx, epub, paragraph, pdf
from tests.reader.formats.pdf_files import drawn, grid, rows, text
from tests.reader.pages import ARTICLE, EVIL, FEED, picture

URL = "https://a.test/x"

FILES = {
    "article": (ARTICLE.encode(), "text/html", ""),
    "hidden": (EVIL.encode(), "text/html", ""),
    "feed": (FEED.encode(), "application/rss+xml", ""),
    "pdf": (pdf([[(12, 72, 700, "Kettles boil water.")]] * 3), "application/pdf", ""),
    "pdf with a table": (
        drawn(
            grid([60, 160, 260], [600, 582, 564])
            + rows([["a", "b"], ["c", "d"]], 60, 600, 100)
            + "q 60 0 0 60 60 60 cm /I Do Q 1 g "
            + text(72, 80, "white")
            + ".9 g 0 0 600 50 re f",
            resources="/XObject<</I 20 0 R>>",
            objects={
                20: (
                    "/Type/XObject/Subtype/Image/Width 2/Height 2/ColorSpace/DeviceGray/BitsPerComponent 8",
                    bytes(4),
                )
            },
        ),
        "application/pdf",
        "",
    ),
    "docx": (docx(paragraph("Of copper kettles.")), "", "a.docx"),
    "epub": (epub(["<p>One chapter.</p>", "<p>Another.</p>"]), "", "a.epub"),
    "png": (picture(), "image/png", ""),
    "json": (b'{"kettle": [1, {"litres": null}]}', "application/json", ""),
    "csv": (b"thing,count\nkettle,3\n", "text/csv", ""),
}

_PIECES = st.sampled_from([
    b"<", b">", b":", b"\0", b"\xff\xfe", b"<table>", b"</p>", b"<!--", b"<pre>", b"<![CDATA[", b"\x1b$B",
    b"PK\x03\x04", b"endobj", b"%%EOF", b"/Length 99999999", b"<svg>", b'style="font-size:0"',
    b"<a href='http://[", b"&#xE0041;",
])  # fmt: skip
_CHANGES = st.lists(
    st.tuples(st.floats(0, 0.999), st.integers(0, 60), st.one_of(_PIECES, st.binary(max_size=8))),
    min_size=1,
    max_size=6,
)
Changes = list[tuple[float, int, bytes]]


def changed(data: bytes, changes: Changes) -> bytes:
    """The bytes with pieces put in at places (shares of the whole), and so many taken out behind them."""
    for place, out, put in changes:
        at = int(place * len(data))
        data = data[:at] + put + data[at + out :]
    return data


def is_a_page_or_a_read_error(data: bytes, media_type: str, name: str) -> None:
    with contextlib.suppress(ReadError):
        pack(ConvertedPage(page_of(data, URL, media_type, None, name)))


@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("kind", FILES)
@given(changes=_CHANGES, told=st.booleans())
def test_damaged_bytes(kind: str, changes: Changes, told: bool) -> None:
    data, media_type, name = FILES[kind]
    is_a_page_or_a_read_error(changed(data, changes), media_type if told else "", name)


@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("kind", ["docx", "epub"])
@given(changes=_CHANGES, which=st.integers(0, 5))
def test_damaged_parts_of_archives(kind: str, changes: Changes, which: int) -> None:
    data, media_type, name = FILES[kind]
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for number, part in enumerate(old.namelist()):
            inside = old.read(part)
            new.writestr(part, changed(inside, changes) if number == which else inside)
    is_a_page_or_a_read_error(file.getvalue(), media_type, name)


def test_a_comment_within_unseen_text_is_no_way_out() -> None:
    source = ARTICLE.replace("<p>", '<p style="font-size:0"><!-- x -->unseen</p><p>', 1)
    page = page_of(source.encode(), URL, "text/html")
    assert "unseen" not in page.markdown
    assert "sings" in page.markdown


def test_names_that_xml_has_not_are_passed_over_in_a_feed() -> None:
    page = page_of(FEED.replace("<item>", "<item><l:/>", 1).encode(), URL, "application/rss+xml")
    assert "A new whistle" in page.markdown


def test_a_part_that_cannot_be_unpacked_is_broken() -> None:
    data = bytearray(epub(["<p>One chapter. " + "It is long. " * 200 + "</p>"]))
    at = data.rindex(b"PK\x03\x04")
    data[at + 60 : at + 90] = b"\xff" * 30
    with pytest.raises(ReadError) as raised:
        page_of(bytes(data), URL, "", None, "a.epub")
    assert raised.value.cause == "broken"
