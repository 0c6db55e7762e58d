"""Images without Pillow: small ones are passed on, large ones are refused with the command that helps."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tabane.errors import ReadError
from tabane.extras import extra_command
from tabane.reader.formats.images import image_header, unscaled_page

URL = "https://example.com/a.png"


def drawn(form: str, size: tuple[int, int] = (37, 21), **options: Any) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, "navy").save(file, form, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("PNG", {}),
        ("GIF", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True, "comment": "x" * 60_000}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0"}),
    ],
)
def test_type_and_size_are_read_as_pillow_reads_them(form: str, options: dict[str, Any]) -> None:
    assert image_header(drawn(form, **options)) == (form, 37, 21)


def test_a_small_image_is_passed_on_unchanged() -> None:
    body = drawn("PNG")
    page = unscaled_page(body, URL, "a")
    assert page.pictures[0].data == body
    assert "PNG, 37 × 21" in page.markdown


@pytest.mark.parametrize("body", [drawn("PNG", (8001, 2)), drawn("PNG") + b"\0" * 1_000_000])
def test_a_large_image_is_refused_with_the_command_that_helps(body: bytes) -> None:
    with pytest.raises(ReadError, match="images") as caught:
        unscaled_page(body, URL, "a")
    assert caught.value.cause == "large"
    assert extra_command("images") in str(caught.value)


@pytest.mark.parametrize("body", [drawn("TIFF"), drawn("BMP"), b"", drawn("PNG")[:20], drawn("JPEG")[:30]])
def test_other_formats_and_broken_images_are_refused(body: bytes) -> None:
    with pytest.raises(ReadError, match="images"):
        unscaled_page(body, URL, "a")


@given(st.sampled_from([b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF1234WEBP", b"\xff\xd8\xff"]), st.binary())
def test_any_bytes_are_taken(start: bytes, rest: bytes) -> None:
    image_header(start + rest)
