"""Images, scaled down to what a model accepts.

Pillow scales them. Without it, an image that is small enough is passed on as it is; its type and size
are read from its first bytes.
"""

from __future__ import annotations

import importlib.util
import io
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tabane.errors import ReadError
from tabane.extras import extra_command
from tabane.messages import say
from tabane.reader.formats.ocr import GrayPicture, TextRecognizer, can_recognize, recognized_markdown
from tabane.reader.formats.text import broken, too_large
from tabane.reader.markdown import spans
from tabane.reader.page import Page, Picture

if TYPE_CHECKING:
    from PIL.Image import Image

_MOST_SEGMENTS = 1_000  # of a JPEG before its size: metadata in parts of 64 KB
_STANDALONE = {0x01, *range(0xD0, 0xD8)}  # markers of a JPEG without a length
_TABLES = {0xC4, 0xC8, 0xCC}  # look like frames and are none


class ImageHeader(NamedTuple):
    """``form`` is PNG, JPEG, GIF or WEBP; ``wide`` and ``high`` are pixels."""

    form: str
    wide: int
    high: int


def image_header(body: bytes) -> ImageHeader | None:
    """Return the header of an image; None for other formats, and for one that breaks off."""
    try:
        size: ImageHeader | None = None
        if body.startswith(b"\x89PNG\r\n\x1a\n") and body[12:16] == b"IHDR":
            size = ImageHeader("PNG", *struct.unpack_from(">II", body, 16))
        elif body.startswith((b"GIF87a", b"GIF89a")):
            size = ImageHeader("GIF", *struct.unpack_from("<HH", body, 6))
        elif body.startswith(b"RIFF") and body[8:12] == b"WEBP":
            size = _webp_header(body)
        elif body.startswith(b"\xff\xd8\xff"):
            size = _jpeg_header(body)
    except (struct.error, IndexError):
        return None
    return None if size is None or 0 in size[1:] else size


def _jpeg_header(body: bytes) -> ImageHeader | None:
    """Follow the segments of a JPEG to its frame header (ITU-T T.81, B.2.2)."""
    at = 2
    for _ in range(_MOST_SEGMENTS):
        while body[at] == 0xFF and body[at + 1] == 0xFF:  # fill bytes
            at += 1
        marker = body[at + 1]
        if body[at] != 0xFF or marker == 0xD9:
            return None
        if marker in _STANDALONE:
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in _TABLES:
            high, wide = struct.unpack_from(">HH", body, at + 5)
            return ImageHeader("JPEG", wide, high)
        else:
            at += 2 + struct.unpack_from(">H", body, at + 2)[0]
    return None


def _webp_header(body: bytes) -> ImageHeader | None:
    """Read the three kinds of WebP: lossy (RFC 6386, 9.1), lossless, and extended (RFC 9649, 2)."""
    kind = body[12:16]
    if kind == b"VP8 ":
        wide, high = struct.unpack_from("<HH", body, 26)
        return ImageHeader("WEBP", wide & 0x3FFF, high & 0x3FFF)
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", body, 21)[0]
        return ImageHeader("WEBP", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8X":
        wide, high = (int.from_bytes(body[at : at + 3], "little") + 1 for at in (24, 27))
        return ImageHeader("WEBP", wide, high)
    return None


_SIDE = 1568  # pixels of the longer side: models scale down larger ones
_WIDEST = 8000  # pixels that models accept, and scale down themselves
_BYTES = 1_000_000
_PIXELS = 50_000_000  # of an image that is decoded whole: 200 MB
_PASSED = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
_QUALITIES = (88, 75, 60, 40)


def image_page(body: bytes, url: str, name: str) -> Page:
    """Return the image as a picture, its size in the text. Raises ReadError ``large`` for one that would
    not fit.
    """
    if importlib.util.find_spec("PIL") is None:
        return unscaled_page(body, url, name)
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(body)) as image:
            wide, high = image.size
            form = image.format or ""
            picture = _picture_of(image, body)
        text = _recognized_text(body) if can_recognize() else ""
    except Image.DecompressionBombError:
        raise too_large(_IMAGE, "179 MP", f"{_PIXELS // 1_000_000} MP") from None
    except UnidentifiedImageError:
        raise ReadError(say("Images of this type cannot be read."), "type") from None
    except (OSError, SyntaxError, ValueError) as error:
        raise broken(_IMAGE, error) from None
    page = _image_page_of(url, name, f"{form}, {wide} × {high}", Image.MIME.get(form, "image/*"), picture)
    if not text:
        return page
    warning = say("The text below the image was recognized in it (OCR), and may have errors.")
    return replace(page, markdown=f"{page.markdown}\n\n{text}", warnings=(warning,))


