"""Type and size of an image, read from its first bytes; pure. What Pillow does where it is not installed."""

from __future__ import annotations

import struct
from typing import NamedTuple

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
        size = _size(body)
    except (struct.error, IndexError):
        return None
    return None if size is None or 0 in size[1:] else size


def _size(body: bytes) -> ImageHeader | None:
    if body.startswith(b"\x89PNG\r\n\x1a\n") and body[12:16] == b"IHDR":
        return ImageHeader("PNG", *struct.unpack_from(">II", body, 16))
    if body.startswith((b"GIF87a", b"GIF89a")):
        return ImageHeader("GIF", *struct.unpack_from("<HH", body, 6))
    if body.startswith(b"RIFF") and body[8:12] == b"WEBP":
        return _webp(body)
    return _jpeg(body) if body.startswith(b"\xff\xd8\xff") else None


def _jpeg(body: bytes) -> ImageHeader | None:
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


def _webp(body: bytes) -> ImageHeader | None:
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
