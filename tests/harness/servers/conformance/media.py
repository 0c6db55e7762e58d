"""The smallest picture and sound that are valid, made here so that no data lie about."""

from __future__ import annotations

import base64
import io
import struct
import wave
import zlib


def picture() -> str:
    """One red pixel as PNG, in base64."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\x00\x00")
    chunks = b"".join(
        _chunk(kind, data) for kind, data in ((b"IHDR", header), (b"IDAT", pixel), (b"IEND", b""))
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunks).decode()


def sound() -> str:
    """A hundredth of a second of silence as WAV, in base64."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(8000)
        writer.writeframes(bytes(160))
    return base64.b64encode(file.getvalue()).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
