"""What a thing is: by its bytes, by what the server says, by its name."""

from __future__ import annotations

import pytest

from tabane.errors import ReadError
from tabane.reader.formats import page_of
from tabane.reader.formats.media_type_detection import zipped_kind
from tests.reader.formats.files import pdf, png_head, zipped

URL = "https://example.org/"
PAGE = b"<!doctype html><title>T</title><article><h1>T</h1><p>Some words of a page.</p></article>"
PDF = pdf([[(12, 72, 700, "Words")]])
PNG = png_head(2, 2)


@pytest.mark.parametrize(
    ("body", "media", "url", "way"),
    [
        (PAGE, "text/html", "a", "extracted"),
        (PAGE, "application/xhtml+xml", "a", "extracted"),
        (PAGE, "", "a", "extracted"),
        (b"<html><body><p>x</p></body></html>", "application/octet-stream", "a", "extracted"),
        (PAGE, "text/plain", "a", "plain"),
        (b"# a", "text/markdown; charset=utf-8", "a", "markdown"),
        (b"# a", "text/plain", "README.md", "markdown"),
        (b"# a", "", "README.md?x=1", "markdown"),
        (b"# a", "text/plain", "a", "plain"),
        (b'{"a": 1}', "application/json", "a", "json"),
        (b'{"a": 1}', "application/vnd.api+json", "a", "json"),
        (b'{"a": 1}', "text/html", "a", "json"),
        (b'{"a": 1}', "", "a", "json"),
        (b'{"a": 1}', "text/plain", "a.json", "json"),
        (b'{"a": 1}\n{"a": 2}', "", "a.jsonl", "json"),
        (b"<a><b/></a>", "application/xml", "a", "xml"),
        (b"<?xml version='1.0'?><a/>", "", "a", "xml"),
        (b"<svg xmlns='x'/>", "image/svg+xml", "a", "xml"),
        (b"<rss><channel><title>x</title></channel></rss>", "application/rss+xml", "a", "feed"),
        (b"<feed><title>x</title></feed>", "text/xml", "a", "feed"),
        (b"a,b\n1,2", "text/csv", "a", "csv"),
        (b"a\tb\n1\t2", "text/plain", "a.tsv", "csv"),
        (b"x = 1", "text/x-python", "a", "plain"),
        (b"x = 1", "text/plain", "a.py", "plain"),
        (PDF, "application/pdf", "a", "pdf"),
        (PDF, "application/octet-stream", "a", "pdf"),
        (PDF, "text/html", "a", "pdf"),
    ],
)
def test_kinds(body: bytes, media: str, url: str, way: str) -> None:
    assert page_of(body, URL + url, media).way == way


def test_the_name_of_a_file_goes_before_its_url() -> None:
    assert page_of(b"a,b\n1,2", "file:///x", name="x.csv").way == "csv"


@pytest.mark.parametrize(
    ("body", "media", "said"),
    [
        (b"\x00\x01\x02\x03" * 9, "", "application/octet-stream"),
        (b"\x00\x01\x02\x03" * 9, "application/x-custom", "application/x-custom"),
        (zipped({"a.txt": "x"}), "application/zip", "application/zip"),
        (b"\x1f\x8b\x08rest", "", "application/gzip"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1rest", "application/msword", "application/x-ole-storage"),
        (b"OggS rest", "audio/ogg", "audio/ogg"),
        (b"\x00\x00\x00\x20ftypisom", "video/mp4", "video/mp4"),
        (b"plain words", "video/mp4", "video/mp4"),
    ],
)
def test_what_nothing_reads_is_named(body: bytes, media: str, said: str) -> None:
    with pytest.raises(ReadError, match=said) as raised:
        page_of(body, URL, media)
    assert raised.value.cause == "type"


@pytest.mark.parametrize(
    ("mimetype", "kind"),
    [
        ("application/vnd.oasis.opendocument.text", "odt"),
        ("application/vnd.oasis.opendocument.text-template", "odt"),
        ("application/vnd.oasis.opendocument.spreadsheet", "ods"),
        ("application/vnd.oasis.opendocument.presentation", "odp"),
        ("application/vnd.oasis.opendocument.graphics", None),
        ("application/epub+zip", None),
    ],
)
def test_the_kind_of_an_open_document_is_in_its_first_file(mimetype: str, kind: str | None) -> None:
    assert zipped_kind(zipped({"mimetype": mimetype, "content.xml": "<a/>"})) == kind


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["word/document.xml"], "docx"),
        (["xl/workbook.xml"], "xlsx"),
        (["ppt/presentation.xml"], "pptx"),
        (["META-INF/container.xml"], "epub"),
        (["[Content_Types].xml", "word/document2.xml"], "docx"),
        (["[Content_Types].xml", "xl/workbook.bin"], None),
        (["word/document2.xml"], None),
        (["a.txt"], None),
    ],
)
def test_the_kind_of_an_archive_is_in_its_index(names: list[str], kind: str | None) -> None:
    assert zipped_kind(zipped(dict.fromkeys(names, "<a/>"))) == kind
    assert zipped_kind(b"PK\x03\x04 and nothing else") is None