def unscaled_page(body: bytes, url: str, name: str) -> Page:
    """Return the image as it is, without Pillow. Raises ReadError if it would have to be scaled down."""
    header = image_header(body)
    if header is None:
        raise ReadError(
            say(
                "Reading {type} needs an extra package. Install it with: {command}",
                type=say("images of this type"),
                command=extra_command("images"),
            ),
            "type",
        )
    size = f"{header.wide} × {header.high}"
    if max(header.wide, header.high) > _WIDEST or len(body) > _BYTES:
        raise ReadError(
            say(
                "The image is too large to pass on as it is: {size}, {bytes:,} {bytes:byte|bytes}. To "
                "scale images down, install an extra package: {command}",
                size=size,
                bytes=len(body),
                command=extra_command("images"),
            ),
            "large",
        )
    media_type = _PASSED[header.form]
    return _image_page_of(url, name, f"{header.form}, {size}", media_type, Picture(media_type, body))


def _image_page_of(url: str, name: str, facts: str, media_type: str, picture: Picture) -> Page:
    words = spans.label(spans.inline(name))
    text = f"![{words}]({url})\n\n{facts}"
    return Page(url, text, title=name or None, way="image", media_type=media_type, pictures=(picture,))


_IMAGE = say("image")


def _picture_of(image: Image, body: bytes) -> Picture:
    wide, high = image.size
    if max(wide, high) <= _SIDE and len(body) <= _BYTES and image.format in _PASSED:
        image.load()  # a broken image must fail here, not at the assistant
        if image.getexif().get(0x0112, 1) in (0, 1):  # else it lies as the camera was held
            return Picture(_PASSED[image.format], body)
    if image.format == "JPEG":
        image.draft("RGB", (_SIDE * 2, _SIDE * 2))  # decodes at a fraction of the size
    if image.size[0] * image.size[1] > _PIXELS:
        raise too_large(_IMAGE, f"{wide} × {high}", f"{_PIXELS // 1_000_000} MP")
    from PIL import ImageOps

    drawn = image.mode in ("P", "1", "L", "LA", "PA") or "transparency" in image.info
    clear = drawn or image.mode.endswith("A")
    small = image.convert("RGBA" if clear else "RGB")
    small.thumbnail((_SIDE, _SIDE))
    small = ImageOps.exif_transpose(small)
    if clear:
        file = io.BytesIO()
        small.save(file, "PNG", optimize=True)
        if file.tell() <= _BYTES:
            return Picture("image/png", file.getvalue())
    if small.mode != "RGBA":
        return _compress(small)
    from PIL import Image as images

    on_white = images.new("RGB", small.size, "white")
    on_white.paste(small, mask=small.getchannel("A"))
    return _compress(on_white)


_FRAMES = 20  # of a fax or a scan as TIFF
_READING = 20.0  # seconds for the text of an image
_LONG_SIDE = 3400  # pixels at which a page is read: A4 at 290 dpi
_SMALL_SIDE = 1700  # a screenshot has letters that are too small for OCR


def _recognized_text(body: bytes) -> str:
    """Return the text that OCR reads in an image, as Markdown; of a TIFF that of its first pages."""
    from PIL import Image, ImageOps

    recognizer = TextRecognizer(_READING)
    parts: list[str] = []
    with Image.open(io.BytesIO(body)) as image:
        for frame in range(min(getattr(image, "n_frames", 1), _FRAMES) if image.format == "TIFF" else 1):
            if frame:
                image.seek(frame)
            if image.format == "JPEG":
                image.draft("L", (_LONG_SIDE, _LONG_SIDE))
            if image.size[0] * image.size[1] > _PIXELS:
                break
            clear = (
                image.convert("RGBA") if image.mode.endswith("A") or "transparency" in image.info else None
            )
            if clear is None:
                gray = image.convert("L")
            else:
                gray = Image.new("L", image.size, 255)
                gray.paste(clear.convert("L"), mask=clear.getchannel("A"))
            gray = ImageOps.exif_transpose(gray)
            longer = max(gray.size)
            if longer > _LONG_SIDE:
                gray.thumbnail((_LONG_SIDE, _LONG_SIDE))
            elif longer < _SMALL_SIDE:
                gray = gray.resize((gray.width * 2, gray.height * 2))
            paragraphs = recognizer.paragraphs(GrayPicture(*gray.size, gray.tobytes()))
            if paragraphs is None:
                break
            parts.append(recognized_markdown(paragraphs))
    return "\n\n".join(part for part in parts if part)


def _compress(image: Image) -> Picture:
    """Return a JPEG of the best quality within the limit; scale down if the lowest quality is too large."""
    while True:
        for quality in _QUALITIES:
            file = io.BytesIO()
            image.save(file, "JPEG", quality=quality)
            if file.tell() <= _BYTES:
                return Picture("image/jpeg", file.getvalue())
        image = image.resize((max(1, image.width // 2), max(1, image.height // 2)))
