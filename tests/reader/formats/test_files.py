"""PDF, images, office files and books as pages; and those that were made to do harm."""

from __future__ import annotations

import contextlib
import io
import random

import openpyxl  # type: ignore[import-untyped]
import pptx
import pytest
from PIL import Image

from tabane.errors import ReadError
from tabane.reader.formats import page_of
from tabane.reader.page import Page
from tests.reader.formats.files import docx, epub, paragraph, pdf, png_head, zipped

URL = "https://example.org/file"


def said(page: Page) -> list[str]:
    return [str(warning) for warning in page.warnings]


def cause(body: bytes, media: str = "") -> str:
    with pytest.raises(ReadError) as raised:
        page_of(body, URL, media)
    return raised.value.cause


# PDF

LONG = [
    (24.0, 72.0, 720.0, "A Report"),
    (11.0, 72.0, 690.0, "This is the first line of a paragraph that goes on for more than one line "
                        "of the page and is di-"),
    (11.0, 72.0, 677.0, "vided at its end, as words are in print. It ends here."),
    (11.0, 72.0, 645.0, "Another one."),
    (16.0, 72.0, 610.0, "Results"),
    (11.0, 72.0, 590.0, "1. first thing"),
    (11.0, 72.0, 577.0, "2. second * thing"),
]  # fmt: skip


def test_a_pdf_has_headings_paragraphs_and_items() -> None:
    page = page_of(pdf([LONG], {"Title": "T", "Author": "A", "CreationDate": "D:20240506101112+09'00'"}), URL)
    assert page.markdown == (
        "# A Report\n\nThis is the first line of a paragraph that goes on for more than one line of "
        "the page and is "
        "divided at its end, as words are in print. It ends here.\n\nAnother one.\n\n## Results\n\n"
        "1. first thing\n\n2. second * thing"
    )
    assert (page.title, page.author, page.date, page.way) == ("T", "A", "2024-05-06T10:11:12+09:00", "pdf")


def test_the_pages_of_a_pdf_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # without tesseract, which would see that a page is empty
    page = page_of(pdf([[(11, 72, 700, "one")], [], [(11, 72, 700, "three")]]), URL)
    assert page.markdown == "[p. 1]\n\none\n\n[p. 2]\n\n[p. 3]\n\nthree"
    assert said(page) == ["1 page has no text and may be images."]


def test_code_in_a_pdf_is_a_listing() -> None:
    lines = [(10.0, 72.0, 700.0, "def f(x):"), (10.0, 96.0, 688.0, "return x")]
    assert page_of(pdf([lines], font="Courier"), URL).markdown == "```\ndef f(x):\n    return x\n```"


def test_a_pdf_without_a_title_is_called_by_its_largest_line() -> None:
    assert page_of(pdf([LONG]), URL).title == "A Report"


def test_pictures_of_pages_are_said_to_be_that() -> None:
    with pytest.raises(ReadError, match="3 pages and no text") as raised:
        page_of(pdf([[], [], []]), URL)
    assert raised.value.cause == "empty"


def test_a_pdf_of_very_many_pages_is_bounded() -> None:
    page = page_of(pdf([[(11, 72, 700, f"page {nth}")] for nth in range(1200)]), URL)
    assert "[p. 1000]\n\npage 999" in page.markdown
    assert "page 1000" not in page.markdown
    assert said(page) == ["Only the first 1000 of 1200 pages are shown."]


def test_a_broken_pdf_is_told() -> None:
    assert cause(b"%PDF-1.7\n" + bytes(range(256)) * 10) == "broken"


# Images


def image(form: str, size: tuple[int, int], mode: str = "RGB", noise: bool = False) -> bytes:
    made = Image.effect_noise(size, 90).convert(mode) if noise else Image.new(mode, size)
    file = io.BytesIO()
    made.save(file, form)
    return file.getvalue()


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_small_image_is_handed_on_as_it_is(form: str) -> None:
    body = image(form, (30, 20))
    page = page_of(body, "https://example.org/pic.x?y", "image/" + form.lower())
    assert page.pictures[0].data == body
    assert page.pictures[0].media_type == "image/" + form.lower()
    assert page.markdown == f"![pic.x](https://example.org/pic.x?y)\n\n{form}, 30 × 20"


@pytest.mark.heavy("conversion in real processes")
@pytest.mark.parametrize(
    ("form", "size", "mode", "noise"),
    [
        ("PNG", (3000, 1000), "RGB", False),
        ("PNG", (2000, 2000), "RGBA", True),
        ("JPEG", (4000, 3000), "RGB", True),
        ("BMP", (100, 100), "RGB", False),
        ("TIFF", (2000, 100), "L", True),
        ("PNG", (3000, 10), "1", False),
        ("GIF", (1600, 16), "P", False),
    ],
)
def test_a_large_image_is_scaled_down(form: str, size: tuple[int, int], mode: str, noise: bool) -> None:
    page = page_of(image(form, size, mode, noise), URL)
    picture = page.pictures[0]
    with Image.open(io.BytesIO(picture.data)) as small:
        small.load()
        assert small.get_format_mimetype() == picture.media_type
        assert max(small.size) <= 1568
        assert abs(small.width / small.height - size[0] / size[1]) < 0.05 * size[0] / size[1] + 0.5
    assert len(picture.data) <= 1_000_000
    assert f"{size[0]} × {size[1]}" in page.markdown


def test_an_image_is_turned_as_its_camera_was() -> None:
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (40, 20)).save(file, "JPEG", exif=exif)
    with Image.open(io.BytesIO(page_of(file.getvalue(), URL).pictures[0].data)) as turned:
        assert turned.size == (20, 40)


def test_images_that_would_fill_the_memory_are_refused() -> None:
    assert cause(png_head(100_000, 100_000)) == "large"
    assert cause(png_head(9_000, 9_000)) == "large"


def test_a_broken_image_is_told() -> None:
    assert cause(image("PNG", (300, 300), noise=True)[:3000]) == "broken"
    assert cause(png_head(50, 50)) == "broken"


# Office


def test_a_document() -> None:
    row = "<w:tr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr>"
    body = (
        paragraph("見出し", "Heading1")
        + paragraph("Some words.")
        + "<w:tbl>"
        + row.format(paragraph("a"), paragraph("b"))
        + row.format(paragraph("1"), paragraph("2"))
        + "</w:tbl>"
    )
    core = (
        "<dc:title>T</dc:title><dc:creator>A</dc:creator><dcterms:modified>"
        "2024-05-06T00:00:00Z</dcterms:modified>"
    )
    page = page_of(docx(body, core=core), URL)
    assert page.markdown == "# 見出し\n\nSome words.\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"
    assert (page.title, page.author, page.date, page.way) == ("T", "A", "2024-05-06T00:00:00Z", "docx")


def test_sheets() -> None:
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    sheet.title = "売上"
    for row in (["月", "額"], ["一月", 10], [None, None], ["二|月", 2.5]):
        sheet.append(row)
    many = book.create_sheet("Many")
    for nth in range(1500):
        many.append([nth, "x"])
    file = io.BytesIO()
    book.save(file)
    page = page_of(file.getvalue(), URL)
    assert page.markdown.startswith(
        "## 売上\n\n| 月 | 額 |\n| --- | --- |\n| 一月 | 10 |\n| 二\\|月 | 2.5 |\n\n## Many\n\n| 0 | x |"
    )
    assert said(page) == ["Many: 1000 of 1499 rows are shown."]


def test_slides() -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "題"
    frame = slide.placeholders[1].text_frame
    frame.text = "one"
    inner = frame.add_paragraph()
    inner.text, inner.level = "two", 1
    slide.notes_slide.notes_text_frame.text = "say this"
    file = io.BytesIO()
    deck.save(file)
    assert page_of(file.getvalue(), URL).markdown == "## 1. 題\n\n- one\n  - two\n\n> say this"


def test_a_book() -> None:
    page = page_of(epub(["<h1>一</h1><p>one</p>", "<h1>二</h1><p>two</p>"]), URL)
    assert page.markdown == "# 一\n\none\n\n# 二\n\ntwo"
    assert (page.title, page.author, page.lang, page.date, page.way) == (
        "本の題", "A. Writer", "ja", "2024-05-06", "epub",
    )  # fmt: skip


@pytest.mark.heavy("conversion in real processes")
def test_archives_that_would_unpack_to_too_much_are_refused() -> None:
    assert cause(zipped({"word/document.xml": bytes(70_000_000)})) == "large"
    assert cause(zipped({"word/document.xml": b"<a/>", "word/media/x.bin": bytes(310_000_000)})) == "large"
    assert cause(zipped({"xl/workbook.xml": b"<a/>", **{f"x{nth}": b"" for nth in range(20_001)}})) == "large"


@pytest.mark.parametrize(
    "kind", ["word/document.xml", "xl/workbook.xml", "ppt/presentation.xml", "META-INF/container.xml"]
)
def test_broken_archives_are_told(kind: str) -> None:
    assert cause(zipped({kind: "<no"})) == "broken"
    laughs = (
        '<!DOCTYPE a [<!ENTITY a "'
        + "ha" * 1000
        + '"><!ENTITY b "'
        + "&a;" * 1000
        + '">]><a>'
        + "&b;" * 1000
        + "</a>"
    )
    assert cause(zipped({kind: laughs})) == "broken"


def test_cut_and_changed_files_never_raise_anything_else() -> None:
    chance = random.Random(8)
    files = [pdf([LONG]), docx(paragraph("x")), epub(["<p>x</p>"]), image("JPEG", (60, 60), noise=True)]
    for body in files:
        for _ in range(40):
            changed = bytearray(body[: chance.randint(10, len(body))])
            for _ in range(chance.randint(0, 12)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            with contextlib.suppress(ReadError):
                assert isinstance(page_of(bytes(changed), URL), Page)
